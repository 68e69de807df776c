"""What the kernel's doors refuse: the field, what was found, what was wanted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.kernel.builders import machine
from windlass.errors import FormatUnsupported, InvalidInput
from windlass.kernel import Message, ModelReply, ToolCall, ToolResult, Usage, canonical
from windlass.kernel.chain import Chain
from windlass.kernel.history import check_history
from windlass.kernel.tool_call import checked_tools


@pytest.mark.parametrize(
    ("value", "found", "wanted"),
    [
        ({"a": ["fine", "\x00"]}, "NUL or a lone surrogate", "clean text"),
        ({"a": "\ud800"}, "NUL or a lone surrogate", "clean text"),
        ({"a": float("inf")}, "inf", "a finite number"),
    ],
    ids=["NUL", "lone surrogate", "infinity"],
)
def test_what_is_no_json_is_refused(value: object, found: str, wanted: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        canonical.encode(value)

    assert (refused.value.found, refused.value.wanted) == (found, wanted)


def test_a_call_whose_id_is_none_is_not_a_history() -> None:
    call = ToolCall(call_id="call_1", name="add", args={})
    msgspec.structs.force_setattr(call, "call_id", "no id, this")
    history: Chain[Message] = Chain([Message(id="m1", role="assistant", parts=(call,))])

    with pytest.raises(InvalidInput, match=r"parts\[0\]\.call_id.*not an id"):
        check_history(history)


def test_a_result_may_have_a_name_in_any_script_but_it_is_text() -> None:
    assert ToolResult(call_id="call_1", name="größe").name == "größe"
    with pytest.raises(InvalidInput, match=r"ToolResult\.name"):
        ToolResult(call_id="call_1", name="a\x00b")


def test_counts_of_tokens_are_whole_numbers() -> None:
    with pytest.raises(InvalidInput, match="not a whole number"):
        Usage(input_tokens="12")  # type: ignore[arg-type]  # that is the point


def test_tools_are_several() -> None:
    with pytest.raises(InvalidInput, match="tools: found int, wanted tools"):
        checked_tools(3, field="tools")  # type: ignore[arg-type]  # that is the point


def test_a_snapshot_of_a_later_format_is_refused() -> None:
    snapshot = msgspec.structs.replace(machine().snapshot(), format=99)

    with pytest.raises(FormatUnsupported, match=r"snapshot\.format: found 99"):
        snapshot.check(snapshot.session_id, snapshot.turn_id)


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("ModelReply.parts: found str", lambda: ModelReply(parts=("hi",))),  # type: ignore[arg-type]
        ("ModelReply.usage: found NoneType", lambda: ModelReply(usage=None)),  # type: ignore[arg-type]
        ("ToolCall.call_id: found int", lambda: ToolCall(call_id=5, name="add")),  # type: ignore[arg-type]
    ],
    ids=["parts", "usage", "call_id"],
)
def test_a_reply_that_could_not_be_read_again_is_refused(
    field: str, make: Callable[[], object]
) -> None:
    """Whoever wrote the adapter is told, instead of whoever opens the session later."""
    with pytest.raises(InvalidInput, match=field):
        make()
