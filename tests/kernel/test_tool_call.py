"""A tool's specification, a call that waits, a call that ended, and what the model sees of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kernel.builders import (
    call,
    completed,
    machine,
    reply,
    reply_to,
    results_in,
)
from windlass.errors import InvalidInput
from windlass.kernel import (
    Attachment,
    CompletedToolCall,
    EndTurn,
    FailTurn,
    HandOff,
    Json,
    PendingToolCall,
    Text,
    ToolOutcome,
    ToolResult,
    ToolSpec,
    ToolsReturned,
    Value,
    canonical,
)
from windlass.kernel.messages import ToolStatus

PNG = Attachment(ref="b1")


def result_of(ended: CompletedToolCall) -> ToolResult:
    """What the model is shown when its call `c1` of the tool `add` ends like this."""
    turn = machine()
    reply_to(turn, reply(call("c1")))
    turn.respond(ToolsReturned(id=2, results=(ended,)))
    (result,) = results_in(turn.messages[-1])
    return result


def shown(**outcome: Json) -> list[Json]:
    """What the model sees of a call with this outcome: words, and other parts as they are."""
    content = result_of(completed("c1", ToolOutcome(**outcome))).content
    return [part.text if isinstance(part, Text) else part for part in content]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("plain", "plain"),
        (3, "3"),
        (-3, "-3"),
        (10**30, "1" + "0" * 30),
        (2.5, "2.5"),
        (True, "true"),
        (False, "false"),
        ([1, "a", None], '[1,"a",null]'),
        ({"b": 1, "a": [True]}, '{"a":[true],"b":1}'),
        ({}, "{}"),
        ([], "[]"),
        (0, "0"),
        ("naïve ✓", "naïve ✓"),
        ({"k": "✓"}, '{"k":"✓"}'),
    ],
)
def test_a_value_is_shown_as_text_or_canonical_json(value: Json, words: str) -> None:
    assert shown(value=value) == [words]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("ok", "(no output)"),
        ("error", "(error)"),
        ("denied", "(denied)"),
        ("timeout", "(timeout)"),
        ("cancelled", "(cancelled)"),
        ("unknown", "(unknown)"),
    ],
)
@pytest.mark.parametrize(
    "nothing",
    [
        {},
        {"value": ""},
        {"value": " \n"},
        {"content": (Text(text=" "),)},
        {"shown": ()},
        {"value": 1, "shown": ""},
    ],
    ids=str,
)
def test_a_result_without_words_says_so(
    status: ToolStatus, words: str, nothing: dict[str, Json]
) -> None:
    assert shown(status=status, **nothing) == [words]


def test_content_follows_the_value() -> None:
    assert shown(value=1, content=(Text(text="more"), PNG)) == ["1", "more", PNG]


def test_blank_parts_are_left_out() -> None:
    assert shown(content=(Text(text=" "), Text(text="a"), PNG, Text(text=""))) == ["a", PNG]


def test_what_is_shown_replaces_value_and_content() -> None:
    assert shown(value=1, content="more", shown="instead") == ["instead"]
    assert shown(value=1, shown=[Text(text=""), PNG]) == [PNG]


def test_plain_text_and_lists_are_taken_for_content_and_shown() -> None:
    plain: Json = "a"
    parts: Json = [PNG]

    assert ToolOutcome(content=plain).content == (Text(text="a"),)
    assert ToolOutcome(content=parts).content == (PNG,)
    assert ToolOutcome(shown=plain).shown == (Text(text="a"),)
    assert ToolOutcome(shown=parts).shown == (PNG,)
    assert ToolOutcome().shown is None


@pytest.mark.parametrize("field", ["content", "shown"])
def test_other_content_is_refused(field: str) -> None:
    given: Json = {field: 7}

    with pytest.raises(InvalidInput) as refused:
        ToolOutcome(**given)
    assert (refused.value.field, refused.value.found) == ("content", "int")


def test_a_result_names_its_call_its_tool_and_how_it_ended() -> None:
    ended = completed("c1", ToolOutcome(status="denied", value="no"))

    assert result_of(ended) == ToolResult(
        call_id="c1", name="add", content=(Text(text="no"),), status="denied"
    )


def test_a_result_goes_by_the_name_that_the_model_called() -> None:
    assert result_of(completed("c1", 3, name="add_v2")).name == "add"


# --- JSON inside -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("tide", "tide"),
        ("tide-now", "tide-now"),
        ("größe", "größe"),
        ("ti\x00de\ud800", "ti\ufffdde\ufffd"),
    ],
)
def test_the_name_of_a_call_that_ended_can_always_be_told(name: str, kept: str) -> None:
    assert CompletedToolCall(call_id="c", name=name, outcome=ToolOutcome()).name == kept


def test_json_inside_is_a_frozen_copy() -> None:
    given: dict[str, Any] = {"a": [1]}
    values: list[Any] = [
        ToolSpec(name="t", parameters=given).parameters,
        PendingToolCall(call_id="c", name="t", args=given).args,
        PendingToolCall(call_id="c", name="t", replay=given).replay,
        PendingToolCall(call_id="c", name="t", args=given, replay=given).replay,
        CompletedToolCall(call_id="c", name="t", args=given, outcome=ToolOutcome()).args,
        CompletedToolCall(call_id="c", name="t", replay=given, outcome=ToolOutcome()).replay,
        ToolOutcome(value=given).value,
        EndTurn(value=given).value,
        FailTurn(value=given).value,
        HandOff(target="x", task=given).task,
    ]

    given["a"].append(2)

    assert values == [{"a": [1]}] * 10
    for frozen in values:
        with pytest.raises(TypeError):
            frozen["b"] = 1


def test_arguments_that_are_frozen_already_are_not_copied() -> None:
    args = PendingToolCall(call_id="c", name="t", args={"a": 1}).args

    assert args is PendingToolCall(call_id="c", name="t", args=args).args
    assert args is CompletedToolCall(call_id="c", name="t", args=args, outcome=ToolOutcome()).args


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda bad: ToolSpec(name="t", parameters={"x": bad}), "ToolSpec.parameters.x"),
        (
            lambda bad: PendingToolCall(call_id="c", name="t", args={"x": [bad]}),
            "PendingToolCall.args.x[0]",
        ),
        (lambda bad: ToolOutcome(value=bad), "ToolOutcome.value"),
        (lambda bad: EndTurn(value=[bad]), "EndTurn.value[0]"),
        (lambda bad: HandOff(target="x", task=bad), "HandOff.task"),
    ],
)
@pytest.mark.parametrize(
    "bad", [{1, 2}, object(), float("nan"), b"x"], ids=["set", "object", "nan", "bytes"]
)
def test_what_is_no_json_is_refused_by_its_path(
    build: Callable[[object], object], field: str, bad: object
) -> None:
    with pytest.raises(InvalidInput) as refused:
        build(bad)
    assert refused.value.field == field


@pytest.mark.parametrize("schema", [[1], "x", None, 3], ids=repr)
def test_a_schema_that_is_no_object_is_refused(schema: Json) -> None:
    with pytest.raises(InvalidInput) as refused:
        ToolSpec(name="t", parameters=schema)
    assert refused.value.field == "ToolSpec.parameters"


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (ToolSpec(name="t"), b'{"name":"t","type":"tool_spec"}'),
        (
            PendingToolCall(call_id="c", name="t"),
            b'{"call_id":"c","name":"t","type":"pending_tool_call"}',
        ),
        (
            completed("c1", 3),
            (
                b'{"call_id":"c1","name":"add","outcome":{"type":"tool_outcome","value":3},'
                b'"type":"completed_tool_call"}'
            ),
        ),
    ],
    ids=["spec", "pending", "completed"],
)
def test_the_stored_form_leaves_defaults_out(value: Value, stored: bytes) -> None:
    assert canonical.encode(value) == stored
