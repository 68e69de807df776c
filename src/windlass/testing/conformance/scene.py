"""A scene: a store with workers and turns in it, and ways to look at all of it at once."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, NamedTuple, TypeVar

from windlass.errors import WindlassError
from windlass.journal import Entry
from windlass.kernel.messages import Text
from windlass.kernel.outcomes import Finished, Outcome
from windlass.kernel.value import Value
from windlass.ports import (
    CommitReceipt,
    NewTurn,
    SessionView,
    Start,
    Store,
    TurnCommit,
    TurnReceipt,
    TurnRequest,
    TurnView,
    Unit,
    UnitReceipt,
    Wait,
)
from windlass.testing.conformance.harness import StoreHarness
from windlass.testing.unit_shortcuts import UnitShortcuts

E = TypeVar("E", bound=WindlassError)

FAR_MS = 10**12
"""Later than any time that a check tells."""


def expect(found: object, wanted: object, what: str = "the answer") -> None:
    """Fail unless both are equal."""
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r}, wanted {wanted!r}")


def expect_that(found: object, what: str) -> None:
    """Fail unless it is so."""
    if not found:
        raise AssertionError(f"found otherwise, wanted that {what}")


def request(text: str) -> TurnRequest:
    """Return a request with these words."""
    return TurnRequest(input=(Text(text=text),))


def ending(
    text: str = "done", *, head: int = 0, outcome: Outcome | None = None, **more: Any
) -> TurnCommit:
    """Return the end of a turn that answered with these words."""
    return TurnCommit(expected_head=head, nodes=(), outcome=outcome or Finished(text=text), **more)


class Driven(NamedTuple):
    """A turn that a worker drives."""

    session_id: str
    turn_id: str
    worker_id: str
    generation: int

    def unit(self, *entries: Entry, position: int = 0, **parts: Any) -> Unit:
        """Return a unit of this turn."""
        return Unit(
            session_id=self.session_id,
            turn_id=self.turn_id,
            generation=self.generation,
            position=position,
            entries=entries,
            **parts,
        )

    def wait(self, key: str, **more: Any) -> Wait:
        """Return a wait of this turn; for approval, unless told otherwise."""
        more.setdefault("kind", "approval")
        return Wait(key=key, session_id=self.session_id, turn_id=self.turn_id, **more)


class Scene:
    """A store under test."""

    def __init__(self, harness: StoreHarness, store: Store) -> None:
        self.harness = harness
        self.store = store
        self._turns: dict[tuple[str, str], None] = {}

    # ---------------------------------------------------------------- doing

    async def join(self, *, until_ms: int = 1_000, now_ms: int = 0) -> str:
        """Register a worker."""
        return await self.store.join(until_ms=until_ms, now_ms=now_ms)

    async def accept(
        self, turn_id: str = "t1", *, session_id: str = "s1", text: str = "hi", **more: Any
    ) -> TurnReceipt:
        """Accept a turn."""
        self._turns[session_id, turn_id] = None
        more.setdefault("agent", "helper")
        new = NewTurn(request=request(text), **more)
        return await self.store.accept(session_id, turn_id, new)

    async def start(
        self,
        turn_id: str = "t1",
        *,
        session_id: str = "s1",
        worker_id: str,
        generation: int = 1,
        **more: Any,
    ) -> Driven:
        """Begin a turn that was accepted."""
        more.setdefault("until_ms", 1_000)
        start = Start(worker_id=worker_id, **more)
        await UnitShortcuts(self.store).start(session_id, turn_id, start, generation=generation)
        return Driven(session_id, turn_id, worker_id, generation)

    async def begin(self, turn_id: str = "t1", *, session_id: str = "s1") -> Driven:
        """Accept a turn in a new session and begin it with a new worker."""
        await self.accept(turn_id, session_id=session_id)
        worker_id = await self.join()
        return await self.start(turn_id, session_id=session_id, worker_id=worker_id)

    async def write(self, unit: Unit) -> UnitReceipt:
        """Hand in a unit and wait for it."""
        return await self.store.submit(unit).durable()

    async def commit(self, turn: Driven, end: TurnCommit | None = None) -> CommitReceipt:
        """End a turn."""
        return await UnitShortcuts(self.store).commit(
            turn.session_id, turn.turn_id, end or ending(), generation=turn.generation
        )

    async def take_over(
        self, turn: Driven, worker_id: str, *, now_ms: int = 0, until_ms: int = 1_000
    ) -> Driven:
        """Take a turn over from its worker."""
        lease = await self.store.take_over(
            turn.session_id, turn.turn_id, worker_id=worker_id, until_ms=until_ms, now_ms=now_ms
        )
        return turn._replace(worker_id=worker_id, generation=lease.generation)

    async def kill(self, worker_id: str) -> None:
        """Let a worker's process be dead."""
        await self.harness.kill_worker(self.store, worker_id)

    async def crash(self) -> None:
        """Let the store's process die, and go on with what is left."""
        store = await self.harness.reopen(self.store)
        if store is None:
            raise AssertionError("a durable store: found nothing after a crash")
        self.store = store

    # ---------------------------------------------------------------- looking

    async def turn(self, turn_id: str = "t1", *, session_id: str = "s1") -> TurnView:
        """Return a turn that is there."""
        found = await self.store.load_turn(session_id, turn_id)
        if found is None:
            raise AssertionError(f"{session_id}/{turn_id}: found no turn, wanted one")
        return found

    async def session(self, session_id: str = "s1") -> SessionView:
        """Return a session with its history."""
        return await self.store.load_session(session_id)

    async def everything(self) -> list[object]:
        """Return all that can be seen of the store."""
        store = self.store
        seen: list[object] = [await store.due(FAR_MS), await store.list_waits()]
        for summary in await store.list_sessions():
            seen += [summary, await store.load_session(summary.session_id)]
            seen.append(await store.inbox(summary.session_id))
            for session_id, turn_id in self._turns:
                if session_id == summary.session_id:
                    # One that was asked for and refused is none.
                    found = await store.load_turn(session_id, turn_id)
                    seen += [] if found is None else [found]
        return seen

    async def refused(self, error: type[E], call: Awaitable[object]) -> E:
        """Return the refusal of a call; fail unless it is that refusal and changed nothing."""
        before = await self.everything()
        try:
            answer = await call
        except error as refusal:
            expect(type(refusal), error, "the refusal")
            expect(await self.everything(), before, f"what is there after {error.__name__}")
            return refusal
        raise AssertionError(f"found {_shown(answer)}, wanted {error.__name__}")

    async def unchanged(self, call: Awaitable[object], wanted: object) -> None:
        """Fail unless a call gives this answer and changes nothing."""
        before = await self.everything()
        expect(await call, wanted)
        expect(await self.everything(), before, "what is there after")


def _shown(answer: object) -> str:
    return type(answer).__name__ if isinstance(answer, Value) else repr(answer)
