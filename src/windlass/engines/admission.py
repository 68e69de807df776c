"""Admission: the one way in. Every turn is accepted durably, then driven; an id makes it arrive once."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from os import urandom

from windlass.engines.local import LocalEngine
from windlass.errors import (
    HeadMoved,
    IdempotencyConflict,
    InvalidInput,
    LeaseLost,
    SessionParked,
    UnknownSession,
    WindlassError,
)
from windlass.guards.ids import check_id
from windlass.ports import NewTurn, SessionView, TurnView, WaitAnswer
from windlass.runtime.body import RUNS_IN
from windlass.runtime.services import Services
from windlass.runtime.turn_record import TurnRecord

_MAX_BEGUN = 1_024


class Admission:
    """Lets turns in."""

    def __init__(self, services: Services, engine: LocalEngine) -> None:
        self._services = services
        self._engine = engine
        # The turns that were let in here last, with what was asked: the store may not know them yet.
        self._begun: dict[tuple[str, str], str] = {}

    async def run(
        self, session_id: str, turn_id: str | None, turn: NewTurn, deps: object
    ) -> tuple[str, bool]:
        """Begin a turn, or find it; return its id and whether somebody else's run was found.

        Raises:
            IdempotencyConflict: the id is known with another request.
            SessionParked: the session waits for answers first. Nothing was accepted.
        """
        if RUNS_IN.get() == session_id:
            raise InvalidInput(
                f"session {session_id}: a tool of this session cannot wait for another turn of it; "
                "use enqueue() or submit()",
                field="session_id",
            )
        if turn_id is not None and await self._is_known(session_id, turn_id, turn):
            await self._give_deps(session_id, turn_id, deps)
            return turn_id, False
        new_id = turn_id or fresh_id()
        self._begun[session_id, new_id] = turn.request.digest()
        self._forget_oldest()
        try:
            with self._waiting():
                return await self._let_in(session_id, turn_id, new_id, turn, deps)
        except BaseException:
            self._begun.pop((session_id, new_id), None)
            raise

    async def _let_in(
        self, session_id: str, turn_id: str | None, new_id: str, turn: NewTurn, deps: object
    ) -> tuple[str, bool]:
        engine = self._engine
        engine.deps.give(session_id, new_id, deps)
        engine.check_deps(turn.agent, session_id, new_id)
        if engine.can_drive(turn.agent) and session_id not in engine.driving:
            try:
                await engine.begin(session_id, new_id, turn)
            except HeadMoved:
                pass  # something is under way there
            else:
                return new_id, False
        orphan = await self._orphan(session_id, turn) if turn_id is None else None
        if orphan is not None:
            await self._give_deps(session_id, orphan, deps)
            return orphan, True
        await self._refuse_if_parked(session_id)
        await self.accept(session_id, new_id, turn)
        return new_id, False

    async def submit(
        self, session_id: str, turn_id: str | None, turn: NewTurn, deps: object
    ) -> str:
        """Accept a turn and return its id; it is driven when its time comes."""
        if turn_id is not None and await self._is_known(session_id, turn_id, turn):
            await self._give_deps(session_id, turn_id, deps)
            return turn_id
        turn_id = turn_id or fresh_id()
        self._engine.deps.give(session_id, turn_id, deps)
        await self.accept(session_id, turn_id, turn)
        return turn_id

    async def accept(self, session_id: str, turn_id: str, turn: NewTurn) -> None:
        """Let the store accept a turn, and let somebody drive it."""
        await self._engine.join()
        await self._services.store.accept(session_id, turn_id, turn)
        self._engine.kick(session_id)

    async def outcome(
        self, session_id: str, turn_id: str, turn: NewTurn | None = None
    ) -> TurnRecord | TurnView:
        """Wait until a turn has ended or rests."""
        try:
            with self._waiting():
                return await self._outcome(session_id, turn_id)
        except (LeaseLost, HeadMoved):
            if turn is None:
                raise
        except WindlassError:
            self._begun.pop((session_id, turn_id), None)  # it may be tried again
            raise
        # Another worker has the session: the turn that was to begin here waits for its turn there.
        await self._refuse_if_parked(session_id)
        await self.accept(session_id, turn_id, turn)
        with self._waiting():
            return await self._outcome(session_id, turn_id)

    def _waiting(self) -> AbstractContextManager[None]:
        """Let a turn whose tool waits for another one lend it its place."""
        return nullcontext() if RUNS_IN.get() is None else self._engine.places.lent()

    async def _outcome(self, session_id: str, turn_id: str) -> TurnRecord | TurnView:
        while True:
            found = await self._engine.outcome(session_id, turn_id)
            if isinstance(found, TurnRecord):
                # It may have ended elsewhere, or before it was asked for again.
                self._engine.deps.forget(session_id, turn_id)
                return found
            if not await self._answer_with_deps(found):
                return found

    async def _answer_with_deps(self, view: TurnView) -> bool:
        """Let a turn go on that waits for deps which are here; say whether it did."""
        if not self._engine.deps.has(view.session_id, view.turn_id):
            return False
        waits = [one.wait for one in view.waits if one.state == "open" and one.wait.kind == "deps"]
        for wait in waits:
            answer = WaitAnswer(now_ms=self._services.clock.now_ms())
            await self._services.store.resolve_wait(wait.key, answer)
        self._engine.kick()
        return bool(waits)

    async def _is_known(self, session_id: str, turn_id: str, turn: NewTurn) -> bool:
        check_id(turn_id, field="turn_id")
        place, wanted = (session_id, turn_id), turn.request.digest()
        view = await self._services.store.load_turn(session_id, turn_id)
        # While the store was asked, the same turn may have been begun here, by a caller that came first.
        found = self._begun.get(place) if view is None else view.request_digest
        if found is not None and found != wanted:
            raise IdempotencyConflict(
                f"turn {turn_id}: is known with another input, context or overrides",
                field="turn_id",
                wanted="the same request, or another turn_id",
            )
        return found is not None

    def _forget_oldest(self) -> None:
        if len(self._begun) > _MAX_BEGUN:
            del self._begun[next(iter(self._begun))]

    async def _orphan(self, session_id: str, turn: NewTurn) -> str | None:
        """Return an unfinished turn with the same request that a process which is gone has left."""
        session = await self._session(session_id)
        if session is None:
            return None
        store, now_ms = self._services.store, self._services.clock.now_ms()
        for turn_id in (session.active, *session.queued):
            view = None if turn_id is None else await store.load_turn(session_id, turn_id)
            if view is None or view.request_digest != turn.request.digest():
                continue
            submitter = view.submitter
            is_there = submitter is not None and await store.is_present(submitter, now_ms=now_ms)
            if submitter is not None and not is_there:
                return turn_id
        return None

    async def _session(self, session_id: str) -> SessionView | None:
        try:
            return await self._services.store.load_session(session_id, history=False)
        except UnknownSession:
            return None

    async def _refuse_if_parked(self, session_id: str) -> None:
        session = await self._session(session_id)
        if session is None or session.active is None:
            return
        view = await self._services.store.load_turn(session_id, session.active)
        if view is not None and view.state == "parked":
            waits = tuple(one.wait for one in view.waits if one.state == "open")
            missing = "an answer" if len(waits) == 1 else f"{len(waits)} answers"
            raise SessionParked(
                f"session {session_id}: turn {session.active} waits for {missing} (waits() lists what for); "
                "submit() queues behind it",
                waits=waits,
                field="session_id",
            )

    async def _give_deps(self, session_id: str, turn_id: str, deps: object) -> None:
        """Let a turn go on that waits for deps, now that they are here."""
        self._engine.deps.give(session_id, turn_id, deps)
        view = await self._services.store.load_turn(session_id, turn_id)
        if view is not None:
            await self._answer_with_deps(view)


def fresh_id() -> str:
    """Return an id for a turn whose caller gave none."""
    return f"t_{urandom(12).hex()}"
