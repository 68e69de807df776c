"""Sessions that are exported from one store and imported into another: whole and checked, or not at all."""

# ruff: noqa: ASYNC240 - files are what these tests are about

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from windlass import Agent, Attachment, Runtime, Text, tool
from windlass.errors import (
    FormatUnsupported,
    IdempotencyConflict,
    InvalidInput,
    SessionDeleted,
    UnknownSession,
)
from windlass.guards.secret import REGISTERED, Secret, register_secret
from windlass.kernel import ModelRequest, ToolResult
from windlass.testing import FunctionModel, call, say

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 100
Lines = list[str]


def clerk(seen: list[ModelRequest] | None = None) -> Agent[None, str]:
    """An agent that adds when it is asked to, and counts the messages that it sees."""

    @tool(effect="pure")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def answer(request: ModelRequest) -> Any:  # noqa: ANN401 - a reply
        if seen is not None:
            seen.append(request)
        parts = request.messages[-1].parts
        if any(isinstance(part, ToolResult) for part in parts):
            return say("Added.")
        words = "".join(part.text for part in parts if isinstance(part, Text))
        return call("add", a=1, b=2) if "add" in words else say(f"You said: {words}")

    return Agent("clerk", model=FunctionModel(answer), tools=[add])


async def export(tmp_path: Path) -> Lines:
    """Let a session have three turns, one with a tool and one with an attachment; return it as text."""
    image = Attachment.from_bytes(PNG, media_type="image/png", name="p.png")
    async with Runtime(clerk(), store=f"sqlite:///{tmp_path}/a.db") as rt:
        session = rt.session("ada")
        await session.run("hello", turn_id="t1")
        await session.run("add them", turn_id="t2")
        await session.run([Text(text="look"), image], turn_id="t3")
        return await rt.export_session("ada")


@pytest.fixture(params=["memory:", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/b.db" if request.param == "sqlite" else "memory:"


async def test_the_next_turn_goes_on_from_an_imported_history(tmp_path: Path, store: str) -> None:
    lines = await export(tmp_path)
    seen: list[ModelRequest] = []
    async with Runtime(clerk(seen), store=store) as rt:
        session = await rt.import_session(lines, id="bob")
        history = await session.history()
        result = await session.run("and now?", turn_id="t4")
        past = await rt.turn("bob", "t2").result()
        image = await rt._services.store.get_blob(history[-2].parts[1].ref)  # type: ignore[union-attr]  # an attachment

    said = [[part.text for part in one.parts if isinstance(part, Text)] for one in history]
    assert said == [
        ["hello"], ["You said: hello"], ["add them"], [], [], ["Added."], ["look"], ["You said: look"],
    ]  # fmt: skip
    assert result.text == "You said: and now?"
    assert [message.role for message in seen[0].messages] == [one.role for one in history] + [
        "user"
    ]
    assert (past.status, past.text) == ("done", "Added.")
    assert image == PNG


async def test_what_was_used_elsewhere_does_not_count_here(tmp_path: Path, store: str) -> None:
    lines = await export(tmp_path)
    async with Runtime(clerk(), store=store) as rt:
        session = await rt.import_session(lines)
        assert (await session.usage()).calls == 0
        assert (await rt.usage()).calls == 0
        await session.run("hello", turn_id="t4")
        assert (await session.usage()).calls == 1


async def test_a_turn_that_is_sent_again_after_the_import_is_known(
    tmp_path: Path, store: str
) -> None:
    lines = await export(tmp_path)
    async with Runtime(clerk(), store=store) as rt:
        session = await rt.import_session(lines)
        assert (await session.run("hello", turn_id="t1")).text == "You said: hello"
        with pytest.raises(IdempotencyConflict):
            await session.run("something else", turn_id="t1")
        assert len(await session.history()) == 8


async def test_an_import_is_told_to_none_who_watch(tmp_path: Path, store: str) -> None:
    lines = await export(tmp_path)
    async with Runtime(clerk(), store=store) as rt:
        mark = (await rt._services.store.changes(None)).mark
        await rt.import_session(lines)
        assert (await rt._services.store.changes(mark)).changes == ()
        await rt.session("bob").run("hello", turn_id="t")
        told = (await rt._services.store.changes(mark)).changes
        assert [
            (one.kind, one.session_id) for one in told if one.kind in ("accepted", "ended")
        ] == [
            ("accepted", "bob"),
            ("ended", "bob"),
        ]


async def test_an_imported_session_is_exported_as_it_came(tmp_path: Path, store: str) -> None:
    lines = await export(tmp_path)
    async with Runtime(clerk(), store=store) as rt:
        await rt.import_session("\n".join(lines) + "\n")
        assert await rt.export_session("ada") == lines


async def test_an_id_that_is_taken_is_refused(tmp_path: Path, store: str) -> None:
    lines = await export(tmp_path)
    async with Runtime(clerk(), store=store) as rt:
        await rt.session("ada").run("mine", turn_id="t")
        with pytest.raises(IdempotencyConflict, match="exists already"):
            await rt.import_session(lines)
        assert len(await rt.session("ada").history()) == 2
        await rt.session("ada").delete()
        with pytest.raises(SessionDeleted):
            await rt.import_session(lines)
        assert (await rt.import_session(lines, id="other")).id == "other"


async def test_a_fork_is_exported_with_what_it_shares(tmp_path: Path, store: str) -> None:
    await export(tmp_path)
    async with Runtime(clerk(), store=f"sqlite:///{tmp_path}/a.db") as rt:
        fork = await rt.session("ada").fork(at=1, id="fork")
        await fork.run("my own first", turn_id="t1")
        lines = await rt.export_session("fork")
    async with Runtime(clerk(), store=store) as rt:
        session = await rt.import_session(lines)
        assert len(await session.history()) == 4
        assert (await rt.turn("fork", "t1").result()).text == "You said: my own first"


async def test_an_approval_that_was_remembered_elsewhere_is_not_taken_over(
    tmp_path: Path, store: str
) -> None:
    def agent() -> Agent[None, str]:
        @tool(effect="pure", approval="ask")
        def look() -> str:
            """Look."""
            return "seen"

        def answer(request: ModelRequest) -> Any:  # noqa: ANN401 - a reply
            parts = request.messages[-1].parts
            return (
                say("done") if any(isinstance(one, ToolResult) for one in parts) else call("look")
            )

        return Agent("clerk", model=FunctionModel(answer), tools=[look])

    async with Runtime(agent(), store=f"sqlite:///{tmp_path}/a.db") as rt:
        parked = await rt.session("ada").run("go", turn_id="t1")
        await rt.approve(parked.waits[0].key, remember="session")
        assert (await rt.turn("ada", "t1").result()).status == "done"
        assert (await rt.session("ada").run("again", turn_id="t2")).status == "done"
        lines = await rt.export_session("ada")
    async with Runtime(agent(), store=store) as rt:
        session = await rt.import_session(lines)
        assert (await session.run("again", turn_id="t3")).status == "parked"


@pytest.fixture
def _registered_hello() -> Iterator[None]:
    yield
    REGISTERED.know(())


@pytest.mark.usefixtures("_registered_hello")
async def test_a_secret_that_is_registered_here_is_cleaned_on_the_way_in(
    tmp_path: Path, store: str
) -> None:
    lines = await export(tmp_path)
    register_secret(Secret("You said: hello", name="greeting"))
    async with Runtime(clerk(), store=store) as rt:
        session = await rt.import_session(lines)
        history = await session.history()
    texts = [part.text for one in history for part in one.parts if isinstance(part, Text)]
    assert len(texts) == 6
    assert not any("You said: hello" in text for text in texts)
    assert not any(
        b"You said: hello" in file.read_bytes() for file in tmp_path.glob("b.db*") if file.is_file()
    )


# --- damaged archives -------------------------------------------------------------------------------------------


def without(at: int) -> Callable[[Lines], Lines]:
    return lambda lines: lines[:at] + lines[at + 1 :]


def changed(at: int, old: str, new: str) -> Callable[[Lines], Lines]:
    def change(lines: Lines) -> Lines:
        assert old in lines[at]
        return [*lines[:at], lines[at].replace(old, new, 1), *lines[at + 1 :]]

    return change


def sealed(before: str, record: dict[str, Any]) -> str:
    """Return the digest of a line, as the guide describes it."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256((before + text).encode()).hexdigest()


async def test_the_digest_of_a_line_covers_it_and_the_digest_before(tmp_path: Path) -> None:
    digest = ""
    for line in await export(tmp_path):
        record = json.loads(line)
        told = record.pop("digest")
        digest = sealed(digest, record)
        assert told == digest


def with_field(at: int, **fields: object) -> Callable[[Lines], Lines]:
    """Change fields of a line, and seal all lines again, as one would who knows how."""

    def change(lines: Lines) -> Lines:
        records = [json.loads(line) for line in lines]
        records[at] |= fields
        digest = ""
        for record in records:
            del record["digest"]
            digest = sealed(digest, record)
            record["digest"] = digest
        return [json.dumps(record) for record in records]

    return change


DAMAGE: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "nothing": (lambda _: [], "line 1: found nothing"),
    "no archive": (lambda _: ["hello"], "line 1: JSON: "),
    "another file": (lambda _: ['{"a": 1}'], "line 1: kind: "),
    "a line is missing": (without(2), "line 3: digest: "),
    "the last line is missing": (without(4), "line 1: turns: found 3 of 4 lines"),
    "a line comes twice": (lambda lines: [*lines, lines[-1]], "line 6: digest: "),
    "lines change places": (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "line 2: digest: "),
    "a word is changed": (changed(1, "hello", "hollo"), "line 2: digest: "),
    "a line is cut off": (lambda lines: [*lines[:-1], lines[-1][:50]], "line 5: JSON: "),
    "a name comes twice": (changed(1, "{", '{"kind":"turn",'), "line 2: JSON: "),
    "no digest": (changed(1, '"digest"', '"digestive"'), "line 2: digest: "),
    "a field too many": (with_field(1, more=1), "line 2: turn: .*more"),
    "a count that is text": (with_field(0, turns="3"), "line 1: session: .*turns"),
    "an id that is none": (with_field(0, session="a/b"), "line 1: .*session_id"),
    "a page of another turn": (with_field(1, turn="t9"), "line 2: turn: the page is of another turn"),
    "a page that is none": (with_field(1, page={"format": 1}), "line 2: "),
    "a blob of other bytes": (with_field(4, data="AAAA"), "line 5: data: its bytes are not those"),
    "a blob that is not base64": (with_field(4, data="%"), "line 5: data: wanted base64"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
async def test_a_damaged_archive_is_refused_whole_and_says_where(
    tmp_path: Path, store: str, name: str
) -> None:
    harm, said = DAMAGE[name]
    lines = await export(tmp_path)
    async with Runtime(clerk(), store=store) as rt:
        with pytest.raises(InvalidInput, match=said) as refusal:
            await rt.import_session(harm(lines))
        assert refusal.value.field
        assert await rt.sessions() == ()
        with pytest.raises(UnknownSession):
            await rt.session("ada").history()


async def test_an_attachment_that_is_missing_is_named(tmp_path: Path, store: str) -> None:
    lines = await export(tmp_path)
    lines = with_field(0, blobs=0)(lines[:4])
    async with Runtime(clerk(), store=store) as rt:
        with pytest.raises(
            InvalidInput, match=r"line 4: page: the attachment [0-9a-f]{64} is missing"
        ):
            await rt.import_session(lines)
        assert await rt.sessions() == ()


async def test_a_history_that_no_turn_could_go_on_from_is_refused(
    tmp_path: Path, store: str
) -> None:
    lines = await export(tmp_path)
    page = json.loads(lines[2])["page"]
    page["nodes"] = page["nodes"][:2]  # the call stays, its result goes
    async with Runtime(clerk(), store=store) as rt:
        with pytest.raises(InvalidInput, match="the last frame of the history"):
            await rt.import_session(with_field(2, page=page)(lines))
        assert await rt.sessions() == ()


@pytest.mark.parametrize(("number", "hint"), [(2, "update windlass"), (None, "export again")])
async def test_an_archive_of_another_format_is_refused(
    tmp_path: Path, store: str, number: int | None, hint: str
) -> None:
    lines = await export(tmp_path)
    async with Runtime(clerk(), store=store) as rt:
        with pytest.raises(FormatUnsupported, match=hint):
            await rt.import_session(with_field(0, format=number)(lines))
