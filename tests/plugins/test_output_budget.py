"""The output budget: what fits stays, what does not is shown in part and kept whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import times
from tests.plugins.fake_turn import FakeHost, FakeTurn
from windlass.errors import ConfigError, InvalidInput
from windlass.kernel.messages import Attachment, Text
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.kernel.value import Json
from windlass.plugins.output_budget import OutputBudget
from windlass.plugins.windowing import Window, count_lines
from windlass.tools import clipped

LINES = [f"line {n}" for n in range(1, 1_001)]
LOG = "\n".join(LINES)
PHOTO = Attachment(ref="ab" * 32, media_type="image/png", name="p.png", n_bytes=9)


def ended(outcome: ToolOutcome) -> CompletedToolCall:
    return CompletedToolCall(call_id="call_1", name="fetch", outcome=outcome)


async def show(budget: OutputBudget, outcome: ToolOutcome, host: FakeHost | None = None) -> Json:
    turn = FakeTurn("output_budget", host)
    shown = await budget.present_result(turn, ended(outcome))
    turn.settle()
    return shown


def texts(shown: Json) -> list[str]:
    return [part.text for part in shown if isinstance(part, Text)]


def size(shown: Json) -> tuple[int, int]:
    return sum(len(text.encode()) for text in texts(shown)), sum(map(count_lines, texts(shown)))


@pytest.mark.parametrize(
    "outcome",
    [
        ToolOutcome(value="short"),
        ToolOutcome(value={"a": [1, 2]}),
        ToolOutcome(),
        ToolOutcome(value="x" * 16_384),
        ToolOutcome(value="x\n" * 400),
        ToolOutcome(value="x" * 40_000, shown=(Text(text="of which the model sees this"),)),
        ToolOutcome(content=(Text(text="A photo."), PHOTO)),
        ToolOutcome(status="error", value="It failed."),
    ],
    ids=lambda one: str(one)[:50],
)
async def test_what_is_within_the_limits_is_not_touched(outcome: ToolOutcome) -> None:
    host = FakeHost()

    assert await show(OutputBudget(), outcome, host) is None
    assert host.blobs == {}


@pytest.mark.parametrize("outcome", ["x" * 16_385, "x\n" * 401, {"k": "x" * 16_384}])
async def test_one_more_is_too_much(outcome: Json) -> None:
    assert await show(OutputBudget(), ToolOutcome(value=outcome)) is not None


@pytest.mark.parametrize(
    ("kind", "first", "last", "mark"),
    [
        ("head", "line 1", None, "[4,509 bytes in 501 lines are cut here; {0}start=500) reads them]"),
        ("tail", None, "line 1000", "[4,401 bytes in 501 lines are cut here; {0}start=1) reads them]"),
        ("both", "line 1", "line 1000", "[4,509 bytes in 501 lines are cut here; {0}start=250) reads them]"),
    ],
)  # fmt: skip
async def test_a_long_text_is_a_window_with_a_mark_and_all_of_it_is_kept(
    kind: Window, first: str | None, last: str | None, mark: str
) -> None:
    host = FakeHost()
    budget = OutputBudget(max_lines=500, windows={"fetch": kind}, default="head")

    text, whole = await show(budget, ToolOutcome(value=LOG), host)

    shown = text.text.splitlines()
    asks = f'read_output(ref="{whole.ref[:12]}", '
    assert mark.format(asks) in shown
    assert len(shown) == 500
    assert first in (None, shown[0])
    assert last in (None, shown[-1])
    assert host.blobs == {whole.ref: LOG.encode()}
    assert (whole.media_type, whole.name, whole.n_bytes) == (
        "text/plain",
        "fetch-call_1.txt",
        len(LOG),
    )


async def test_a_window_for_one_tool_is_not_that_of_others() -> None:
    budget = OutputBudget(windows={"other": "tail"}, default="both")

    text, _ = await show(budget, ToolOutcome(value=LOG))

    assert text.text.startswith("line 1\n")
    assert text.text.endswith("\nline 1000")


async def test_json_stays_json_and_a_second_part_says_how_to_read_all_of_it() -> None:
    host = FakeHost()
    value = {"hits": [{"id": n, "body": "word " * 300} for n in range(50)], "total": 50}

    made, note, whole = await show(OutputBudget(), ToolOutcome(value=value), host)

    shown = json.loads(made.text)
    assert shown["total"] == 50
    assert shown["hits"][0]["id"] == 0
    assert shown["hits"][-1].endswith("more items")
    assert note.text == (
        f"[shortened from {len(json.dumps(value, separators=(',', ':'))):,} bytes; "
        f'read_output(ref="{whole.ref[:12]}", start=1) reads all of it]'
    )
    assert 10_000 < size((made, note))[0] <= 16_384
    # Kept with a line for each item: so it can be read by lines.
    assert json.loads(host.blobs[whole.ref]) == value
    assert host.blobs[whole.ref].count(b"\n") > 150


async def test_the_same_result_is_shown_in_the_same_way_each_time() -> None:
    value = {"hits": [{"id": n, "body": "wörd " * 300} for n in range(50)]}

    first = await show(OutputBudget(), ToolOutcome(value=value))
    second = await show(OutputBudget(), ToolOutcome(value=json.loads(json.dumps(value))))

    assert first == second


async def test_texts_share_the_budget_and_attachments_stay_where_they_are() -> None:
    host = FakeHost()
    parts = (Text(text=LOG), PHOTO, Text(text="All is well."), Text(text=LOG))

    shown = await show(OutputBudget(max_lines=101), ToolOutcome(content=parts), host)

    first, photo, second, third, whole = shown
    assert photo == PHOTO
    assert second.text == "All is well."
    assert (count_lines(first.text), count_lines(third.text)) == (50, 50)
    assert "start=50)" in first.text
    # 1,000 lines and one line come before it in what is kept.
    assert "start=1051)" in third.text
    kept = host.blobs[whole.ref].decode().splitlines()
    assert kept[49] == "line 50"
    assert kept[1_050] == "line 50"


async def test_too_many_texts_for_the_budget_become_one() -> None:
    parts = tuple(Text(text=f"part {n}: " + "x" * 2_000) for n in range(60))

    shown = await show(OutputBudget(), ToolOutcome(content=(*parts, PHOTO)))

    text, photo, whole = shown
    assert text.text.startswith("part 0: ")
    assert photo == PHOTO
    assert isinstance(whole, Attachment)
    assert size(shown)[0] <= 16_384


async def test_a_line_too_long_to_be_one_can_be_read_by_lines_all_the_same() -> None:
    text, _ = await show(OutputBudget(), ToolOutcome(value="x" * 100_000))

    # Lines of 1,024: fifteen of them, and the mark.
    assert text.text.startswith("x" * 15_360 + "\n[84,640 bytes in 83 lines are cut here; ")
    assert "start=16)" in text.text


class Strict(FakeHost):
    """A store that knows a secret, and takes no bytes that hold it."""

    async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment:
        raise InvalidInput("data: the bytes hold a registered secret", field="data")


async def test_what_the_store_does_not_take_is_shown_all_the_same_and_not_kept() -> None:
    (text,) = await show(OutputBudget(), ToolOutcome(value=LOG), Strict())
    (made, note) = await show(OutputBudget(), ToolOutcome(value=[LOG, LOG]), Strict())

    assert text.text.startswith("line 1\nline 2\n")
    assert text.text.endswith("lines are cut here; the rest is not kept]")
    assert json.loads(made.text)[0].startswith("line 1\n")
    assert note.text.endswith("bytes; the rest is not kept]")


# ---------------------------------------------------------------------- what the turn cut


def cut(value: object, limit: int, host: FakeHost) -> tuple[ToolOutcome, Attachment]:
    """What a turn makes of a result over its tool's limit."""
    outcome, full = clipped(value, limit=limit)
    assert full is not None
    ref = "cd" * 32
    host.blobs[ref] = full
    whole = Attachment(ref=ref, media_type="text/plain", name="full-output", n_bytes=len(full))
    shown = outcome.shown and (*outcome.shown, whole)
    return ToolOutcome(value=outcome.value, content=(*outcome.content, whole), shown=shown), whole


async def test_what_the_turn_kept_is_not_kept_again_and_its_true_end_is_shown() -> None:
    host = FakeHost()
    text = "\n".join(f"line {n}" for n in range(200_000))
    outcome, whole = cut(text, 1_000_000, host)

    shown = await show(OutputBudget(default="tail"), outcome, host)

    assert shown[1:] == [whole]
    assert shown[0].text.endswith("\nline 199999")
    assert f'ref="{whole.ref[:12]}", start=1)' in shown[0].text
    assert "cut here: " not in shown[0].text.splitlines()[-1]
    assert list(host.blobs) == [whole.ref]


async def test_json_that_the_turn_cut_is_json_again() -> None:
    host = FakeHost()
    outcome, whole = cut([{"n": n, "text": "word " * 40} for n in range(1_000)], 50_000, host)

    made, note, kept = await show(OutputBudget(), outcome, host)

    assert json.loads(made.text)[0] == {"n": 0, "text": "word " * 40}
    assert "reads all of it]" in note.text
    assert kept == whole


async def test_what_was_added_after_the_cut_stays() -> None:
    host = FakeHost()
    outcome, whole = cut("x" * 50_000, 40_000, host)
    assert outcome.shown is not None
    added = Text(text="(The approver changed the arguments.)")
    outcome = ToolOutcome(content=outcome.content, shown=(*outcome.shown, added))

    shown = await show(OutputBudget(), outcome, host)

    assert shown[1:] == [whole, added]
    assert size(shown)[0] <= 16_384


async def test_a_tools_own_smaller_limit_is_left_alone() -> None:
    host = FakeHost()
    outcome, _ = cut("x" * 50_000, 1_000, host)

    assert await show(OutputBudget(), outcome, host) is None


async def test_escape_sequences_of_a_kept_text_are_not_shown_raw() -> None:
    host = FakeHost()
    outcome, _ = cut("\x1b[31m" * 20_000, 50_000, host)

    shown = await show(OutputBudget(), outcome, host)

    assert "\x1b" not in shown[0].text
    assert shown[0].text.startswith("\\x1b[31m")


# ---------------------------------------------------------------------- always


PARTS = st.lists(
    st.builds(
        Text,
        text=st.text(st.sampled_from("ab \n\u00e9\U0001f600"), min_size=1, max_size=2_000),
    )
    | st.just(PHOTO),
    min_size=1,
    max_size=8,
)


@settings(max_examples=times(50))
@given(PARTS, st.sampled_from(["head", "tail", "both"]))
async def test_what_is_shown_is_within_the_budget(
    parts: list[Text | Attachment], kind: Window
) -> None:
    host = FakeHost()
    budget = OutputBudget(max_bytes=1_024, max_lines=20, default=kind)

    shown = await show(budget, ToolOutcome(content=tuple(parts)), host)

    if shown is None:
        assert host.blobs == {}
        return
    n_bytes, n_lines = size(shown)
    assert n_bytes <= 1_024
    assert n_lines <= 20
    assert [part for part in shown[:-1] if isinstance(part, Attachment)] == [
        part for part in parts if isinstance(part, Attachment)
    ]
    kept = host.blobs[shown[-1].ref].decode()
    said = [part.text for part in parts if isinstance(part, Text) and not part.text.isspace()]
    assert kept == "\n".join(said)


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"max_bytes": 1_023}, "OutputBudget.max_bytes"),
        ({"max_bytes": "16k"}, "OutputBudget.max_bytes"),
        ({"max_lines": 9}, "OutputBudget.max_lines"),
        ({"max_lines": True}, "OutputBudget.max_lines"),
        ({"windows": ["head"]}, "OutputBudget.windows"),
        ({"windows": {"log": "middle"}}, "OutputBudget.windows['log']"),
        ({"default": "middle"}, "OutputBudget.default"),
        ({"tool_name": "read output"}, "OutputBudget.tool_name"),
        ({"page_lines": 0}, "OutputBudget.page_lines"),
    ],
)
def test_a_bad_option_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        OutputBudget(**options)

    assert refused.value.field == field


def test_the_tool_comes_with_the_plugin_under_the_name_that_was_asked_for() -> None:
    (plain,) = OutputBudget().tools()
    (named,) = OutputBudget(tool_name="more", page_lines=50).tools()

    assert (plain.spec.name, plain.effect) == ("read_output", "pure")  # type: ignore[union-attr]
    assert named.spec.name == "more"  # type: ignore[union-attr]
    assert named.spec.parameters["properties"]["lines"]["default"] == 50  # type: ignore[union-attr]
