"""Faults put into windlass on purpose: the matrix has to turn red at each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from windlass.journal import Contract, ModelAnswered
from windlass.runtime import tool_call_run
from windlass.runtime.call_batch import CallBatch
from windlass.runtime.tool_call_run import ToolCallRun
from windlass.runtime.turn_in_hand import TurnInHand

Patch = tuple[Any, str, Any]


def _once_is_repeated() -> Patch:
    """Take `once` for `idempotent` after a crash."""
    go_on = ToolCallRun._go_on

    async def repeats(self: ToolCallRun, contract: Contract) -> Any:
        return await go_on(self, "idempotent" if contract == "once" else contract)

    return ToolCallRun, "_go_on", repeats


def _idempotent_is_not_repeated() -> Patch:
    """Take `idempotent` for `once`."""
    go_on = ToolCallRun._go_on

    async def gives_up(self: ToolCallRun, contract: Contract) -> Any:
        return await go_on(self, "once" if contract == "idempotent" else contract)

    return ToolCallRun, "_go_on", gives_up


def _no_barrier() -> Patch:
    """Begin the body before its intent is on disk."""

    async def barrier(self: CallBatch) -> None:
        await asyncio.sleep(0)

    return CallBatch, "barrier", barrier


def _fresh_keys() -> Patch:
    """Give every attempt an idempotency key of its own."""
    numbers = count()
    return tool_call_run, "idempotency_key", lambda *_: f"wl_{next(numbers)}"


def _replies_are_forgotten() -> Patch:
    """Ask the model again for what the journal holds."""
    answer_to = TurnInHand.answer_to

    def forgets(self: TurnInHand, envelope: Any, wanted: type) -> Any:
        return None if wanted is ModelAnswered else answer_to(self, envelope, wanted)

    return TurnInHand, "answer_to", forgets


MUTANTS: dict[str, Callable[[], Patch]] = {
    "once is repeated": _once_is_repeated,
    "idempotent is not repeated": _idempotent_is_not_repeated,
    "no barrier before the body": _no_barrier,
    "a fresh key for each attempt": _fresh_keys,
    "replies are forgotten": _replies_are_forgotten,
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Have the fault in this process."""
    place, attribute, fault = MUTANTS[name]()
    whole = getattr(place, attribute)
    setattr(place, attribute, fault)
    try:
        yield
    finally:
        setattr(place, attribute, whole)
