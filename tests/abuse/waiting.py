"""Machines that wait, one in each waiting state, for tests that answer badly."""

from __future__ import annotations

from collections.abc import Callable

from windlass.kernel import (
    Action,
    CheckpointPassed,
    CodeReturned,
    DriverView,
    EnvironmentSynced,
    Message,
    ModelReplied,
    ModelReply,
    StandardDriver,
    StartCode,
    Text,
    ToolCall,
    ToolSpec,
    ToolsReturned,
    TurnConfig,
    TurnMachine,
)

HELLO = Message(id="u", role="user", parts=(Text(text="hi"),))
CALLS = ModelReply(
    parts=(ToolCall(call_id="call_1", name="add"), ToolCall(call_id="call_2", name="add")),
    terminal="tool_use",
)


class CodeDriver(StandardDriver):
    """Runs a cell first."""

    def prepare(self, view: DriverView) -> list[Action]:
        return [StartCode(language="python", code="1")]


def config(*, driver: StandardDriver | None = None, sync: bool = False) -> TurnConfig:
    return TurnConfig(
        driver=driver or StandardDriver(),
        model="m",
        session_id="s",
        turn_id="t",
        tools=(ToolSpec(name="add"),),
        sync_environment=sync,
        emit_trace=True,
    )


def polled(machine: TurnMachine) -> TurnMachine:
    """Poll to None."""
    while machine.poll() is not None:
        pass
    return machine


def waiting_for_environment() -> TurnMachine:
    return polled(TurnMachine(config(sync=True), (HELLO,)))


def waiting_for_model() -> TurnMachine:
    return polled(TurnMachine(config(), (HELLO,)))


def waiting_for_tools() -> TurnMachine:
    machine = waiting_for_model()
    machine.respond(ModelReplied(id=1, result=CALLS))
    return polled(machine)


def waiting_for_code() -> TurnMachine:
    return polled(TurnMachine(config(driver=CodeDriver()), (HELLO,)))


def waiting_for_checkpoint() -> TurnMachine:
    machine = waiting_for_model()
    machine.respond(ModelReplied(id=1, result=ModelReply(text="hello")))
    return polled(machine)


# What each kind of response answers: how to get there, and the id of the effect that waits.
WAITING: dict[type, tuple[Callable[[], TurnMachine], int]] = {
    EnvironmentSynced: (waiting_for_environment, 1),
    ModelReplied: (waiting_for_model, 1),
    ToolsReturned: (waiting_for_tools, 2),
    CodeReturned: (waiting_for_code, 1),
    CheckpointPassed: (waiting_for_checkpoint, 2),
}
