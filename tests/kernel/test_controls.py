"""Semantic 9, controls: the first successful result in call order that carries one ends the turn."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.builders import (
    PREFIX,
    answers,
    call,
    completed,
    drain,
    kept,
    kinds,
    machine,
    raw_call,
    reply,
    reply_to,
    result,
    results_in,
    shown_in,
)
from windlass.kernel import (
    Done,
    EndTurn,
    FailTurn,
    FinishedByTool,
    HandedOff,
    HandOff,
    Outcome,
    Progress,
    Stopped,
    ToolOutcome,
    ToolsReturned,
    TurnMachine,
    check_history,
)
from windlass.kernel.messages import ToolStatus
from windlass.kernel.tool_call import Control

END = EndTurn(value={"sum": 3})


def returned(turn: TurnMachine, **outcomes: Any) -> TurnMachine:
    """Let the model call tools by these ids, and the tools come back with these outcomes."""
    reply_to(turn, reply(*[call(call_id, f"tool_{call_id}") for call_id in outcomes]))
    turn.respond(
        ToolsReturned(
            id=2,
            results=tuple(
                completed(call_id, outcome, f"tool_{call_id}")
                for call_id, outcome in outcomes.items()
            ),
        )
    )
    return turn


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        (EndTurn(value={"sum": 3}), FinishedByTool(tool="tool_c1", value={"sum": 3})),
        (EndTurn(), FinishedByTool(tool="tool_c1", value=None)),
        (
            FailTurn(value="no such order"),
            Stopped(reason="tool_failure", detail="tool_c1: no such order"),
        ),
        (
            FailTurn(value={"b": 1, "a": [2]}),
            Stopped(reason="tool_failure", detail='tool_c1: {"a":[2],"b":1}'),
        ),
        (FailTurn(), Stopped(reason="tool_failure", detail="tool_c1")),
        (FailTurn(value=0), Stopped(reason="tool_failure", detail="tool_c1: 0")),
        (HandOff(target="billing", task=["x"]), HandedOff(target="billing", task=["x"])),
        (HandOff(target="billing"), HandedOff(target="billing", task=None)),
    ],
)
def test_a_control_ends_the_turn_with_its_outcome(control: Control, expected: Outcome) -> None:
    turn = returned(machine(), c1=ToolOutcome(value="said", control=control))

    said = drain(turn)

    answered = answers(result("c1", "said", name="tool_c1"), id=f"m_{PREFIX}.0.results")
    assert kinds(said) == ["ToolFinished", "Progress", "TurnEnded", "Done"]
    assert said[1] == Progress(messages=turn.messages, new_records=kept(answered))
    assert said[3] == Done(messages=turn.messages, outcome=expected)
    assert turn.outcome == expected
    assert turn.iteration == 0
    check_history(turn.messages)


@pytest.mark.parametrize("status", ["error", "denied", "timeout", "cancelled", "unknown"])
def test_the_control_of_an_unsuccessful_result_ends_nothing(status: ToolStatus) -> None:
    turn = returned(machine(), c1=ToolOutcome(status=status, value="x", control=END))

    assert turn.outcome is None
    assert turn.state == "waiting_checkpoint"


def test_the_first_successful_control_in_call_order_wins() -> None:
    turn = returned(
        machine(),
        c1=ToolOutcome(value=1),
        c2=ToolOutcome(status="error", control=FailTurn(value="no")),
        c3=ToolOutcome(control=HandOff(target="billing")),
        c4=ToolOutcome(control=END),
    )

    assert turn.outcome == HandedOff(target="billing")
    assert [shown_in(part) for part in results_in(turn.messages[-1])] == [
        "1",
        "(error)",
        "(no output)",
        "(no output)",
    ]


def test_call_order_decides_not_the_order_of_return() -> None:
    turn = machine()
    reply_to(turn, reply(call("c1"), call("c2")))

    turn.respond(
        ToolsReturned(
            id=2,
            results=(
                completed("c2", ToolOutcome(control=EndTurn(value=2))),
                completed("c1", ToolOutcome(control=EndTurn(value=1))),
            ),
        )
    )

    assert turn.outcome == FinishedByTool(tool="add", value=1)


def test_a_control_among_malformed_siblings_ends_the_turn_and_all_are_answered() -> None:
    turn = machine()
    reply_to(turn, reply(raw_call("bad", "{"), call("c1")))

    turn.respond(ToolsReturned(id=2, results=(completed("c1", ToolOutcome(control=END)),)))

    assert turn.outcome == FinishedByTool(tool="add", value={"sum": 3})
    assert [(part.call_id, part.status) for part in results_in(turn.messages[-1])] == [
        ("bad", "error"),
        ("c1", "ok"),
    ]
    check_history(turn.messages)


def test_a_control_in_the_last_iteration_counts_before_the_limit() -> None:
    turn = returned(machine(max_iterations=1), c1=ToolOutcome(control=END))

    assert turn.outcome == FinishedByTool(tool="tool_c1", value={"sum": 3})
