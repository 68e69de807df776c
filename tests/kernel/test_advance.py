"""`advance` is `poll` for a caller who wants events and the next effect that asks something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.builders import (
    Chooses,
    call,
    config,
    drain,
    kinds,
    machine,
    reply,
    run_tools,
    user,
)
from tests.kernel.restoring import Services, restored
from tests.kernel.table_driver import Table, TableDriver, tables
from tests.kernel.test_snapshot_property import BUSY, BUSY_START, Start, starts, worlds
from windlass.kernel import (
    Append,
    CallModel,
    CallTools,
    CheckpointPassed,
    Done,
    Driver,
    DriverRecord,
    Emit,
    Event,
    Finish,
    Finished,
    ModelFinished,
    ModelReplied,
    PendingToolCall,
    Progress,
    RunCheckpoint,
    RunCode,
    StandardDriver,
    Stopped,
    SyncEnvironment,
    Text,
    ToolStarted,
    TurnConfig,
    TurnEnded,
    TurnMachine,
    canonical,
)
from windlass.kernel.effects import Asked

_ASKED = (SyncEnvironment, CallModel, CallTools, RunCode, RunCheckpoint)


class Step(NamedTuple):
    """What a machine said between two answers, and what it was afterwards."""

    events: list[bytes]
    asked: bytes | None
    snapshot: bytes


def by_polling(turn: TurnMachine) -> tuple[list[Event], Asked | None]:
    events: list[Event] = []
    while (effect := turn.poll()) is not None:
        if isinstance(effect, _ASKED):
            return events, effect
        if isinstance(effect, Emit):
            events.append(effect.event)
    return events, None


def by_advancing(turn: TurnMachine) -> tuple[list[Event], Asked | None]:
    events: list[Event] = []
    return events, turn.advance(events)


def steps_of(
    turn: TurnMachine,
    world: Services,
    go_on: Callable[[TurnMachine], tuple[list[Event], Asked | None]],
    replaced: Callable[[TurnMachine], TurnMachine] = lambda turn: turn,
) -> list[Step]:
    """Play a turn to its end; `replaced` gives the machine to go on with after each answer."""
    steps: list[Step] = []
    while True:
        events, asked = go_on(turn)
        assert turn.poll() is None
        steps.append(
            Step(
                [canonical.encode(event) for event in events],
                None if asked is None else canonical.encode(asked),
                canonical.encode(turn.snapshot()),
            )
        )
        if asked is None:
            return steps
        world.answer(turn, asked)
        turn = replaced(turn)


def check(start: Start, world: Services, driver: Callable[[], Driver]) -> None:
    def replaced(turn: TurnMachine) -> TurnMachine:
        snapshot = canonical.encode(turn.snapshot())
        return restored(TurnMachine, lambda: start.config(driver()), snapshot)

    def new() -> TurnMachine:
        return start.machine(start.config(driver()))

    polled = steps_of(new(), world, by_polling)
    assert polled == steps_of(new(), world, by_advancing)
    assert polled == steps_of(new(), world, by_advancing, replaced)


@settings(max_examples=300)
@given(start=starts(), world=worlds())
def test_advancing_a_standard_turn_is_polling_it(start: Start, world: Services) -> None:
    check(start, world, StandardDriver)


@settings(max_examples=300)
@given(start=starts(), world=worlds(), table=tables())
def test_advancing_a_turn_of_any_driver_is_polling_it(
    start: Start, world: Services, table: Table
) -> None:
    check(start, world, lambda: TableDriver(table))


def test_a_busy_turn_is_advanced_as_it_is_polled() -> None:
    check(BUSY_START, BUSY, StandardDriver)


@settings(max_examples=100)
@given(start=starts(), world=worlds(), picks=st.lists(st.booleans(), min_size=1, max_size=5))
def test_a_turn_may_be_polled_and_advanced_in_any_order(
    start: Start, world: Services, picks: list[bool]
) -> None:
    left = list(picks)

    def mixed(turn: TurnMachine) -> tuple[list[Event], Asked | None]:
        left.append(left.pop(0))
        return by_polling(turn) if left[-1] else by_advancing(turn)

    def new() -> TurnMachine:
        return start.machine(start.config(StandardDriver()))

    assert steps_of(new(), world, by_polling) == steps_of(new(), world, mixed)


def test_events_are_added_behind_those_that_are_there() -> None:
    before = ToolStarted(call_id="c0", name="add")
    events: list[Event] = [before]

    asked = machine().advance(events)

    assert isinstance(asked, CallModel)
    assert [type(event).__name__ for event in events] == ["ToolStarted", "ModelStarted"]
    assert events[0] is before


def test_what_was_asked_is_not_asked_again() -> None:
    turn = machine()
    events: list[Event] = []
    turn.advance(events)

    assert turn.advance(events) is None
    assert len(events) == 1


def test_a_turn_that_was_finished_from_outside_has_its_end_and_nothing_to_ask() -> None:
    turn = machine()
    turn.advance([])
    turn.finish(Stopped(reason="cancelled"))
    events: list[Event] = []

    assert turn.advance(events) is None
    assert [type(event) for event in events] == [TurnEnded]
    assert turn.poll() is None


# --- without progress ------------------------------------------------------------------------------


def turn_without_progress(turn_config: TurnConfig) -> TurnMachine:
    return TurnMachine(turn_config, [user("hi")])


def play_one_call(turn: TurnMachine) -> list[object]:
    effects: list[object] = [*drain(turn)]
    turn.respond(ModelReplied(id=1, result=reply(call("c1", a=1, b=2))))
    asked: list[Any] = drain(turn)
    effects += asked
    turn.respond(run_tools(asked[-1], c1=3))
    effects += drain(turn)
    turn.respond(CheckpointPassed(id=3))
    effects += drain(turn)
    turn.respond(ModelReplied(id=4, result=reply(Text(text="three"))))
    effects += drain(turn)
    turn.respond(CheckpointPassed(id=5))
    return [*effects, *drain(turn)]


def test_without_progress_the_machine_tells_none_and_done_carries_every_record() -> None:
    told, silent = (
        play_one_call(turn_without_progress(config(progress=progress)))
        for progress in (True, False)
    )
    carried = [
        record
        for effect in told
        if isinstance(effect, (Progress, Done))
        for record in effect.new_records
    ]

    assert [each for each in told if not isinstance(each, (Progress, Done))] == [
        each for each in silent if not isinstance(each, Done)
    ]
    assert not any(isinstance(each, Progress) for each in silent)
    (done,) = [each for each in silent if isinstance(each, Done)]
    assert len(carried) == 3
    assert list(done.new_records) == carried


@settings(max_examples=100)
@given(start=starts(), world=worlds(), table=tables())
def test_progress_decides_nothing_else(start: Start, world: Services, table: Table) -> None:
    def silent() -> TurnConfig:
        return msgspec.structs.replace(start.config(TableDriver(table)), progress=False)

    told = steps_of(start.machine(start.config(TableDriver(table))), world, by_advancing)
    untold = steps_of(start.machine(silent()), world, by_advancing)

    assert [step[:2] for step in told] == [step[:2] for step in untold]
    assert told[-1] == untold[-1]


def test_a_turn_restored_without_progress_carries_in_done_what_was_not_carried_before() -> None:
    note = DriverRecord(data={"at": 1})
    driver = Chooses(
        on_model=lambda *_: [Append(records=(note,)), Finish(outcome=Finished(text="ok"))]
    )
    turn = machine(driver)
    drain(turn)
    goes_on = TurnMachine.restore(config(driver, progress=False), turn.snapshot())
    drain(goes_on)
    goes_on.respond(ModelReplied(id=1, result=reply(Text(text="ok"))))

    effects = drain(goes_on)

    assert kinds(effects) == ["UsageReported", "TurnEnded", "Done"]
    assert isinstance(effects[-1], Done)
    assert effects[-1].new_records == (note,)


# --- the calls of a reply ----------------------------------------------------------------------------


def test_a_finished_model_call_names_the_calls_that_run_next() -> None:
    turn = machine()
    turn.advance([])
    events: list[Event] = []
    turn.respond(
        ModelReplied(id=1, result=reply(Text(text="so"), call("c1", a=1), call("c2", b=2)))
    )
    asked = turn.advance(events)

    (finished,) = [event for event in events if isinstance(event, ModelFinished)]
    assert finished.calls == (
        PendingToolCall(call_id="c1", name="add", args={"a": 1}),
        PendingToolCall(call_id="c2", name="add", args={"b": 2}),
    )
    assert isinstance(asked, CallTools)
    assert finished.calls == asked.calls


@pytest.mark.parametrize("said", [reply(Text(text="so")), reply(call("c1", name="no good", a=1))])
def test_a_finished_model_call_without_calls_that_run_leaves_the_field_out(said: object) -> None:
    turn = machine()
    turn.advance([])
    events: list[Event] = []
    turn.respond(ModelReplied(id=1, result=said))  # type: ignore[arg-type]
    turn.advance(events)

    (finished,) = [event for event in events if isinstance(event, ModelFinished)]
    assert finished.calls == ()
    assert b"calls" not in canonical.encode(finished)
