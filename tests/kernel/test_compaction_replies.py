"""What a model answers to the wish for a summary is taken whole, or nothing changes."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    ADD,
    SESSION,
    TURN,
    answers,
    ask,
    asks,
    assistant,
    call,
    config,
    drain,
    only,
    reply_to,
    result,
)
from tests.kernel.compactions import (
    HISTORY,
    LONG,
    SIGNED,
    compacting,
    nodes_of,
    said,
)
from windlass.kernel import (
    Error,
    Finished,
    ModelFailure,
    ModelReplied,
    ModelReply,
    Stopped,
    ToolCall,
    ToolResult,
    TurnMachine,
    Usage,
    canonical,
)
from windlass.kernel.compaction import CompactionDriver, CompactionOptions
from windlass.runtime.ending import frame_nodes
from windlass.testing.provider_rules import broken_rules

CALL = ToolCall(call_id="c9", name="find")
BAD: dict[str, tuple[ModelReply | ModelFailure, str, str]] = {
    "cut at the output limit": (
        ModelReply(text="<summary>Boo", terminal="output_limit"),
        "incomplete",
        "The summary was cut off at its output limit.",
    ),
    "broken off without a word": (
        ModelReply(text="<summary>Boo"),
        "incomplete",
        "The summary breaks off before its end.",
    ),
    "marks in the wrong order": (
        ModelReply(text="</summary>Boo<summary>"),
        "incomplete",
        "The summary breaks off before its end.",
    ),
    "nothing": (ModelReply(), "provider_error", "The summary is empty."),
    "white space": (ModelReply(text=" \n "), "provider_error", "The summary is empty."),
    "nothing between the marks": (
        ModelReply(text="Sure!<summary> </summary>"),
        "provider_error",
        "The summary is empty.",
    ),
    "only thoughts": (ModelReply(parts=(SIGNED,)), "provider_error", "The summary is empty."),
    "a call": (
        ModelReply(text="Booked.", parts=(CALL,), terminal="tool_use"),
        "provider_error",
        "The model called tools instead.",
    ),
    "longer than the history": (
        ModelReply(text="y" * 3_100),
        "provider_error",
        "The summary has 3100 characters, what it stands for 3092.",
    ),
    "stopped by a filter": (
        ModelReply(text="Boo", terminal="content_filter"),
        "provider_error",
        "The provider's content filter stopped the reply.",
    ),
    "ended by the provider": (
        ModelReply(text="Boo", terminal="provider_error", diagnostic="overloaded"),
        "provider_error",
        "overloaded",
    ),
    "cancelled": (ModelReply(terminal="cancelled"), "cancelled", "The model call was cancelled."),
    "no reply at all": (ModelFailure(message="down"), "provider_error", "down"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_summary_changes_nothing(kind: str) -> None:
    bad, reason, detail = BAD[kind]
    machine = compacting()
    effects = reply_to(machine, bad)

    assert machine.outcome == Stopped(reason=reason, detail=detail)  # type: ignore[arg-type]  # one of them
    assert nodes_of(machine) == ()
    assert only(Error, effects)


def test_a_turn_that_is_ended_from_outside_changes_nothing() -> None:
    machine = compacting()
    ask(machine)
    machine.finish(Stopped(reason="cancelled"))
    drain(machine)

    assert nodes_of(machine) == ()


def test_a_summary_that_came_too_late_changes_nothing() -> None:
    """A cancel was first: the runtime ends the turn so, whatever the machine says."""
    machine = compacting()
    reply_to(machine, ModelReply(text="Booked."))

    late = frame_nodes((SESSION, TURN), HISTORY, (), machine.records, Stopped(reason="cancelled"))
    assert late == ()


def test_a_short_summary_need_not_be_shorter_than_a_short_talk() -> None:
    history = (said("Hi.", "u1"), assistant("Hello.", "a1"))
    machine = compacting(history)
    reply_to(machine, ModelReply(text="They greeted each other, and that was all of it."))

    assert isinstance(machine.outcome, Finished)


def test_a_compaction_is_the_same_from_any_snapshot() -> None:
    machine = compacting()
    asked = ask(machine)
    options = CompactionOptions()
    same = TurnMachine.restore(
        config(CompactionDriver(options), tools=(ADD,), system_prompt="Be brief."),
        canonical.decode(canonical.encode(machine.snapshot()), type(machine.snapshot())),
    )
    assert canonical.encode(ask(same)) == canonical.encode(asked)
    used = ModelReply(text="Booked.", usage=Usage(input_tokens=9, output_tokens=2))
    for one in (machine, same):
        one.respond(ModelReplied(id=asked.id, result=used))
        drain(one)

    assert machine.outcome == Finished(text="Booked.")
    assert canonical.encode(tuple(machine.records)) == canonical.encode(tuple(same.records))
    assert machine.usage == same.usage == Usage(input_tokens=9, output_tokens=2)


def test_an_unsigned_or_torn_history_still_makes_a_valid_request() -> None:
    """A cut between a call and its result cannot tear a pair: there are none in what is told."""
    history = [said("Go.", "u0")]
    for at in range(30):
        history.append(asks(call(f"c{at}"), id=f"a{at}"))
        history.append(answers(result(f"c{at}", LONG), id=f"r{at}"))
    for window in (100, 3_000, 20_000, None):
        request = ask(compacting(tuple(history), window=window)).request
        assert broken_rules(request) == []
        assert not any(
            isinstance(part, (ToolCall, ToolResult))
            for one in request.messages
            for part in one.parts
        )
