"""A scene: a store with workers and turns in it, and ways to look at all of it at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from windlass import ports
from windlass.errors import SessionDeleted, UnknownSession, WindlassError
from windlass.journal import Entry
from windlass.kernel import Finished, Outcome, Text, Value
from windlass.ports import CommitReceipt, TurnCommit, Unit
from windlass.testing.conformance.harness import StoreHarness

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


def request(text: str) -> ports.TurnRequest:
    """Return a request with these words."""
    return ports.TurnRequest(input=(Text(text=text),))


def new_turn(text: str = "hi", **more: Any) -> ports.NewTurn:
    """Return a turn with these words, for the agent `helper` unless told otherwise."""
    return ports.NewTurn(request=request(text), **({"agent": "helper"} | more))


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

    @property
    def start(self) -> ports.Start:
        """The part of a unit that begins this turn."""
        return ports.Start(worker_id=self.worker_id, until_ms=1_000)

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

    def wait(self, key: str, **more: Any) -> ports.Wait:
        """Return a wait of this turn; for approval, unless told otherwise."""
        more.setdefault("kind", "approval")
        return ports.Wait(key=key, session_id=self.session_id, turn_id=self.turn_id, **more)


class Scene:
    """A store under test."""

    def __init__(self, harness: StoreHarness, store: ports.Store) -> None:
        self.harness = harness
        self.store = store
        self._turns: dict[tuple[str, str], None] = {}

    # ---------------------------------------------------------------- doing

    async def join(self, *, until_ms: int = 1_000, now_ms: int = 0) -> str:
        """Register a worker."""
        return await self.store.join(until_ms=until_ms, now_ms=now_ms)

    async def accept(
        self, turn_id: str = "t1", *, session_id: str = "s1", text: str = "hi", **more: Any
    ) -> ports.TurnReceipt:
        """Accept a turn."""
        self._turns[session_id, turn_id] = None
        return await self.store.accept(session_id, turn_id, new_turn(text, **more))

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
        turn = Driven(session_id, turn_id, worker_id, generation)
        await self.write(turn.unit(start=msgspec.structs.replace(turn.start, **more)))
        return turn

    async def begin(
        self, turn_id: str = "t1", *, session_id: str = "s1", worker_id: str = "", **more: Any
    ) -> Driven:
        """Accept a turn and begin it under the first generation, with a new worker unless told otherwise."""
        await self.accept(turn_id, session_id=session_id, **more)
        worker = worker_id or await self.join()
        return await self.start(turn_id, session_id=session_id, worker_id=worker)

    async def write(self, unit: Unit) -> ports.UnitReceipt:
        """Hand in a unit and wait for it."""
        self._note(unit.errands)
        return await self.store.submit(unit).durable()

    async def send(
        self, turn: Driven, *errands: ports.Errand, **parts: Any
    ) -> tuple[ports.ErrandReceipt, ...]:
        """Hand in a unit of a turn with errands; return what became of them."""
        return (await self.write(turn.unit(errands=errands, **parts))).errands

    async def run(self, *errands: ports.Errand, now_ms: int = 0) -> tuple[ports.ErrandReceipt, ...]:
        """Run errands that are of no unit."""
        self._note(errands)
        return await self.store.run_errands(errands, now_ms=now_ms)

    def _note(self, errands: tuple[ports.Errand, ...]) -> None:
        """Remember which turns are to be looked at."""
        for errand in errands:
            if isinstance(errand, ports.AcceptTurn):
                self._turns[errand.session_id, errand.turn_id] = None

    async def commit(self, turn: Driven, end: TurnCommit | None = None) -> CommitReceipt:
        """End a turn."""
        receipt = await self.write(turn.unit(commit=end or ending()))
        return cast("CommitReceipt", receipt.committed)

    async def commit_and_accept(self, turn: Driven, turn_id: str = "t2") -> None:
        """End a turn and accept the next one of its session."""
        await self.commit(turn)
        await self.accept(turn_id, session_id=turn.session_id)

    async def open_wait(self, turn: Driven, key: str = "w", **more: Any) -> ports.WaitView:
        """Open a wait, or return the one of that key as it stands."""
        await self.write(turn.unit(waits=(turn.wait(key, **more),)))
        view = await self.turn(turn.turn_id, session_id=turn.session_id)
        return {found.wait.key: found for found in view.waits}[key]

    async def approve(self, turn: Driven, key: str = "w") -> None:
        """Open a wait and answer it with yes."""
        await self.open_wait(turn, key)
        await self.store.resolve_wait(key, ports.WaitAnswer(value=True))

    async def enqueue(self, *item_ids: str, session_id: str = "s1", now_ms: int = 0) -> None:
        """Put items into an inbox."""
        for item_id in item_ids:
            await self.store.enqueue(session_id, ports.NewItem(item_id=item_id), now_ms=now_ms)

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

    async def replace_worker(self, turn: Driven) -> str:
        """Let the worker of a turn be dead; return another one that has joined."""
        await self.kill(turn.worker_id)
        return await self.join()

    async def crash(self) -> None:
        """Let the store's process die, and go on with what is left."""
        store = await self.harness.reopen(self.store)
        if store is None:
            raise AssertionError("a durable store: found nothing after a crash")
        self.store = store

    async def second(self) -> ports.Store:
        """Return another store on the same rows; where there can be none, this one."""
        return await self.harness.second(self.store) or self.store

    async def keeps(self, look: Callable[[], Awaitable[object]]) -> None:
        """Fail unless the same is seen before and after a crash."""
        before = await look()
        await self.crash()
        expect(await look(), before, "what is there after a crash")

    # ---------------------------------------------------------------- looking

    async def turn(self, turn_id: str = "t1", *, session_id: str = "s1") -> ports.TurnView:
        """Return a turn that is there."""
        found = await self.store.load_turn(session_id, turn_id)
        if found is None:
            raise AssertionError(f"{session_id}/{turn_id}: found no turn, wanted one")
        return found

    async def session(self, session_id: str = "s1") -> ports.SessionView:
        """Return a session with its history."""
        return await self.store.load_session(session_id)

    async def everything(self) -> list[object]:
        """Return all that can be seen of the store."""
        store = self.store
        listed = await store.list_sessions()
        seen: list[object] = [await store.due(FAR_MS), await store.list_waits(), *listed]
        seen += [await store.list_turns(), await store.changes(None)]
        # Some lists leave out what callers did not begin, so what the scene knows of is looked at, too.
        names = (*(one.session_id for one in listed), *(name for name, _ in self._turns))
        for name in dict.fromkeys(names):
            try:
                seen += [await store.load_session(name), await store.inbox(name)]
            except (UnknownSession, SessionDeleted):
                continue
            for session_id, turn_id in self._turns:
                if session_id == name:
                    # One that was asked for and refused is none.
                    found = await store.load_turn(session_id, turn_id)
                    seen += [] if found is None else [found]
        return seen

    async def refused(self, error: type[E], call: Awaitable[object] | Unit) -> E:
        """Return the refusal of a call or unit; fail unless it is that refusal and changed nothing."""
        before = await self.everything()
        try:
            answer = await (self.write(call) if isinstance(call, Unit) else call)
        except error as refusal:
            expect(type(refusal), error, "the refusal")
            expect(await self.everything(), before, f"what is there after {error.__name__}")
            return refusal
        raise AssertionError(f"found {_shown(answer)}, wanted {error.__name__}")

    async def unchanged(self, call: Awaitable[object] | Unit, wanted: object) -> None:
        """Fail unless a call or unit gives this answer and changes nothing."""
        before = await self.everything()
        expect(await (self.write(call) if isinstance(call, Unit) else call), wanted)
        expect(await self.everything(), before, "what is there after")


def _shown(answer: object) -> str:
    return type(answer).__name__ if isinstance(answer, Value) else repr(answer)
