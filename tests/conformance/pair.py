"""A pair of stores that are told the same: whatever they answer and show has to be the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from windlass.errors import WindlassError
from windlass.ports import (
    Change,
    ClaimedTurn,
    DeleteReport,
    Due,
    DueCancel,
    DueTurn,
    ErrandReceipt,
    Lease,
    SessionView,
    Store,
    TurnSummary,
    TurnView,
    UnitReceipt,
    VacuumReport,
    WorkerView,
)
from windlass.testing.conformance import StoreHarness

A = TypeVar("A")
Ask: TypeAlias = Callable[["Side"], Awaitable[object]]

SESSIONS = ("s1", "s2", "s3")
TURNS = ("t1", "t2", "t3")
ALL_TURNS = tuple((session_id, turn_id) for session_id in SESSIONS for turn_id in TURNS)
FAR_MS = 10**15


def refusal(error: WindlassError) -> tuple[str, str]:
    return type(error).__name__, error.code


class Side:
    """One of the two stores; workers are told by the order in which they joined."""

    def __init__(self, harness: StoreHarness, store: Store) -> None:
        self.harness = harness
        self.store = store
        self.workers: list[str] = []
        self.mark: str | None = None

    def worker(self, at: int) -> str:
        return self.workers[at] if at < len(self.workers) else "nobody"

    async def answer(self, ask: Ask) -> object:
        try:
            return self.seen(await ask(self))
        except WindlassError as error:
            return refusal(error)

    def seen(self, value: object) -> object:
        """What was answered, without what a store may choose for itself."""
        match value:
            case tuple() | list():
                return [self.seen(item) for item in value]
            case Due() | ClaimedTurn():
                return self.seen(msgspec.structs.astuple(value))
            case UnitReceipt(errands=told) if told:
                return [msgspec.structs.replace(value, errands=()), self.seen(told)]
            # A store names workers, and counts pages, bodies and turns, in its own way.
            case DeleteReport():
                value = msgspec.structs.replace(value, pages=0, bodies=0)
            case VacuumReport():
                value = msgspec.structs.replace(value, bodies=0)
            case TurnSummary():
                value = msgspec.structs.replace(value, no=0)
            case _:
                pass
        return self.without_names(value)

    def without_names(self, value: object) -> object:
        match value:
            case (
                SessionView(owner=str(name))
                | TurnView(owner=str(name))
                | TurnSummary(owner=str(name))
                | DueTurn(owner=str(name))
                | DueCancel(owner=str(name))
                | ErrandReceipt(owner=str(name))
            ):
                return msgspec.structs.replace(value, owner=f"#{self.workers.index(name)}")
            case Lease(worker_id=name) | WorkerView(worker_id=name) | Change(worker_id=name) if (
                name
            ):
                return msgspec.structs.replace(value, worker_id=f"#{self.workers.index(name)}")
            case _:
                return value

    async def everything(self, turns: Collection[tuple[str, str]] = ALL_TURNS) -> list[object]:
        """All that can be seen of a store, of these turns, and what changed since the last look."""
        there = await self.store.list_sessions(kind=None)
        looks: list[Ask] = [
            lambda side: side.news(),
            lambda side: side.store.due(FAR_MS),
            lambda side: side.store.list_waits(),
            lambda side: side.store.list_turns(),
            *(partial(_load_session, name) for name in SESSIONS),
        ]
        # A list may leave out what callers did not begin, so each is looked at, there or not.
        looks += [partial(_load_inbox, name) for name in SESSIONS]
        looks += [partial(_load_turn, *turn) for turn in turns]
        return [there, *await asyncio.gather(*map(self.answer, looks))]

    async def news(self) -> list[object]:
        """What changed since the last look, with its pages; a few at a time."""
        told: list[object] = []
        has_more = True
        while has_more:
            found = await self.store.changes(self.mark, limit=3, pages=True)
            told += found.changes
            self.mark, has_more = found.mark, found.has_more
        return told


def _load_session(session_id: str, side: Side) -> Awaitable[object]:
    return side.store.load_session(session_id)


def _load_inbox(session_id: str, side: Side) -> Awaitable[object]:
    return side.store.inbox(session_id)


def _load_turn(session_id: str, turn_id: str, side: Side) -> Awaitable[object]:
    return side.store.load_turn(session_id, turn_id)


class Pair:
    """The model and the store that is compared with it."""

    def __init__(self, model: Side, tested: Side) -> None:
        self.model = model
        self.tested = tested

    @classmethod
    async def make(cls, model: StoreHarness, tested: StoreHarness) -> Pair:
        return cls(Side(model, await model.make()), Side(tested, await tested.make()))

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.model, self.tested

    async def ask(self, ask: Ask) -> object:
        """Put the same to both; the same has to come back, and to be there after."""
        wanted = await self.model.answer(ask)
        found = await self.tested.answer(ask)
        assert found == wanted
        return wanted

    async def compare(self, turns: Collection[tuple[str, str]] = ALL_TURNS) -> None:
        assert await self.tested.everything(turns) == await self.model.everything(turns)

    def fence(self, session_id: str) -> int:
        """The generation of a session, as the model has it."""
        found = self._session(session_id)
        return found.generation if found is not None else 0

    def head(self, session_id: str) -> int:
        found = self._session(session_id)
        return found.head if found is not None else 0

    def active(self, session_id: str, otherwise: str) -> str:
        """The turn that a session is at, if it is at one."""
        found = self._session(session_id)
        return (found.active if found is not None else None) or otherwise

    def pages(self, session_id: str, turn_id: str) -> int:
        found = _at_once(self.model.store.load_turn(session_id, turn_id))
        return len(found.pages) if found is not None else 0

    def _session(self, session_id: str) -> SessionView | None:
        return _at_once(self.model.store.load_session(session_id, history=False))

    async def crash(self) -> None:
        """Let the tested store die and come back; the model only loses its workers."""
        for side in self.sides:
            for worker_id in side.workers:
                await side.harness.kill_worker(side.store, worker_id)
        store = await self.tested.harness.reopen(self.tested.store)
        if store is not None:
            self.tested.store = store

    async def close(self) -> None:
        for side in self.sides:
            await side.harness.close()


def _at_once(step: Coroutine[Any, Any, A]) -> A | None:
    """What the model answers; it never waits, so it needs no loop."""
    try:
        step.send(None)
    except StopIteration as answer:
        return cast("A", answer.value)
    except WindlassError:
        return None
    raise AssertionError("the model waited")
