"""I25: a registered secret is nowhere in the files, however it came and in whatever spelling, nor in an error.

Length: one claim about every door of a store.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.runtime import turns
from tests.runtime.turns import (
    GENERATION,
    UNTIL_MS,
    begin,
    ending,
    intent,
    new_turn,
    reply,
    result,
    unit,
)
from tests.unit_shortcuts import UnitShortcuts
from windlass.errors import InvalidInput, WindlassError
from windlass.guards.secret import Secret, register_secret
from windlass.journal import Claimed, JournalPage, Recorded, TurnStarted
from windlass.kernel.messages import Text
from windlass.kernel.outcomes import Finished
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    NewItem,
    NewTurn,
    PostItem,
    TurnRequest,
    Wait,
    WaitAnswer,
)
from windlass.ports.views import fold_journal
from windlass.stores.sqlite import SqliteStore

SECRETS = {
    "plain": "sk-canary-4711-aZ",
    "with quotes": 'pa"ss"word-1',
    "with backslashes": "pa\\ss\\word-2",
    "with a newline": "line one\nline two-3",
    "with a tab": "tab\there-4",
    "not ASCII": "pässwörd-straße-5",
    "beyond the basic plane": "key-🔑-🗝-6",
    "with slashes and plus": "a/b+c=d&e?f-7",
    "with a space": "two words-8",
    "with a control character": "bell\x07rings-9",
}
NAME = "API_KEY"


def spellings(secret: str) -> dict[str, str]:
    """Return how a secret is written by those who encode it, each made by another encoder than windlass's."""
    found = {
        "raw": secret,
        "url": urllib.parse.quote(secret, safe=""),
        "url with slashes": urllib.parse.quote(secret),
        "form": urllib.parse.quote_plus(secret),
    }
    for offset in range(3):
        coded = base64.b64encode(b"abc"[:offset] + secret.encode() + b"xyz").decode()
        found[f"base64 at {offset}"] = coded
    return found


def traces(secret: str) -> dict[str, bytes]:
    """Return the bytes by which a secret is found at rest."""
    found = {
        "raw": secret.encode(),
        "JSON": json.dumps(secret, ensure_ascii=False)[1:-1].encode(),
        "ASCII JSON": json.dumps(secret)[1:-1].encode(),
        "JSON in JSON": json.dumps(json.dumps(secret, ensure_ascii=False), ensure_ascii=False)[
            3:-3
        ].encode(),
        "url": urllib.parse.quote(secret, safe="").encode(),
    }
    raw = secret.encode()
    for offset in range(3):
        # What depends on nothing but the secret: whole characters of its own bytes.
        first = -offset % 3
        core = raw[first : first + (len(raw) - first) // 3 * 3]
        found[f"base64 at {offset}"] = base64.b64encode(core)
    return found


def found_in(folder: Path, secret: str) -> list[str]:
    """Return where a secret can be read, and in which spelling."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(
        f"{path.name}: {spelling}"
        for path in files
        for spelling, trace in traces(secret).items()
        if trace in path.read_bytes()
    )


def open_store(path: Path, secret: str) -> SqliteStore:
    register_secret(Secret(secret, name=NAME))
    return SqliteStore(path)


async def write_everywhere(store: SqliteStore, text: str) -> None:
    """Put a text wherever somebody else's words are kept."""
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    long = f"{text} and so on " * 200
    request = TurnRequest(
        input=(Text(text=text), Text(text=long)), context={"k": text}, overrides={"o": [text]}
    )
    await store.accept("a", "t1", NewTurn(agent="helper", request=request))
    await UnitShortcuts(store).start("a", "t1", turns.begins(worker), generation=GENERATION)
    await store.submit(
        unit(
            "a",
            0,
            TurnStarted(agent="helper", model="m", instructions=long, context={"c": text}),
            reply("a", 0, text=text),
            reply("a", 1, text=long),
            intent("a", 0, args={"url": text, text: "a key"}),
        )
    ).durable()
    wait = Wait(
        key="w_1", kind="approval", session_id="a", turn_id="t1", title=text, detail={"d": text}
    )
    returned = result("a", 0, value={"body": text, "long": long}, args={"url": text, text: "a key"})
    second = Wait(key="w_2", kind="child", session_id="a", turn_id="t1")
    await store.submit(unit("a", 1, returned, waits=(wait, second))).durable()
    asked = NewTurn(agent="helper", request=request, submitter=text, by=text)
    errands = (
        AcceptTurn(session_id="c", turn_id="t1", turn=asked, kind="child"),
        PostItem(session_id="c", item=NewItem(item_id="i1", content={"in": long})),
        AnswerWait(key="w_2", answer=WaitAnswer(value=text, by="c")),
        CancelTurn(session_id="c", turn_id="t1", reason=text),
    )
    sent = await store.submit(unit("a", 2, errands=errands)).durable()
    assert [one.status for one in sent.errands] == ["done"] * 4
    await store.resolve_wait("w_1", WaitAnswer(value={"answer": text}, by="ann"))
    await store.enqueue("a", NewItem(item_id="i1", content={"in": text}))
    end = ending(text)
    follow_up = NewItem(item_id="i2", when="next_turn", content=[text])
    end = type(end)(
        expected_head=0,
        nodes=end.nodes,
        outcome=Finished(text=long),
        follow_ups=(follow_up,),
    )
    await UnitShortcuts(store).commit("a", "t1", end, generation=GENERATION)


@pytest.mark.parametrize("name", SECRETS)
async def test_a_secret_is_nowhere_at_rest(tmp_path: Path, name: str) -> None:
    secret = SECRETS[name]
    store = open_store(tmp_path / "w.db", secret)
    await store.open()
    for n, spelling in enumerate(spellings(secret).values()):
        session = f"{n}"
        worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
        await begin(store, session, worker, text=f"see {spelling} here")
        await store.submit(unit(session, 0, reply(session, 0, text=f"it is {spelling}!"))).durable()
    await write_everywhere(store, f"the key is {secret}, keep it")

    leaks = found_in(tmp_path, secret)
    await store.close()

    assert leaks == []
    assert found_in(tmp_path, secret) == []


@pytest.mark.parametrize("name", SECRETS)
async def test_a_secret_inside_encoded_text_is_nowhere_at_rest(tmp_path: Path, name: str) -> None:
    """A tool's result is often JSON inside text, a URL, or a header in base64."""
    secret = SECRETS[name]
    store = open_store(tmp_path / "w.db", secret)
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    texts = [
        json.dumps({"key": secret}),
        json.dumps({"key": secret}, ensure_ascii=False),
        f"https://x.test/?k={urllib.parse.quote_plus(secret)}",
        *(base64.b64encode(b"abc"[:at] + secret.encode() + b"!").decode() for at in range(3)),
        *(
            base64.urlsafe_b64encode(b"abc"[:at] + secret.encode() + b"!").decode()
            for at in range(3)
        ),
    ]
    entries = [reply("a", n, text=text) for n, text in enumerate(texts)]
    await store.submit(unit("a", 0, *entries)).durable()
    await store.close()

    assert found_in(tmp_path, secret) == []


@pytest.mark.parametrize("name", SECRETS)
async def test_what_was_redacted_loads_and_shows_the_placeholder(tmp_path: Path, name: str) -> None:
    secret = SECRETS[name]
    store = open_store(tmp_path / "w.db", secret)
    await store.open()
    await write_everywhere(store, f"the key is {secret}, keep it")
    clean = f"the key is [{NAME}], keep it"

    turn = await store.load_turn("a", "t1")
    session = await store.load_session("a")
    inbox = await store.inbox("a")
    await store.close()

    assert turn is not None
    assert turn.request is not None
    assert turn.request.input[0] == Text(text=clean)
    assert turn.request.context == {"k": clean}
    assert turns.said(turn)[0] == clean
    assert turn.waits[0].wait.title == clean
    assert turn.waits[0].answer is not None
    assert turn.waits[0].answer.value == {"answer": clean}
    assert [item.content for item in inbox.items] == [{"in": clean}, [clean]]
    assert clean in repr(session.pages[0].nodes)


async def test_a_secret_that_nobody_registered_is_caught(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "w.db")
    await store.open()
    await write_everywhere(store, SECRETS["plain"])
    await store.close()

    assert found_in(tmp_path, SECRETS["plain"]) != []


PLAIN = SECRETS["plain"]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = open_store(tmp_path / "w.db", PLAIN)
    await store.open()
    yield store
    await store.close()


# --- columns beside the pages ---------------------------------------------------------------------


async def test_the_reason_of_a_cancel_holds_no_secret(tmp_path: Path, store: SqliteStore) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    await store.request_cancel("a", "t1", reason=f"leaked {PLAIN}")

    assert found_in(tmp_path, PLAIN) == []


async def test_a_submitter_holds_no_secret(tmp_path: Path, store: SqliteStore) -> None:
    await store.accept("a", "t1", new_turn(submitter=f"key {PLAIN}"))

    assert found_in(tmp_path, PLAIN) == []


IDS: dict[str, Callable[[SqliteStore], Awaitable[object]]] = {
    "session": lambda store: store.accept(PLAIN, "t1", new_turn()),
    "turn": lambda store: store.accept("a", PLAIN, new_turn()),
    "item": lambda store: store.enqueue("a", NewItem(item_id=PLAIN)),
    "fork": lambda store: store.fork("a", PLAIN),
    "agent": lambda store: store.accept("z", "t9", NewTurn(agent=PLAIN, request=TurnRequest())),
}


@pytest.mark.parametrize("name", IDS)
async def test_a_secret_is_no_name(tmp_path: Path, store: SqliteStore, name: str) -> None:
    """A name cannot be redacted and stay a name, so it is refused."""
    await store.accept("a", "t0", new_turn())

    with pytest.raises(WindlassError) as refusal:
        await IDS[name](store)

    assert PLAIN not in shown(refusal.value)
    assert found_in(tmp_path, PLAIN) == []


# --- blobs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("size", ["row", "file"])
async def test_bytes_with_a_secret_are_refused(tmp_path: Path, name: str, size: str) -> None:
    secret = SECRETS[name]
    store = open_store(tmp_path / "w.db", secret)
    await store.open()
    padding = b"." * (2 * 1024 * 1024) if size == "file" else b""
    accepted, loud = [], list[str]()
    for spelling, text in [*spellings(secret).items(), ("JSON", json.dumps(secret)[1:-1])]:
        try:
            await store.put_blob(b"x" + text.encode() + padding, now_ms=1)
        except InvalidInput as refusal:
            loud += [spelling] if secret in shown(refusal) else []
        else:
            accepted.append(spelling)
    await store.close()

    assert accepted == []
    assert loud == []
    assert found_in(tmp_path, secret) == []


# --- errors ---------------------------------------------------------------------------------------------


def shown(error: BaseException | None) -> str:
    """Return everything that an error says, and those it comes from."""
    texts = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        texts += [str(error), repr(error), repr(error.args), repr(vars(error))]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


async def fold_behind(store: SqliteStore, entry: Claimed | Recorded) -> None:
    """Read the journal of a/t1 with one more entry behind it, which contradicts what is there."""
    view = await store.load_turn("a", "t1")
    assert view is not None
    page = JournalPage(format=JournalPage.FORMAT, generation=GENERATION, entries=(entry,))
    fold_journal((*view.pages, page), place="journal of a/t1")


async def test_no_refusal_shows_what_was_refused(store: SqliteStore) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker, text=PLAIN)
    await store.submit(
        unit("a", 0, reply("a", 0, text=PLAIN), intent("a", 0, args={"k": PLAIN}))
    ).durable()
    wait = Wait(key="w_1", kind="approval", session_id="a", turn_id="t1", detail=PLAIN)
    other = Wait(key="w_1", kind="approval", session_id="a", turn_id="t1", detail=[PLAIN])
    await store.submit(unit("a", 1, waits=(wait,))).durable()
    await store.enqueue("a", NewItem(item_id="i1", content=PLAIN))
    refused: list[Callable[[], Awaitable[object]]] = [
        lambda: store.accept("a", "t1", new_turn(f"other {PLAIN}")),
        lambda: store.submit(unit("a", 0, reply("a", 9, text=f"other {PLAIN}"))).durable(),
        lambda: fold_behind(store, reply("a", 0, text=f"other {PLAIN}")),
        lambda: fold_behind(store, intent("a", 0, args={"k": [PLAIN]})),
        lambda: fold_behind(store, result("a", 0, value=PLAIN, args={"k": [PLAIN]})),
        lambda: store.submit(unit("a", 1, waits=(other,))).durable(),
        lambda: store.enqueue("a", NewItem(item_id="i1", content=[PLAIN])),
        lambda: UnitShortcuts(store).commit(
            "a", "t1", ending(PLAIN, head=7), generation=GENERATION
        ),
        lambda: UnitShortcuts(store).commit(
            "a", "t1", ending(PLAIN, settle=("nothing",)), generation=GENERATION
        ),
        lambda: store.put_blob(PLAIN.encode(), now_ms=1),
        lambda: store.resolve_wait(f"w_{PLAIN}", WaitAnswer(value=PLAIN)),
        lambda: store.get_blob(PLAIN),
    ]

    loud = []
    for at, call in enumerate(refused):
        with pytest.raises(WindlassError) as refusal:
            async with asyncio.timeout(HANGS_S):
                await call()
        if PLAIN in shown(refusal.value):
            loud.append((at, type(refusal.value).__name__))
    assert loud == []


async def send(store: SqliteStore, errand: Errand) -> object:
    return await store.submit(unit("a", 0, errands=(errand,))).durable()


async def test_no_refusal_shows_a_secret_that_was_taken_for_a_name(store: SqliteStore) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    of_agent = NewTurn(agent=PLAIN, request=TurnRequest())
    misnamed: tuple[Errand, ...] = (
        AcceptTurn(session_id=PLAIN, turn_id="t1", turn=new_turn()),
        AcceptTurn(session_id="c", turn_id=PLAIN, turn=new_turn()),
        AcceptTurn(session_id="c", turn_id="t1", turn=of_agent),
        PostItem(session_id="a", item=NewItem(item_id=PLAIN)),
        PostItem(session_id=PLAIN, item=NewItem(item_id="i1")),
        CancelTurn(session_id="a", turn_id=PLAIN),
    )
    refused: list[Callable[[], Awaitable[object]]] = [
        lambda: store.load_session(PLAIN),
        lambda: store.renew(PLAIN, until_ms=1).durable(),
        lambda: store.withdraw(PLAIN, "i1"),
        lambda: store.submit(unit("a", 0, reply("a", 0), turn_id=PLAIN)).durable(),
        lambda: UnitShortcuts(store).commit(
            "a", "t1", ending(settle=(PLAIN,)), generation=GENERATION
        ),
        lambda: store.run_errands((CancelTurn(session_id=PLAIN, turn_id="t1"),), now_ms=0),
        *(partial(send, store, errand) for errand in misnamed),
    ]

    loud = []
    for at, call in enumerate(refused):
        with pytest.raises(WindlassError) as refusal:
            await call()
        if PLAIN in shown(refusal.value):
            loud.append((at, type(refusal.value).__name__))
    assert loud == []


async def test_a_name_that_would_break_the_bytes_breaks_nothing(tmp_path: Path) -> None:
    register_secret(Secret(PLAIN, name='the "key" \\ one'))
    store = SqliteStore(tmp_path / "w.db")
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    await store.submit(unit("a", 0, reply("a", 0, text=f"it is {PLAIN}"))).durable()

    assert turns.said(await store.load_turn("a", "t1")) == ['it is [the "key" \\ one]']
    await store.close()


@pytest.mark.parametrize("word", ["generation", "journal_page", "model_call", "outcome"])
async def test_a_secret_that_is_also_a_word_of_the_format_does_not_break_it(
    tmp_path: Path, word: str
) -> None:
    store = open_store(tmp_path / "w.db", word)
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    await store.submit(unit("a", 0, reply("a", 0, text=f"my {word} is"))).durable()

    assert turns.said(await store.load_turn("a", "t1")) == [f"my [{NAME}] is"]
    await store.close()


async def test_a_unit_with_a_secret_is_the_same_unit_when_handed_in_again(
    tmp_path: Path, store: SqliteStore
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker, text=PLAIN)
    written = unit("a", 0, reply("a", 0, text=PLAIN))
    first = await store.submit(written).durable()

    other = open_store(tmp_path / "w.db", PLAIN)
    await other.open()
    assert await other.submit(written).durable() == first
    assert (await other.accept("a", "t1", new_turn(PLAIN))).known
    await other.close()
