"""A machine and its restored copy are indistinguishable: any driver, any answers, any position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.kernel import strategies as drawn
from tests.kernel.restoring import Services, check
from tests.kernel.table_driver import Table, TableDriver, tables
from tests.limits import times
from windlass.kernel import (
    Action,
    ChatProjector,
    CheckpointDelivery,
    CodeResult,
    Driver,
    DriverRecord,
    DriverView,
    Effect,
    Emit,
    EmitEvent,
    Environment,
    Failure,
    InjectedMessage,
    InputOrigin,
    Message,
    ModelReply,
    ModelRequest,
    PluginEvent,
    Projector,
    ProjectorView,
    Record,
    StandardDriver,
    Text,
    ToolCall,
    ToolOutcome,
    TurnCause,
    TurnConfig,
    TurnMachine,
    TurnSnapshot,
    Usage,
)

# Each turn is restored at every one of its positions.
N_STANDARD = times(250)
N_TABLE = times(300)


class Start(NamedTuple):
    """How a turn begins."""

    messages: tuple[Message, ...]
    records: tuple[Record, ...]
    causes: tuple[TurnCause, ...]
    iteration_offset: int
    settings: dict[str, Any]

    def config(self, driver: Driver) -> TurnConfig:
        return TurnConfig(
            driver=driver, model="m", session_id=drawn.SESSION_ID, turn_id="t1", **self.settings
        )

    def machine(self, config: TurnConfig) -> TurnMachine:
        return TurnMachine(
            config,
            self.messages,
            records=self.records,
            causes=self.causes,
            iteration_offset=self.iteration_offset,
        )


def starts() -> SearchStrategy[Start]:
    options = st.fixed_dictionaries(
        {
            "system_prompt": drawn.prompts(),
            "tools": drawn.tool_sets(),
            "max_iterations": st.sampled_from((None, None, 0, 1, 1, 2, 3)),
            "max_context_tokens": st.sampled_from((None, 100)),
            "sync_environment": st.booleans(),
            "emit_trace": st.booleans(),
            "termination": st.sampled_from((None, {"when": ["now"]})),
        }
    )
    records: tuple[tuple[Record, ...], ...] = ((), (DriverRecord(data={"invalid_replies": 2}),))
    return st.builds(
        Start,
        messages=st.lists(drawn.user_messages(), max_size=1).map(tuple),
        records=st.sampled_from(records),
        causes=drawn.causes(),
        iteration_offset=st.sampled_from((0, 0, 5)),
        settings=options,
    )


def worlds() -> SearchStrategy[Services]:
    reply = drawn.usual_replies() | drawn.odd_replies()
    cell = st.builds(
        CodeResult, output=drawn.words(), error=st.none() | drawn.words(), finished=st.booleans()
    ) | st.builds(Failure, message=drawn.words())
    return st.builds(
        Services,
        replies=st.lists(reply, min_size=1, max_size=3).map(tuple)
        | drawn.model_failures().map(lambda failure: (failure,)),
        outcomes=st.lists(drawn.tool_outcomes(), min_size=1, max_size=2).map(tuple),
        deliveries=st.lists(drawn.deliveries(), min_size=1, max_size=3).map(tuple),
        environments=st.lists(drawn.environments(), min_size=1, max_size=2).map(tuple),
        cells=st.lists(cell, min_size=1, max_size=2).map(tuple),
        text_streamed=st.booleans(),
        stop_at=st.integers(2, 8),
        stop_in_failure=st.booleans(),
        n_completed=st.integers(0, 2),
    )


@settings(max_examples=N_STANDARD)
@given(start=starts(), world=worlds())
def test_a_restored_standard_turn_goes_on_with_the_same_bytes(
    start: Start, world: Services
) -> None:
    assert check(start.machine, lambda: start.config(StandardDriver()), world) >= 3


@settings(max_examples=N_TABLE)
@given(start=starts(), world=worlds(), table=tables())
def test_a_restored_turn_of_any_driver_goes_on_with_the_same_bytes(
    start: Start, world: Services, table: Table
) -> None:
    assert check(start.machine, lambda: start.config(TableDriver(table)), world) >= 3


# --- the property notices what it is there to notice ----------------------------------------------

CALLS = ModelReply(
    parts=(
        Text(text="let me see"),
        ToolCall(call_id="call_a", name="add", args={"a": 1}),
        ToolCall(call_id="call_b", name="add", raw="{"),
    ),
    usage=Usage(input_tokens=3, output_tokens=2),
    terminal="tool_use",
)
CAUSE = TurnCause(id="wake-9", event_type="timer", origin=InputOrigin(turn_id="t0"), text="now")
NOTE = InjectedMessage(role="user", parts=(Text(text="by the way"),))
SAY = ModelReply(text="that is it", usage=Usage(output_tokens=1))
BRIEF = Environment(system_prompt="Be brief.", tools=drawn.TOOLS[:1])
# sync 1, model 2, tools 3, after_work 4 · sync 5, model 6, before_completion 7, whose delivery
# gets the grace iteration · sync 8, model 9, before_completion 10, whose delivery ends the turn.
BUSY = Services(
    replies=tuple(CALLS if at == 2 else SAY for at in range(11)),
    outcomes=(ToolOutcome(value={"sum": 2}),),
    deliveries=(CheckpointDelivery(messages=(NOTE,), causes=(CAUSE,)),),
    environments=tuple(BRIEF if at == 1 else None for at in range(11)),
    stop_at=20,
)
BUSY_START = Start(
    messages=(Message(id="u0", role="user", parts=(Text(text="hi"),)),),
    records=(DriverRecord(data={"kept": 1}),),
    causes=(),
    iteration_offset=5,
    settings={
        "max_iterations": 2,
        "sync_environment": True,
        "emit_trace": True,
        "tools": drawn.TOOLS,
    },
)


def config_with(driver: Driver, projector: Projector | None = None) -> TurnConfig:
    config = BUSY_START.config(driver)
    return msgspec.structs.replace(config, projector=projector) if projector else config


def test_the_busy_turn_passes_as_it_is() -> None:
    positions = check(BUSY_START.machine, lambda: config_with(StandardDriver()), BUSY)
    assert positions > 30


class CountingDriver(StandardDriver):
    """Remembers on itself how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def prepare(self, view: DriverView) -> list[Action]:
        self.asked += 1
        event = PluginEvent(plugin="p", name="asked", data=self.asked)
        return [EmitEvent(event=event), *super().prepare(view)]


class CountingProjector(ChatProjector):
    """Writes into each request how many it made before."""

    def __init__(self) -> None:
        self.made = 0

    def project(self, view: ProjectorView) -> ModelRequest:
        self.made += 1
        return msgspec.structs.replace(super().project(view), variant=f"number {self.made}")


class CountingMachine(TurnMachine):
    """Numbers what it says, and keeps the number outside its snapshot."""

    said = 0

    def poll(self) -> Effect | None:
        effect = super().poll()
        if isinstance(effect, Emit):
            self.said += 1
            numbered = msgspec.structs.replace(effect.event, correlation_id=str(self.said))
            return Emit(event=numbered)
        return effect


def test_a_driver_with_hidden_state_is_noticed() -> None:
    with pytest.raises(AssertionError):
        check(BUSY_START.machine, lambda: config_with(CountingDriver()), BUSY)


def test_a_projector_with_hidden_state_is_noticed() -> None:
    with pytest.raises(AssertionError):
        check(BUSY_START.machine, lambda: config_with(StandardDriver(), CountingProjector()), BUSY)


def test_a_machine_with_hidden_state_is_noticed() -> None:
    def machine(config: TurnConfig) -> TurnMachine:
        return CountingMachine(config, BUSY_START.messages)

    with pytest.raises(AssertionError):
        check(machine, lambda: config_with(StandardDriver()), BUSY)


FORGETTABLE: Sequence[str] = (
    "queue",
    "causes",
    "iteration",
    "synced_iteration",
    "next_message",
    "next_event",
    "told_records",
    "usage",
    "limit",
    "environment",
)


@pytest.mark.parametrize("field", FORGETTABLE)
def test_a_snapshot_that_forgets_one_field_is_noticed(field: str) -> None:
    """Every field of a snapshot decides something; each is missed when it is gone."""
    fields = {each.name: each for each in msgspec.structs.fields(TurnSnapshot)}
    forgotten = BUSY_START.iteration_offset if field == "iteration" else fields[field].default

    class Forgetful(TurnMachine):
        def snapshot(self) -> TurnSnapshot:
            return msgspec.structs.replace(super().snapshot(), **{field: forgotten})

    def machine(config: TurnConfig) -> TurnMachine:
        return Forgetful(config, BUSY_START.messages, iteration_offset=5)

    with pytest.raises(AssertionError):
        check(machine, lambda: config_with(StandardDriver()), BUSY)


def test_the_list_of_forgettable_fields_is_complete() -> None:
    told_to_the_machine = {"format", "session_id", "turn_id", "state", "messages", "records"}
    refused_by_restore = {"next_effect", "iteration_offset"}
    assert {*FORGETTABLE} | told_to_the_machine | refused_by_restore == {
        *TurnSnapshot.__struct_fields__
    }
