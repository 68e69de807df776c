"""Faults put into windlass on purpose: the matrix has to turn red at each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from windlass.journal import Contract, ModelAnswered
from windlass.kernel.tool_call import CompletedToolCall
from windlass.runtime import body
from windlass.runtime.call_batch import CallBatch
from windlass.runtime.recovery import Recovery
from windlass.runtime.tool_call import ToolCallRun
from windlass.runtime.turn import Keyed, Turn

Patch = tuple[Any, str, Any]


def _once_is_repeated() -> Patch:
    """Run a `once` tool again after a crash, as if it were idempotent."""
    go_on = ToolCallRun._resume

    async def repeats(self: ToolCallRun, contract: Contract) -> CompletedToolCall:
        tool = self.turn.toolbox.get(self.call.name)
        if contract != "once" or tool is None:
            return await go_on(self, contract)
        return await self._work(tool, None, contract, is_taken_over=True)

    return ToolCallRun, "_resume", repeats


def _idempotent_is_not_repeated() -> Patch:
    """Take `idempotent` for `once`."""
    go_on = ToolCallRun._resume

    async def gives_up(self: ToolCallRun, contract: Contract) -> CompletedToolCall:
        return await go_on(self, "once" if contract == "idempotent" else contract)

    return ToolCallRun, "_resume", gives_up


def _no_barrier() -> Patch:
    """Begin the body before its intent is on disk."""

    async def barrier(self: CallBatch) -> None:
        await asyncio.sleep(0)

    return CallBatch, "barrier", barrier


def _no_places() -> Patch:
    """Begin every call of a reply at once, also behind one that runs alone."""
    return CallBatch, "body", lambda _self, **_: None


def _questions_anew() -> Patch:
    """Ask a person again in every life."""
    wait_key = Turn.wait_key

    def anew(self: Turn, about: str, digest: str) -> str:
        return wait_key(self, f"{about}/{self.services.worker_id}", digest)

    return Turn, "wait_key", anew


def _fresh_keys() -> Patch:
    """Give every attempt an idempotency key of its own."""
    numbers = count()
    return body, "idempotency_key", lambda *_: f"wl_{next(numbers)}"


def _replies_are_forgotten() -> Patch:
    """Ask the model again for what the journal holds."""
    answer_to = Recovery.answer_to

    def forgets(self: Recovery, asked: Keyed, wanted: type) -> object:
        return None if wanted is ModelAnswered else answer_to(self, asked, wanted)

    return Recovery, "answer_to", forgets


MUTANTS: dict[str, Callable[[], Patch]] = {
    "once is repeated": _once_is_repeated,
    "idempotent is not repeated": _idempotent_is_not_repeated,
    "no barrier before the body": _no_barrier,
    "no waiting for a place": _no_places,
    "questions are asked anew": _questions_anew,
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
