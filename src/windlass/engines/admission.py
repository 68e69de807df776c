"""Admission: every turn comes in here. It is accepted durably, then driven; its id makes it arrive once.

Law. What callers give a session here enters it in the order in which they called. A call takes its place in the session's
line at its first step, before it waits for anything, and leaves it once the store has what it brings, or once its turn has
begun. The next one waits until the store has that turn, too.

Length: what a caller may find where a turn is to come in (another turn, an earlier one, another agent) is one decision.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Collection
from contextlib import AbstractAsyncContextManager
from os import urandom
from typing import TypeAlias, TypeVar

from windlass import errors
from windlass.engines.hand_offs import OtherAgent, check_agent, turn_behind
from windlass.engines.worker import Worker
from windlass.guards import check_id, check_limit, check_text
from windlass.guards.secret import REGISTERED
from windlass.kernel import Outcome
from windlass.ports import (
    CancelReceipt,
    NewTurn,
    SessionView,
    TurnView,
    WaitAnswer,
    WaitKind,
)
from windlass.ports.hand_off import handed
from windlass.ports.unit import CHAT
from windlass.ports.views import NO_PAGES
from windlass.ports.waits import waits_for_itself
from windlass.runtime.body import RUNS_IN
from windlass.runtime.services import Services
from windlass.runtime.starting import NONE_GIVEN
from windlass.runtime.turn_record import TurnRecord

_MAX_BEGUN = 1_024
T = TypeVar("T")


class _Place(AbstractAsyncContextManager[None]):
    """A caller's place in the line of a session: held inside `async with`."""

    __slots__ = ("_is_held", "_lines", "_session_id", "_worker")

    def __init__(self, lines: _Lines, worker: Worker, session_id: str) -> None:
        self._lines = lines
        self._worker = worker
        self._session_id = session_id
        self._is_held = True

    async def __aenter__(self) -> None:
        lines, session_id = self._lines, self._session_id
        behind = lines.get(session_id)
        if behind is None:
            lines[session_id] = deque()
            return
        if self._worker.is_driven_by_caller(session_id):
            # What makes a turn's deps or instructions would wait for its own turn.
            self._is_held = False
            return
        # The one at the front accepts its turn instead of waiting for a slot.
        self._worker.slots.hurry(session_id)
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        behind.append(mine)
        try:
            await mine
            self._worker.check_open(session_id)
        except BaseException:
            if mine.done() and not mine.cancelled():
                self._leave()  # it had come to the front
            raise

    async def __aexit__(self, *_: object) -> None:
        if self._is_held:
            self._leave()

    def _leave(self) -> None:
        behind = self._lines[self._session_id]
        while behind:
            first = behind.popleft()
            if not first.done():
                first.set_result(None)
                return
        del self._lines[self._session_id]


_Lines: TypeAlias = dict[str, deque[asyncio.Future[None]]]
"""Those who wait behind the caller at the front, by session."""


class Admission:
    """Accepts the turns of one runtime and waits for their end. It is closed whenever the runtime is.

    Callers go through `worker` or `services` first, which refuse while it is closed.
    """

    _worker: Worker

    def __init__(self) -> None:
        # None: closed.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lines: _Lines = {}
        # The named turns that began here last, by request digest: the store may not know them yet.
        self._begun: dict[tuple[str, str], str] = {}

    @property
    def is_open(self) -> bool:
        """Whether the runtime is open."""
        return self._loop is not None

    def open(self, worker: Worker) -> None:
        """Begin to accept turns for a worker, on the event loop that runs now."""
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._lines = {}
        self._begun.clear()

    def close(self) -> Worker:
        """Accept no more turns; return the worker."""
        worker, self._loop = self.worker, None
        return worker

    @property
    def worker(self) -> Worker:
        """What drives the turns.

        Raises:
            ConfigError: the runtime is not open, or belongs to another event loop.
        """
        if self._loop is None:
            raise errors.ConfigError(
                "Runtime: is not open; use it in `async with`", field="Runtime"
            )
        if asyncio.get_running_loop() is not self._loop:
            raise errors.ConfigError("Runtime: belongs to another event loop", field="Runtime")
        return self._worker

    @property
    def services(self) -> Services:
        """What the turns share."""
        return self.worker.services

    def in_line(self, session_id: str) -> AbstractAsyncContextManager[None]:
        """Return a place in a session's line, for `async with`: those who ask later enter later."""
        return _Place(self._lines, self.worker, session_id)

    async def run(
        self, session_id: str, turn_id: str | None, turn: NewTurn, deps: object
    ) -> tuple[str, bool]:
        """Begin a turn, or find it; return its id, and whether it was found as the orphan of another process.

        The caller is at the front of the session's line.

        Raises:
            IdempotencyConflict: the id is known with another request.
            SessionParked: an earlier turn of the session waits for answers. Nothing was accepted.
        """
        caller = RUNS_IN.get()
        if caller == session_id:
            raise errors.InvalidInput(
                f"session {session_id}: a tool of this session cannot wait for another turn of it; "
                "use enqueue() or submit()",
                field="session_id",
            )
        if turn_id is None:
            new_id = f"t_{urandom(12).hex()}"
        elif await self._is_known(session_id, turn_id, turn):
            await self._give_deps(session_id, turn_id, deps)
            return turn_id, False
        else:
            new_id = turn_id
            self._begun[session_id, turn_id] = turn.request.digest()
            if len(self._begun) > _MAX_BEGUN:
                del self._begun[next(iter(self._begun))]
        services = self._worker.services
        services.callers += 1
        try:
            if caller is None:
                return await self._let_in(session_id, turn_id, new_id, turn, deps)
            with self._worker.slots.lent():
                return await self._let_in(session_id, turn_id, new_id, turn, deps)
        except BaseException as error:
            self._begun.pop((session_id, new_id), None)
            if isinstance(
                error, OtherAgent
            ):  # the turn is asked for again, perhaps under another id
                self._worker.deps.pop((session_id, new_id), None)
            raise
        finally:
            services.callers -= 1

    async def _let_in(
        self, session_id: str, turn_id: str | None, new_id: str, turn: NewTurn, deps: object
    ) -> tuple[str, bool]:
        worker = self._worker
        self._keep_deps(session_id, new_id, deps)
        self._check_deps(turn.agent, session_id, new_id)
        if worker.can_drive(turn.agent):
            try:
                await worker.begin(session_id, new_id, turn)
            except (errors.HeadMoved, errors.LeaseLost):
                pass  # something comes first in the session, or another worker has it
            else:
                return new_id, False
        orphan = await self._orphan(session_id, turn) if turn_id is None else None
        if orphan is not None:
            await self._give_deps(session_id, orphan, deps)
            return orphan, True
        session = await self._session(session_id)
        if session is not None and session.kind == CHAT:  # of another, the store refuses the turn
            check_agent(worker.programs, turn, session.agent)
        if session is not None:
            await self._refuse_if_parked(session)
        await self.accept(session_id, new_id, turn)
        return new_id, False

    async def submit(
        self, session_id: str, turn_id: str | None, turn: NewTurn, deps: object
    ) -> str:
        """Accept a turn and return its id; a worker drives it after those before it.

        The caller is at the front of the session's line.
        """
        if turn_id is None:
            turn_id = f"t_{urandom(12).hex()}"
        elif await self._is_known(session_id, turn_id, turn):
            await self._give_deps(session_id, turn_id, deps)
            return turn_id
        self._keep_deps(session_id, turn_id, deps)
        await self.accept(session_id, turn_id, turn)
        return turn_id

    async def accept(self, session_id: str, turn_id: str, turn: NewTurn) -> None:
        """Accept a turn in the store, behind one that is about to begin here, and look for work."""
        worker = self._worker
        await worker.settled(session_id)
        await worker.services.store.accept(session_id, turn_id, turn)
        worker.kick(session_id)

    async def cancel(self, session_id: str, turn_id: str, reason: str) -> CancelReceipt:
        """Ask for a turn to end, wherever it runs; of one that handed off, the turn that goes on for it."""
        check_id(session_id, field="session_id")
        check_id(turn_id, field="turn_id")
        check_text(reason, field="reason")
        check_limit("metadata_bytes", len(reason.encode()), field="reason")
        reason = REGISTERED.clean(reason)
        worker = self.worker
        await worker.flush(session_id)
        services = worker.services
        while True:
            receipt = await services.store.request_cancel(
                session_id, turn_id, reason=reason, now_ms=services.clock.now_ms()
            )
            if receipt.status != "finished":
                break
            view = await services.store.load_turn(session_id, turn_id, since=NO_PAGES)
            after = None if view is None else await self.follows(session_id, turn_id, view.outcome)
            if after is None:
                break
            turn_id = after
        if receipt.status == "requested":
            worker.cancel(session_id, turn_id, reason)
        return receipt

    async def follows(self, session_id: str, turn_id: str, outcome: Outcome | None) -> str | None:
        """Return the turn that goes on where one handed off, if there is one."""
        return await turn_behind(self._worker.services.store, session_id, turn_id, outcome)

    async def outcome(
        self,
        session_id: str,
        turn_id: str,
        turn: NewTurn | None = None,
        *,
        through: Collection[WaitKind] = (),
    ) -> TurnRecord | TurnView:
        """Wait until a turn has ended or is parked, for something else than a wait of the kinds `through`.

        `turn` is given by the caller that began it here: if another worker has the session, the turn queues there.
        """
        worker = self._worker
        resting = worker.resting
        worker.hurry(session_id, turn_id)
        while True:
            try:
                found = await self._in_no_slot(resting.outcome(session_id, turn_id))
            except (errors.LeaseLost, errors.HeadMoved):
                if turn is None:
                    raise
                async with self.in_line(session_id):
                    session = await self._session(session_id)
                    if session is not None:
                        await self._refuse_if_parked(session)
                    await self.accept(session_id, turn_id, turn)
                turn = None
                continue
            except errors.WindlassError:
                self._begun.pop((session_id, turn_id), None)  # the caller may try again
                raise
            if isinstance(found, TurnRecord):
                # It may have ended elsewhere, or before it was asked for again.
                self._worker.deps.pop((session_id, turn_id), None)
                return found
            if await self._answer_with_deps(found):
                continue
            kinds = {one.wait.kind for one in found.waits if one.state == "open"}
            if not through or not kinds.issubset(through):
                return found
            await self._in_no_slot(resting.until_it_moves(found))

    async def until_idle(self, session_id: str) -> None:
        """Wait until nothing of a session is unfinished."""
        if RUNS_IN.get() == session_id:
            raise errors.InvalidInput(
                f"session {session_id}: a tool of this session cannot wait for the end of its own turn",
                field="session_id",
            )
        await self._in_no_slot(self._worker.resting.until_idle(session_id))

    async def _in_no_slot(self, waiting: Awaitable[T]) -> T:
        """Wait; if a tool does that, its turn gives its slot to others meanwhile."""
        if RUNS_IN.get() is None:
            return await waiting
        with self._worker.slots.lent():
            return await waiting

    async def _answer_with_deps(self, view: TurnView) -> bool:
        """Answer a turn that waits for deps, if its deps are here; return whether it did wait."""
        if (view.session_id, view.turn_id) not in self._worker.deps:
            return False
        waits = [one.wait for one in view.waits if one.state == "open" and one.wait.kind == "deps"]
        for wait in waits:
            answer = WaitAnswer(now_ms=self._worker.services.clock.now_ms())
            await self._worker.services.store.resolve_wait(wait.key, answer)
        self._worker.kick()
        return bool(waits)

    async def _is_known(self, session_id: str, turn_id: str, turn: NewTurn) -> bool:
        check_id(turn_id, field="turn_id")
        view = await self._worker.services.store.load_turn(session_id, turn_id)
        # While the store was asked, another caller may have begun the same turn here.
        if view is not None:
            found: str | None = view.request_digest
        elif (request := self._worker.request_of(session_id, turn_id)) is not None:
            found = request.digest()
        else:
            found = self._begun.get((session_id, turn_id))
        if found is not None and found != turn.request.digest():
            raise errors.IdempotencyConflict(
                f"turn {turn_id}: was already accepted with another input, context or overrides",
                field="turn_id",
                wanted="the same request, or another turn_id",
            )
        return found is not None

    async def _orphan(self, session_id: str, turn: NewTurn) -> str | None:
        """Return an unfinished turn with the same request whose submitting process is gone."""
        session = await self._session(session_id)
        if session is None:
            return None
        store, now_ms = self._worker.services.store, self._worker.services.clock.now_ms()
        for turn_id in (session.active, *session.queued):
            view = None if turn_id is None else await store.load_turn(session_id, turn_id)
            if view is not None and (came := handed(view.request)) is not None:
                turn_id = came.first  # noqa: PLW2901 - it is what was asked for
                view = await store.load_turn(session_id, turn_id)
            if view is None or view.request_digest != turn.request.digest():
                continue
            submitter = view.submitter
            if submitter is not None and not await store.is_present(submitter, now_ms=now_ms):
                return turn_id
        return None

    async def _session(self, session_id: str) -> SessionView | None:
        try:
            return await self._worker.services.store.load_session(session_id, history=False)
        except errors.UnknownSession:
            return None

    async def _refuse_if_parked(self, session: SessionView) -> None:
        if session.active is None:
            return
        session_id = session.session_id
        view = await self._worker.services.store.load_turn(session_id, session.active)
        # What gets on by itself is waited for: the turn queues.
        if view is not None and view.state == "parked" and not waits_for_itself(view.waits):
            waits = tuple(one.wait for one in view.waits if one.state == "open")
            missing = "an answer" if len(waits) == 1 else f"{len(waits)} answers"
            raise errors.SessionParked(
                f"session {session_id}: turn {session.active} waits for {missing} (waits() lists what for); "
                "submit() queues behind it",
                waits=waits,
                field="session_id",
            )

    async def _give_deps(self, session_id: str, turn_id: str, deps: object) -> None:
        """Keep deps for a known turn, and answer it if it waits for them."""
        view = await self._worker.services.store.load_turn(session_id, turn_id)
        while view is not None and view.outcome is not None:
            after = await self.follows(session_id, turn_id, view.outcome)
            if after is None:
                break
            turn_id, view = after, await self._worker.services.store.load_turn(session_id, after)
        self._keep_deps(session_id, turn_id, deps)
        if view is not None:
            await self._answer_with_deps(view)

    def _keep_deps(self, session_id: str, turn_id: str, deps: object) -> None:
        if deps is not NONE_GIVEN:
            self._worker.deps[session_id, turn_id] = deps

    def _check_deps(self, agent: str, session_id: str, turn_id: str) -> None:
        """Refuse a turn whose agent needs deps when neither the runtime nor the caller gives any."""
        worker = self._worker
        program = worker.programs.get(agent)
        if program is None or not program.needs_deps or program.deps is not None:
            return
        if (session_id, turn_id) not in worker.deps:
            raise errors.ConfigError(
                f"deps: {program.name} needs deps; give Runtime(deps=...) or run(..., deps=...)",
                field="deps",
            )
