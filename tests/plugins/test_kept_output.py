"""Reading on: pages by line numbers, of what this session kept and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import times
from windlass.errors import CallerError, ToolError
from windlass.kernel.messages import Attachment, Message, ResultPart, Text, ToolResult
from windlass.plugins.output_budget import OutputBudget
from windlass.plugins.windowing import count_lines
from windlass.ports.tool import Tool, ToolContext, ToolHost

LOG = "".join(f"line {n}\n" for n in range(1, 1_001))


class Archive:
    """What stands behind a call that reads: a session's messages, and a store of many sessions."""

    def __init__(self, *messages: Message) -> None:
        self.messages: Sequence[Message] = messages
        self.blobs: dict[str, bytes] = {}
        self.reads: list[str] = []

    def keep(self, data: bytes, name: str | None = None) -> Attachment:
        """Put bytes into the store."""
        ref = sha256(data).hexdigest()
        self.blobs[ref] = data
        return Attachment(ref=ref, media_type="text/plain", name=name, n_bytes=len(data))

    def said(self, *content: ResultPart, call_id: str = "call_1", name: str = "fetch") -> None:
        """Add a result to the session's messages."""
        result = ToolResult(call_id=call_id, name=name, content=content)
        message = Message(id=f"m{len(self.messages)}", role="user", parts=(result,))
        self.messages = (*self.messages, message)

    async def read(self, ref: str) -> bytes:
        self.reads.append(ref)
        if ref not in self.blobs:
            raise CallerError("no such blob")
        return self.blobs[ref]


async def ask(archive: Archive, budget: OutputBudget | None = None, **args: Any) -> str:
    (one,) = (budget or OutputBudget()).tools()
    tool = cast("Tool", one)
    ctx: ToolContext[Any] = ToolContext(deps=None, host=cast("ToolHost", archive))
    return str(await tool.run(ctx, tool.check(args)))


@pytest.fixture
def archive() -> Archive:
    found = Archive()
    found.said(Text(text="a window"), found.keep(LOG.encode(), "fetch-call_1.txt"))
    return found


def ref_of(archive: Archive) -> str:
    return next(iter(archive.blobs))


async def test_a_page_says_where_it_is_and_how_to_go_on(archive: Archive) -> None:
    ref = ref_of(archive)

    assert await ask(archive, ref=ref, start=401, lines=3) == (
        "[fetch-call_1.txt: lines 401 to 403 of 1,000]\n"
        "line 401\nline 402\nline 403\n"
        f'[read_output(ref="{ref[:12]}", start=404) reads on]'
    )


async def test_the_last_page_does_not_go_on(archive: Archive) -> None:
    page = await ask(archive, ref=ref_of(archive), start=999)

    assert page == "[fetch-call_1.txt: lines 999 to 1,000 of 1,000]\nline 999\nline 1000"


async def test_a_start_beyond_the_end_says_how_many_lines_there_are(archive: Archive) -> None:
    page = await ask(archive, ref=ref_of(archive), start=1_001)

    assert page == "[fetch-call_1.txt has 1,000 lines; there is no line 1,001]"


@pytest.mark.parametrize(
    ("args", "last"),
    [
        ({}, 200),
        ({"start": 0}, 200),
        ({"start": -5, "lines": 2}, 2),
        ({"lines": 0}, 1),
        ({"lines": -1}, 1),
        ({"lines": 10_000}, 398),  # 400 lines, of which two are about the page
    ],
)
async def test_what_is_asked_for_is_clamped(
    archive: Archive, args: dict[str, Any], last: int
) -> None:
    page = await ask(archive, ref=ref_of(archive), **args)

    assert page.startswith(f"[fetch-call_1.txt: lines 1 to {last} of 1,000]\nline 1\n")
    assert f"start={last + 1})" in page


async def test_the_pages_together_are_the_whole_text() -> None:
    archive = Archive()
    text = "".join(f"{n} " + "é" * (n * 37 % 3_000) + "\n" * (n % 3) for n in range(200))
    kept = archive.keep(text.encode(), "x")
    archive.said(kept)
    budget, start, pieces = OutputBudget(max_bytes=4_096, max_lines=40), 1, []
    while True:
        page = await ask(archive, budget, ref=kept.ref, start=start)
        assert len(page.encode()) <= 4_096
        assert count_lines(page) <= 40
        head, rest = page.split("\n", 1)
        first, last, total = (
            int(word.replace(",", "")) for word in head.split("lines ")[1][:-1].split()[::2]
        )
        assert first == start
        pieces.append(rest if last == total else rest.rsplit("\n", 1)[0])
        if last == total:
            break
        start = last + 1

    # Lines that were too long for one have an end of their own between two pages.
    assert "".join(pieces).replace("\n", "") == text.replace("\n", "")


@pytest.mark.parametrize("n_chars", [8, 12, 64])
async def test_a_ref_may_be_cut_short(archive: Archive, n_chars: int) -> None:
    assert "line 1\n" in await ask(archive, ref=ref_of(archive)[:n_chars])


async def test_an_output_is_found_by_its_call(archive: Archive) -> None:
    page = await ask(archive, call_id="call_1", start=1_000)

    assert page == "[fetch-call_1.txt: lines 1,000 to 1,000 of 1,000]\nline 1000"


async def test_an_output_that_was_never_cut_is_found_by_its_call(archive: Archive) -> None:
    photo = Attachment(ref="ab" * 32, media_type="image/png")
    archive.said(Text(text="one\ntwo"), photo, Text(text="three"), call_id="call_2", name="other")

    assert await ask(archive, call_id="call_2", lines=2) == (
        '[other-call_2.txt: lines 1 to 2 of 3]\none\ntwo\n[read_output(call_id="call_2", start=3) reads on]'
    )


async def test_what_a_turn_itself_kept_is_found_by_its_call() -> None:
    archive = Archive()
    archive.said(Text(text="cut"), archive.keep(b"all of it", "full-output"))

    assert (
        await ask(archive, call_id="call_1") == "[fetch-call_1.txt: lines 1 to 1 of 1]\nall of it"
    )


async def test_of_two_calls_with_one_id_the_last_is_meant(archive: Archive) -> None:
    archive.said(Text(text="newer"))

    assert (await ask(archive, call_id="call_1")).endswith("\nnewer")


async def test_what_a_person_attached_can_be_read_too() -> None:
    archive = Archive()
    kept = archive.keep(b"a,b\n1,2\n", "table.csv")
    archive.messages = (Message(id="m", role="user", parts=(Text(text="Look."), kept)),)

    assert await ask(archive, ref=kept.ref) == "[table.csv: lines 1 to 2 of 2]\na,b\n1,2"


# ---------------------------------------------------------------------- what is refused


async def test_bytes_that_this_session_does_not_refer_to_are_not_even_looked_for(
    archive: Archive,
) -> None:
    other = archive.keep(b"another session's secret", "other.txt")

    for ref in (other.ref, other.ref[:12], "0" * 64):
        with pytest.raises(ToolError) as refused:
            await ask(archive, ref=ref)
        assert str(refused.value) == "No output of this session has that ref."
    assert archive.reads == []


async def test_a_ref_that_stands_in_words_only_is_no_reference(archive: Archive) -> None:
    other = archive.keep(b"another session's secret", "other.txt")
    archive.said(Text(text=f'read_output(ref="{other.ref}")'), call_id="call_9")

    with pytest.raises(ToolError):
        await ask(archive, ref=other.ref)
    assert archive.reads == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "Give either ref or call_id"),
        ({"ref": "a" * 12, "call_id": "call_1"}, "Give either ref or call_id"),
        ({"ref": "abc"}, "at least 8 characters"),
        ({"call_id": "call_7"}, "No call of this session"),
    ],
)
async def test_what_cannot_be_found_is_said(
    archive: Archive, args: dict[str, Any], said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        await ask(archive, **args)


async def test_a_ref_that_fits_two_is_refused() -> None:
    archive = Archive()
    archive.said(Attachment(ref="12345678" + "a" * 56), Attachment(ref="12345678" + "b" * 56))

    with pytest.raises(ToolError, match="2 outputs of this session have a ref like that"):
        await ask(archive, ref="12345678")


async def test_one_attachment_that_stands_in_two_messages_is_one(archive: Archive) -> None:
    kept = archive.keep(LOG.encode(), "fetch-call_1.txt")
    archive.said(kept, call_id="call_2")

    assert "line 1\n" in await ask(archive, ref=kept.ref[:8])


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a\x00b"])
async def test_what_is_no_text_is_not_read_by_lines(data: bytes) -> None:
    archive = Archive()
    kept = archive.keep(data)
    archive.said(kept)

    with pytest.raises(ToolError, match="not text"):
        await ask(archive, ref=kept.ref)


async def test_what_is_gone_is_said_to_be_gone(archive: Archive) -> None:
    ref = ref_of(archive)
    archive.blobs.clear()

    with pytest.raises(ToolError, match="no longer kept"):
        await ask(archive, ref=ref)


@settings(max_examples=times(50))
@given(
    st.text(st.sampled_from("ab\n\x1b é\U0001f600"), max_size=5_000),
    st.integers(-5, 200),
    st.integers(-5, 10_000),
    st.text(max_size=200).filter(lambda name: "\x00" not in name),
)
async def test_a_page_is_within_the_budget(text: str, start: int, lines: int, name: str) -> None:
    archive = Archive()
    kept = archive.keep(text.encode(), name)
    archive.said(kept)
    budget = OutputBudget(max_bytes=1_024, max_lines=10)

    page = await ask(archive, budget, ref=kept.ref, start=start, lines=lines)

    assert len(page.encode()) <= 1_024
    assert count_lines(page) <= 10
    assert "\x1b" not in page
