"""A driver that leads nowhere ends its turn, not the process that runs it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.abuse.waiting import CALLS, HELLO, config
from windlass.kernel import (
    Action,
    CompletedToolCall,
    DriverView,
    Effect,
    Finish,
    Finished,
    Message,
    ModelReplied,
    ModelReply,
    NextIteration,
    Response,
    StandardDriver,
    StartCheckpoint,
    StartCode,
    StartModel,
    StartTools,
    Stopped,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolsReturned,
    TurnMachine,
    WaitingModel,
    canonical,
)

END = Finish(outcome=Finished(text="bye"))


def start(view: DriverView, kind: str) -> Action:
    match kind:
        case "model":
            return StartModel(request=view.request())
        case "code":
            return StartCode(language="python", code="1")
        case _:
            return StartCheckpoint(kind="after_work")


class Confused(StandardDriver):
    """At one hook it starts something and ends the turn in one breath."""

    def __init__(self, hook: str, kind: str) -> None:
        self._hook = hook
        self._kind = kind

    def prepare(self, view: DriverView) -> list[Action]:
        return self._confused(view, "prepare", super().prepare(view))

    def on_model(
        self, view: DriverView, waiting: WaitingModel, reply: ModelReply, text_streamed: bool
    ) -> list[Action]:
        wanted = super().on_model(view, waiting, reply, text_streamed)
        return self._confused(view, "on_model", wanted)

    def on_tools(self, view: DriverView, completed: Sequence[CompletedToolCall]) -> list[Action]:
        return self._confused(view, "on_tools", super().on_tools(view, completed))

    def _confused(self, view: DriverView, hook: str, wanted: list[Action]) -> list[Action]:
        return [start(view, self._kind), END] if hook == self._hook else wanted


def play(machine: TurnMachine) -> list[Effect]:
    """Answer one round of calls, and say everything."""
    said: list[Effect] = []
    answers: list[Response] = [
        ModelReplied(id=0, result=CALLS),
        ModelReplied(id=1, result=CALLS),
        ToolsReturned(id=2, results=_results()),
    ]
    for answer in answers:
        machine.respond(answer)
        while (effect := machine.poll()) is not None:
            canonical.encode(effect)
            said.append(effect)
    return said


def _results() -> tuple[CompletedToolCall, ...]:
    calls = [part for part in CALLS.parts if isinstance(part, ToolCall)]
    return tuple(
        CompletedToolCall(call_id=call.call_id, name=call.name, outcome=ToolOutcome(value=1))
        for call in calls
    )


def unanswered(messages: Sequence[Message]) -> set[str]:
    parts = [part for message in messages for part in message.parts]
    called = {part.call_id for part in parts if isinstance(part, ToolCall)}
    return called - {part.call_id for part in parts if isinstance(part, ToolResult)}


@pytest.mark.parametrize("kind", ["model", "code", "checkpoint"])
@pytest.mark.parametrize("hook", ["prepare", "on_model", "on_tools"])
def test_a_batch_that_starts_something_and_finishes_still_ends_the_turn(
    hook: str, kind: str
) -> None:
    machine = TurnMachine(config(driver=Confused(hook, kind)), (HELLO,))
    play(machine)
    assert machine.is_done
    assert isinstance(machine.outcome, Stopped | Finished)
    if isinstance(machine.outcome, Stopped):
        assert machine.outcome.reason == "runtime_error"
    assert unanswered(machine.messages) == set()
    TurnMachine(config(), machine.messages)  # the next turn can begin


class Nonsense(StandardDriver):
    """Wants what cannot be done."""

    def __init__(self, wanted: list[Action]) -> None:
        self._wanted = wanted

    def prepare(self, view: DriverView) -> list[Action]:
        return self._wanted


@pytest.mark.parametrize(
    "wanted",
    [
        [],
        [NextIteration()],
        [StartTools(calls=())],
        [StartCheckpoint(kind="after_work"), StartCheckpoint(kind="after_work")],
        ["finish"],
        [None],
        [HELLO],
    ],
    ids=repr,
)
def test_a_batch_that_cannot_be_followed_ends_the_turn(wanted: list[Action]) -> None:
    machine = TurnMachine(config(driver=Nonsense(wanted)), (HELLO,))
    play(machine)
    assert isinstance(machine.outcome, Stopped)
    assert machine.outcome.reason == "runtime_error"
    TurnMachine(config(), machine.messages)
