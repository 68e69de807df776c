"""Drive a bare machine from its first effect to its last, with everything that it said kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from windlass.kernel import (
    CallModel,
    Effect,
    Emit,
    Event,
    ModelRequest,
    Outcome,
    TurnConfig,
    TurnMachine,
    TurnSnapshot,
    canonical,
)
from windlass.testing.answers import Answers

K = TypeVar("K")

# A machine that has not ended by then is not going to.
_MAX_EFFECTS = 100_000


class Driven(msgspec.Struct, kw_only=True):
    """A machine and what it said so far."""

    machine: TurnMachine
    effects: list[Effect] = []

    @property
    def outcome(self) -> Outcome | None:
        """How the turn ended, once it has."""
        return self.machine.outcome

    @property
    def events(self) -> list[Event]:
        """The events, in order."""
        return [effect.event for effect in self.effects if isinstance(effect, Emit)]

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests to the model, in order."""
        return [effect.request for effect in self.effects if isinstance(effect, CallModel)]

    def all(self, kind: type[K]) -> list[K]:
        """Return the effects of one kind."""
        return [effect for effect in self.effects if isinstance(effect, kind)]


def drive(
    machine: TurnMachine,
    answers: Answers,
    *,
    until: Callable[[Effect], bool] | None = None,
    restart_with: TurnConfig | None = None,
) -> Driven:
    """Answer effects until the turn ends, or until one for which `until` is true (not answered).

    With `restart_with`, the machine is thrown away after every single effect and goes on as another
    one, restored from the canonical bytes of its snapshot: nothing may depend on the process.
    """
    driven = Driven(machine=machine)
    for _ in range(_MAX_EFFECTS):
        effect = driven.machine.poll()
        if effect is None:
            return driven
        driven.effects.append(effect)
        if until is not None and until(effect):
            return driven
        response = answers.to(effect)
        if restart_with is not None and response is None:
            driven.machine = _restarted(driven.machine, restart_with)
        elif response is not None:
            driven.machine.respond(response)
    raise AssertionError(f"The machine has not ended after {_MAX_EFFECTS:,} effects.")


def _restarted(machine: TurnMachine, config: TurnConfig) -> TurnMachine:
    kept = canonical.encode(machine.snapshot())
    return TurnMachine.restore(config, canonical.decode(kept, TurnSnapshot))
