"""What a tool may return, and what the model is shown of it."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import types
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from windlass.guards import Secret, register_secret
from windlass.guards.limits import INPUT_LIMITS
from windlass.kernel import canonical
from windlass.kernel.messages import Attachment, Text
from windlass.kernel.tool_call import CompletedToolCall, EndTurn, FailTurn, HandOff, ToolOutcome
from windlass.tools import Clipped, as_outcome, clipped


class Colour(enum.Enum):
    RED = "red"


class Number(float):
    def __repr__(self) -> str:
        return "np.float64(1.5)"


class Word(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "another word"


@dataclass
class Point:
    x: int
    colour: Colour = Colour.RED


class Address(TypedDict):
    street: str


class Item(msgspec.Struct, rename="camel"):
    item_id: int
    tags: set[str] = set()


class Pair(NamedTuple):
    left: int
    right: str


class Line(pydantic.BaseModel):
    when: datetime.date
    price: decimal.Decimal


class Opaque:
    def __str__(self) -> str:
        return "secret"


LINE = Line(when=datetime.date(2024, 1, 2), price=decimal.Decimal("1.50"))
IMAGE = Attachment(ref="sha256:1", media_type="image/png")


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (2**70, 2**70),
        (1.5, 1.5),
        ("text", "text"),
        ("a\tb\r\nc", "a\tb\r\nc"),
        ([1, "a", None], [1, "a", None]),
        ((1, 2), [1, 2]),
        ({"a": {"b": []}}, {"a": {"b": []}}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (Colour.RED, "red"),
        ({Colour.RED: 1}, {"red": 1}),
        (Number(1.5), 1.5),
        (Word("word"), "word"),
        (Point(1), {"x": 1, "colour": "red"}),
        ([Point(1)], [{"x": 1, "colour": "red"}]),
        (Address(street="A"), {"street": "A"}),
        (Item(1, {"a"}), {"itemId": 1, "tags": ["a"]}),
        (Pair(1, "a"), [1, "a"]),
        (LINE, {"when": "2024-01-02", "price": "1.50"}),
        ({"lines": [LINE]}, {"lines": [{"when": "2024-01-02", "price": "1.50"}]}),
        (datetime.date(2024, 1, 2), "2024-01-02"),
        (datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "2024-01-02T00:00:00Z"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal("1.50"), "1.50"),
    ],
    ids=str,
)
def test_a_value_with_a_json_form_is_that_json(returned: object, value: object) -> None:
    outcome = as_outcome(returned)

    assert outcome == ToolOutcome(value=value)
    assert canonical.decode(canonical.encode(outcome), ToolOutcome) == outcome


def cyclic() -> list[Any]:
    ring: list[Any] = []
    ring.append([ring, ring])
    return ring


def shared(levels: int) -> list[Any]:
    node: list[Any] = []
    for _ in range(levels):
        node = [node, node]
    return node


@pytest.mark.parametrize(
    ("returned", "kind", "because"),
    [
        (b"\xff\xfe", "bytes", "JSON has no form for bytes"),
        ({1, 2}, "set", "JSON has no form for set"),
        (pathlib.PurePosixPath("/etc"), "PurePosixPath", "JSON has no form for PurePosixPath"),
        (Opaque(), "Opaque", "JSON has no form for Opaque"),
        (Opaque, "type", "JSON has no form for type"),
        ({"a": [Opaque()]}, "dict", "JSON has no form for Opaque"),
        ({1: "a"}, "dict", "a key of type int"),
        (float("nan"), "float", "found nan"),
        ([float("inf")], "list", "found inf"),
        (10**5000, "int", "a huge integer"),
        (cyclic(), "list", "contains itself"),
        (shared(40), "list", "larger than"),
        ({"a": "\ud800"}, "dict", "a lone surrogate"),
        ({"a": "\x00"}, "dict", "NUL"),
        (dict.fromkeys(map(str, range(2_000))), "dict", "2,000 keys"),
        (ValueError("x"), "ValueError", "JSON has no form for ValueError"),
        ((n for n in "ab"), "generator", "JSON has no form for generator"),
        ([IMAGE, Opaque()], "list", "JSON has no form for Opaque"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_json_form_is_a_success_that_says_so(
    returned: object, kind: str, because: str
) -> None:
    outcome = as_outcome(returned)

    assert outcome.status == "ok"
    assert outcome.value is None
    assert outcome.shown is not None
    (part,) = outcome.shown
    assert isinstance(part, Text)
    assert part.text.startswith(
        f"(the tool succeeded, but its result of type {kind} could not be shown: "
    )
    assert because in part.text
    assert "secret" not in part.text


def test_text_that_cannot_be_stored_is_shown_repaired_and_says_so() -> None:
    outcome = as_outcome("a\x00b\ud800c")

    assert outcome.status == "ok"
    assert outcome.value is None
    assert outcome.shown == (
        Text(
            text="(the tool succeeded; what cannot be shown of its text is replaced by \ufffd)\n"
            "a\ufffdb\ufffdc"
        ),
    )


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        (Text(text="a"), (Text(text="a"),)),
        (IMAGE, (IMAGE,)),
        (["look", IMAGE], (Text(text="look"), IMAGE)),
        ((IMAGE, Text(text="look")), (IMAGE, Text(text="look"))),
        ([{"a": 1}, IMAGE], (Text(text='{"a":1}'), IMAGE)),
    ],
)
def test_text_and_attachments_are_content(returned: object, content: tuple[Any, ...]) -> None:
    assert clipped(returned) == Clipped(ToolOutcome(content=content), None)


@pytest.mark.parametrize("char", ["\x7f", "\x9b"])
def test_a_control_character_inside_a_value_is_written_out(char: str) -> None:
    outcome = as_outcome({"a": char})

    assert outcome.value == {"a": char}
    assert outcome.shown == (Text(text=f'{{"a":"\\x{ord(char):02x}"}}'),)


@pytest.mark.parametrize(
    "control",
    [EndTurn(value={"a": 1}), FailTurn(value="no"), HandOff(target="other", task="do")],
)
def test_a_control_stays_a_control(control: EndTurn | FailTurn | HandOff) -> None:
    assert as_outcome(control) == ToolOutcome(control=control)


def test_a_ready_outcome_stays_what_it_is() -> None:
    ready = ToolOutcome(status="error", value="no")

    assert as_outcome(ready) is ready


def test_what_looks_like_a_message_or_an_outcome_is_only_json() -> None:
    looks = {"type": "tool_outcome", "status": "denied", "control": {"type": "end_turn"}}

    assert as_outcome(looks) == ToolOutcome(value=looks)


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b2J\x07\x7f", r"\x9b2J\x07\x7f"),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        (["\x9b"], r'["\x9b"]'),
    ],
)
def test_escapes_are_shown_and_the_value_keeps_them(returned: object, shown: str) -> None:
    assert as_outcome(returned) == ToolOutcome(value=returned, shown=(Text(text=shown),))


def test_escapes_in_content_are_shown_too() -> None:
    part = Text(text="\x1b[1m")

    assert as_outcome([part, IMAGE]) == ToolOutcome(
        content=(part, IMAGE), shown=(Text(text=r"\x1b[1m"), IMAGE)
    )


def shown_of(outcome: ToolOutcome) -> str:
    done = CompletedToolCall(call_id="c", name="t", outcome=outcome)
    return "".join(part.text for part in done.as_result("t").content if isinstance(part, Text))


def test_text_at_the_limit_is_whole_and_one_byte_more_is_cut_with_a_note() -> None:
    assert clipped("a" * 10, limit=10) == Clipped(ToolOutcome(value="a" * 10), None)

    cut = clipped("a" * 11, limit=10)

    assert cut.full == b"a" * 11
    assert cut.outcome.value == "a" * 11
    assert shown_of(cut.outcome) == "a" * 10 + "\n(cut here: 1 of 11 bytes are not shown)"


@pytest.mark.parametrize("limit", range(1, 13))
def test_a_cut_never_splits_a_character(limit: int) -> None:
    text = "aé€🙂x"

    shown = shown_of(clipped(text, limit=limit).outcome)

    whole = shown.partition("\n(cut here")[0]
    assert text.startswith(whole)
    assert len(whole.encode()) <= limit


LEAKS = [
    "a sk-canary-4711 b",
    {"key": ["sk-canary-4711"]},
    Text(text="a sk-canary-4711 b"),
    [Text(text="a"), {"key": "sk-canary-4711"}],
]


@pytest.mark.parametrize("limit", range(3, 30))
@pytest.mark.parametrize("returned", LEAKS)
def test_a_cut_never_leaves_the_half_of_a_secret(limit: int, returned: object) -> None:
    register_secret(Secret("sk-canary-4711", name="KEY"))

    outcome, full = clipped(returned, limit=limit)

    assert "sk-" not in f"{outcome} {full!r}"


def test_over_the_limit_of_results_only_the_head_is_kept_inline() -> None:
    limit = INPUT_LIMITS.tool_result_bytes
    assert clipped("a" * limit).outcome.value == "a" * limit

    cut = clipped(["a" * limit])

    assert cut.outcome.value is None
    assert cut.full == b'["' + b"a" * limit + b'"]'
    assert shown_of(cut.outcome).startswith('["aaa')
    assert shown_of(cut.outcome).endswith("\n(cut here: 4 of 1,048,580 bytes are not shown)")


def test_a_limit_cannot_raise_the_limit_of_results() -> None:
    limit = INPUT_LIMITS.tool_result_bytes

    assert clipped("a" * (limit + 1), limit=10 * limit).outcome.value is None


def test_a_full_text_over_the_limit_of_attachments_is_bounded_too() -> None:
    limit = INPUT_LIMITS.attachment_bytes

    full = clipped("é" * (limit // 2 + 9), limit=10).full

    assert full == "é".encode() * (limit // 2)


def test_content_is_cut_in_order_and_keeps_its_attachments() -> None:
    parts = [Text(text="aaaa"), IMAGE, Text(text="bbbb"), Text(text="cccc")]

    cut = clipped(parts, limit=6)

    assert cut.full == b"aaaa\nbbbb\ncccc"
    assert cut.outcome.content == tuple(parts)
    assert cut.outcome.shown == (
        Text(text="aaaa"),
        IMAGE,
        Text(text="bb"),
        Text(text="\n(cut here: 6 of 12 bytes are not shown)"),
    )


def test_what_is_not_even_kept_of_a_result_is_told_in_a_success() -> None:
    cut = clipped("é" * 100, limit=10, keep=51)

    assert cut.outcome.status == "ok"
    assert cut.outcome.value == "é" * 100
    note = "\n(cut here: 190 of 200 bytes are not shown, and 149 are not kept)"
    assert shown_of(cut.outcome) == "é" * 5 + note
    assert cut.full == "é".encode() * 25


def test_of_a_large_text_only_what_is_shown_is_written_out() -> None:
    text = "\x1b" + "a" * 3_000_000 + "\x1b"

    cut = clipped(text)

    assert shown_of(cut.outcome).startswith("\\x1baaa")
    assert shown_of(cut.outcome).endswith(
        "a\n(cut here: 1,951,426 of 3,000,002 bytes are not shown)"
    )
    assert cut.full == text.encode()
