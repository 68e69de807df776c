"""A turn played through, and played again with its machine replaced by a restored one.

The law: a machine and its restored copy are indistinguishable. Whatever the position, from
snapshot → bytes → restore on, every further effect has the same bytes; the effect that waits for
an answer is asked once more if it was asked already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

from windlass.kernel import (
    CallModel,
    CallTools,
    CheckpointDelivery,
    CheckpointPassed,
    CodeResult,
    CodeReturned,
    CompletedToolCall,
    Effect,
    Environment,
    EnvironmentSynced,
    Error,
    Failure,
    ModelFailure,
    ModelReplied,
    ModelReply,
    RunCheckpoint,
    RunCode,
    Stopped,
    SyncEnvironment,
    ToolOutcome,
    ToolsReturned,
    TurnConfig,
    TurnMachine,
    TurnSnapshot,
    canonical,
)

Asked: TypeAlias = SyncEnvironment | CallModel | CallTools | RunCode | RunCheckpoint
Batch: TypeAlias = list[bytes]
K = TypeVar("K")
_ASKED = (SyncEnvironment, CallModel, CallTools, RunCode, RunCheckpoint)


class Services(NamedTuple):
    """What answers: a pure function of the effect, so that an effect asked twice is answered alike.

    The effect `stop_at` is answered by ending the turn from outside, and so is any after it.
    """

    replies: tuple[ModelReply | ModelFailure, ...] = (ModelReply(text="done"),)
    outcomes: tuple[ToolOutcome, ...] = (ToolOutcome(value=1),)
    deliveries: tuple[CheckpointDelivery | Failure, ...] = (CheckpointDelivery(),)
    environments: tuple[Environment | Failure | None, ...] = (None,)
    cells: tuple[CodeResult | Failure, ...] = (CodeResult(output="1"),)
    text_streamed: bool = False
    stop_at: int = 7
    stop_in_failure: bool = False
    # How many of the calls that are out are known to have ended, when the turn is stopped.
    n_completed: int = 1

    def answer(self, machine: TurnMachine, effect: Asked) -> None:
        """Tell the machine what became of its effect."""
        at = effect.id
        if at >= self.stop_at:
            self._stop(machine, effect)
            return
        match effect:
            case SyncEnvironment():
                machine.respond(EnvironmentSynced(id=at, result=_pick(self.environments, at)))
            case CallModel():
                reply = _pick(self.replies, at)
                streamed = self.text_streamed
                machine.respond(ModelReplied(id=at, result=reply, text_streamed=streamed))
            case CallTools():
                machine.respond(ToolsReturned(id=at, results=self._results(effect)[::-1]))
            case RunCode():
                machine.respond(CodeReturned(id=at, result=_pick(self.cells, at)))
            case RunCheckpoint():
                machine.respond(CheckpointPassed(id=at, delivery=_pick(self.deliveries, at)))

    def _results(self, effect: CallTools) -> tuple[CompletedToolCall, ...]:
        return tuple(
            CompletedToolCall(
                call_id=call.call_id,
                name=call.name,
                args=call.args,
                outcome=_pick(self.outcomes, effect.id + at),
                duration_ms=at,
            )
            for at, call in enumerate(effect.calls)
        )

    def _stop(self, machine: TurnMachine, effect: Asked) -> None:
        ended = self._results(effect)[: self.n_completed] if isinstance(effect, CallTools) else ()
        if self.stop_in_failure:
            machine.fail(Error(message="lost", code="lost"), ended)
        else:
            machine.finish(Stopped(reason="cancelled", detail="by hand"), ended)


def _pick(choices: tuple[K, ...], at: int) -> K:
    return choices[at % len(choices)]


class Position(NamedTuple):
    """A place between two calls of the machine: its snapshot, and what it says from here on."""

    snapshot: bytes
    rest_of_batch: Batch
    later: int


class Play(NamedTuple):
    """An undisturbed turn: what was said between two answers, and every position."""

    batches: list[Batch]
    positions: list[Position]


NewConfig: TypeAlias = Callable[[], TurnConfig]


def say(machine: TurnMachine, world: Services) -> list[Batch]:
    """Play a turn to its end and return what was said between two answers."""
    batches: list[Batch] = []
    while True:
        batch: Batch = []
        last: Effect | None = None
        while (effect := machine.poll()) is not None:
            last = effect
            batch.append(canonical.encode(effect))
        batches.append(batch)
        if not isinstance(last, _ASKED):
            return batches
        world.answer(machine, last)


def play(machine: TurnMachine, world: Services) -> Play:
    """Play a turn to its end and note every position."""
    batches: list[Batch] = []
    positions: list[Position] = []
    while True:
        snapshots = [canonical.encode(machine.snapshot())]
        batch: Batch = []
        last: Effect | None = None
        while (effect := machine.poll()) is not None:
            last = effect
            batch.append(canonical.encode(effect))
            snapshots.append(canonical.encode(machine.snapshot()))
        batches.append(batch)
        again = batch[-1:] if isinstance(last, _ASKED) else []
        for at, snapshot in enumerate(snapshots):
            positions.append(Position(snapshot, batch[at:] or again, len(batches)))
        if not isinstance(last, _ASKED):
            return Play(batches, positions)
        world.answer(machine, last)


def restored(kind: type[TurnMachine], new_config: NewConfig, snapshot: bytes) -> TurnMachine:
    """Return the machine of a snapshot, with a config that was built anew, as after a crash."""
    machine = kind.restore(new_config(), canonical.decode(snapshot, TurnSnapshot))
    assert snapshot == canonical.encode(machine.snapshot())
    return machine


def check_restoring_once(
    kind: type[TurnMachine], new_config: NewConfig, world: Services, played: Play
) -> int:
    """Restore at each position in turn, go on undisturbed; return at how many positions."""
    for snapshot, rest_of_batch, later in played.positions:
        machine = restored(kind, new_config, snapshot)
        assert [rest_of_batch, *played.batches[later:]] == say(machine, world)
    return len(played.positions)


def check_restoring_always(
    kind: type[TurnMachine], new_config: NewConfig, world: Services, played: Play
) -> None:
    """Replace the machine after every single call; every other effect is asked again first."""
    machine = restored(kind, new_config, played.positions[0].snapshot)
    for batch in played.batches:
        effect: Effect | None = None
        for wanted in batch:
            effect = machine.poll()
            assert wanted == canonical.encode(effect)
            machine = _replaced(kind, new_config, machine)
        if not isinstance(effect, _ASKED):
            assert machine.poll() is None
            return
        if effect.id % 2:
            assert batch[-1] == canonical.encode(machine.poll())
            assert machine.poll() is None
            machine = _replaced(kind, new_config, machine)
        world.answer(machine, effect)
        machine = _replaced(kind, new_config, machine)


def _replaced(kind: type[TurnMachine], new_config: NewConfig, machine: TurnMachine) -> TurnMachine:
    return restored(kind, new_config, canonical.encode(machine.snapshot()))


def check(
    new_machine: Callable[[TurnConfig], TurnMachine], new_config: NewConfig, world: Services
) -> int:
    """Hold one turn against the law in every way; return at how many positions."""
    machine = new_machine(new_config())
    kind = type(machine)
    played = play(machine, world)
    check_restoring_always(kind, new_config, world, played)
    return check_restoring_once(kind, new_config, world, played)
