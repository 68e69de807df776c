"""The local engine: a worker inside this process, with nothing but a store.

Law 1. A turn is accepted durably before a caller is told that it is; the acceptance may ride with the turn's first unit.
Law 2. One turn of a session at a time. The store says which; this worker only looks.
Law 3. Each scan finds what no worker drives: turns whose worker is gone, turns that were answered, queued turns, inbox items
    of idle sessions. Scanning only reads; an idle worker writes nothing but its lease.
Law 4. A worker drives only agents that it has. It releases a session in which a turn of another agent is queued.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress

from windlass.engines.drives import Drives, Slots, TurnKey
from windlass.engines.session_cache import SessionCache
from windlass.engines.worker import Housekeeping, Membership, due_work, turn_for
from windlass.errors import EngineError, HeadMoved, StoreError, UnknownSession, WindlassError
from windlass.ports import Due, DueInbox, DueTurn, NewTurn, TurnRequest, TurnView, WaitAnswer
from windlass.ports.inbox import turn_of_item
from windlass.runtime.drive import Parked
from windlass.runtime.program import Program
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.starting import NONE_GIVEN, Job
from windlass.runtime.turn_record import TurnRecord

_log = logging.getLogger("windlass")
_SCAN_S = 0.25
_GRACE_S = 10.0
_ASIDE_S = 1.0


class LocalEngine:
    """Drives the turns of a runtime's agents."""

    def __init__(
        self,
        services: Services,
        programs: Mapping[str, Program],
        *,
        is_worker: bool,
        max_turns: int,
        retention_ms: int,
    ) -> None:
        self.services = services
        self.programs = programs
        self._is_worker = is_worker and bool(programs)
        self._cache = SessionCache(services)
        self.slots = Slots(max_turns)
        self._drives = Drives(self._cache, services, slots=self.slots, on_end=self._drive_ended)
        # The sessions in which a turn is driven here.
        self.driving: Collection[str] = self._drives.by_session.keys()
        # The deps that callers gave along with a turn: kept until it ends, in this process and nowhere else.
        self.deps: dict[TurnKey, object] = {}
        # Sessions that may have more to do when the turn that is driven here has ended.
        self._busy_sessions: set[str] = set()
        self._was_full = False
        self._waiting = 0
        self._kick = asyncio.Event()
        self._news = asyncio.Event()
        self._scanning: asyncio.Task[None] | None = None
        self._membership = Membership(services, is_busy=self._is_busy)
        self._housekeeping = Housekeeping(services, retention_ms=retention_ms)
        self._is_closing = False

    async def open(self) -> None:
        """Join the store's workers and start to scan for work."""
        if not self._is_worker:
            return
        await self.join()
        await self._scan()
        self._scanning = asyncio.get_running_loop().create_task(
            self._keep_scanning(), name="windlass-scan"
        )

    async def join(self) -> str:
        """Become a worker of the store, once; return its id."""
        return await self._membership.join()

    async def close(self) -> None:
        """Stop driving, write down what has ended, and give the sessions up. Ends no turn."""
        self._is_closing = True
        self._news.set()
        # If close() is cancelled, the background tasks are stopped all the same.
        try:
            await self._drives.stop(_GRACE_S)
        finally:
            if self._scanning is not None:
                self._scanning.cancel()
                await asyncio.wait({self._scanning})
            await self._membership.stop()
            await self.services.aside.finish(_ASIDE_S)
            self.services.feeds.close()

    def kick(self, session_id: str | None = None) -> None:
        """Look for work now; in this session again when its turn has ended."""
        if session_id is not None and session_id in self._drives.by_session:
            self._busy_sessions.add(session_id)
        self._kick.set()

    def wake(self, session_id: str) -> None:
        """Tell a session's turn that something arrived for it."""
        driving = self._drives.by_session.get(session_id)
        if driving is not None:
            driving.drive.wake()
        self.kick(session_id)

    async def flush(self, session_id: str) -> None:
        """Wait until the store knows the turn that is driven here: it may have begun a moment ago."""
        driving = self._drives.by_session.get(session_id)
        if driving is not None and not driving.drive.is_accepted:
            with suppress(StoreError):  # raised to the callers that wait for the turn
                await driving.drive.flush()

    def cancel(self, session_id: str, turn_id: str, reason: str) -> None:
        """End a turn that is driven here; the store has the request already."""
        driving = self._drives.get(session_id, turn_id)
        if driving is not None:
            driving.drive.cancel(reason)
        elif (session_id, turn_id) in self._drives.again:
            self._drives.again[session_id, turn_id] = 0  # it need not wait any longer
        self.kick()

    def answered(self) -> None:
        """Make turns under way look for an answer that was just given, and scan for parked ones."""
        self._drives.wake_all()
        self.kick()

    def forget(self, session_id: str) -> None:
        """Drop a session from the cache."""
        self._cache.forget(session_id)

    def can_drive(self, agent: str) -> bool:
        """Whether this process drives turns of this agent."""
        return self._is_worker and agent in self.programs

    def request_of(self, session_id: str, turn_id: str) -> TurnRequest | None:
        """Return the request of a turn that is driven here."""
        driving = self._drives.get(session_id, turn_id)
        return None if driving is None else driving.request

    async def begin(self, session_id: str, turn_id: str, turn: NewTurn) -> None:
        """Drive a new turn whose acceptance rides with its first unit.

        Raises:
            HeadMoved: the session has an unfinished turn; accept this one on its own.
        """
        self._check_free(session_id)
        await self.slots.acquire()
        try:
            self._check_free(session_id)
            memory = await self._cache.idle(session_id, turn.agent, turn_id)
            self._check_free(session_id)
        except BaseException:
            self.slots.release()
            raise
        deps = self.deps.get((session_id, turn_id), NONE_GIVEN)
        job = Job(turn_id=turn_id, request=turn.request, accept=turn, deps=deps)
        self._drives.start(memory, self.programs[turn.agent], job)

    def _check_free(self, session_id: str) -> None:
        if session_id in self._drives.by_session:
            raise HeadMoved(f"session {session_id}: another turn is under way")

    def _is_busy(self) -> bool:
        """Whether other workers have to know that this one lives: it drives turns, or a caller waits for one."""
        return bool(self._drives.by_session or self._waiting)

    async def outcome(self, session_id: str, turn_id: str) -> TurnRecord | TurnView:
        """Wait until a turn has ended or is parked; return its record, or the turn as it is parked.

        Raises:
            WindlassError: why the turn cannot be driven here.
        """
        self._waiting += 1
        try:
            while True:
                driving = self._drives.get(session_id, turn_id)
                if driving is None:
                    found = await self._at_rest(session_id, turn_id)
                    if found is not None:
                        return found
                else:
                    ended = await driving.end()
                    if isinstance(ended, TurnRecord):
                        return ended
        finally:
            self._waiting -= 1

    async def _at_rest(self, session_id: str, turn_id: str) -> TurnRecord | TurnView | None:
        """Return a turn that is not driven here, if it has ended or is parked; else wait for news and return None."""
        failure = self._drives.failures.pop((session_id, turn_id), None)
        if failure is not None:
            raise failure
        if self._is_closing:
            raise EngineError(
                f"turn {turn_id}: this runtime was closed; it goes on when one is opened"
            )
        self._news.clear()
        view = await self.services.store.load_turn(session_id, turn_id)
        if view is not None and view.page is not None:
            return TurnRecord.of_page(session_id, view.page, view.journal() if view.pages else None)
        if view is not None and view.state == "parked":
            # A caller that asks again and again lets others work meanwhile, also where no store takes time.
            await asyncio.sleep(0)
            return view
        if view is None and session_id not in self._drives.by_session:
            raise UnknownSession(f"turn {turn_id}: is not known", field="turn_id")
        await _set_or_late(self._news)
        return None

    # ------------------------------------------------------------------ scanning

    async def _keep_scanning(self) -> None:
        while True:
            await _set_or_late(self._kick)
            self._kick.clear()
            try:
                await self._scan()
                await self._housekeeping.tidy()
            except StoreError as error:
                _log.warning("looking for work: %s", error.code)
            except Exception:  # noqa: BLE001 - a worker that looks alive has to go on looking
                _log.exception("looking for work")
            self._news.set()

    async def _scan(self) -> None:
        store, now_ms = self.services.store, self.services.clock.now_ms()
        due = await due_work(store, self.programs, now_ms)
        too_late = WaitAnswer(status="expired", now_ms=now_ms)
        for wait in due.waits:
            with self._drives.taking_up((wait.session_id, wait.turn_id)):
                await store.resolve_wait(wait.key, too_late)
        for cancel in due.cancels:
            driving = self._drives.get(cancel.session_id, cancel.turn_id)
            if driving is not None:
                view = await store.load_turn(cancel.session_id, cancel.turn_id)
                driving.drive.cancel((view.cancel if view is not None else None) or "")
        if due.waits:
            due = await due_work(store, self.programs, now_ms)
        self._drives.look()
        await self._take_due(due)
        for inbox in due.inboxes:
            await self._open_inbox(inbox)
        self._cache.evict(self._drives.by_session)
        self.services.feeds.tidy()

    async def _take_due(self, due: Due) -> None:
        drives, slots = self._drives, self.slots
        for key in drives.due_again():
            with drives.taking_up(key):
                await self._resume(*key)
        for turn in due.turns:
            key = (turn.session_id, turn.turn_id)
            is_full = slots.are_taken()
            self._was_full = self._was_full or is_full
            if is_full or key in drives.again or turn.session_id in drives.by_session:
                continue
            if not self._is_closing:
                with drives.taking_up(key):
                    await self._take(turn)

    async def _take(self, turn: DueTurn) -> None:
        services = self.services
        if turn.agent not in self.programs:
            await self._make_way(turn)
        elif turn.why != "queued":
            await self._resume(turn.session_id, turn.turn_id)
        elif (
            turn.owner is None
            or turn.owner == services.worker_id
            or not await services.store.is_present(turn.owner, now_ms=services.clock.now_ms())
        ):
            await self._begin_queued(turn)

    async def _make_way(self, turn: DueTurn) -> None:
        """Release a session in which a turn of an agent that this worker lacks is queued."""
        memory = self._cache.get(turn.session_id)
        if turn.owner == self.services.worker_id and turn.why == "queued":
            view = await self.services.store.load_session(turn.session_id, history=False)
            generation = memory.generation if memory is not None else view.generation
            self._cache.forget(turn.session_id)
            await self.services.store.release(turn.session_id, generation=generation)

    async def _begin_queued(self, turn: DueTurn) -> None:
        view = await self.services.store.load_turn(turn.session_id, turn.turn_id)
        if view is None or view.state != "queued" or view.request is None:
            return
        memory = self._cache.get(turn.session_id)
        if memory is None or not memory.is_owned:
            memory = await self._cache.current(turn.session_id)
        await self._drive_known(memory, view)

    async def _resume(self, session_id: str, turn_id: str) -> None:
        """Drive a turn whose worker is gone, or that was answered."""
        services = self.services
        if session_id in self._drives.by_session or self.slots.are_taken():
            return
        lease = await services.store.take_over(
            session_id,
            turn_id,
            worker_id=services.worker_id,
            until_ms=services.until_ms(),
            now_ms=services.clock.now_ms(),
        )
        view = await services.store.load_turn(session_id, turn_id)
        assert view is not None  # noqa: S101 - it was taken over
        memory = await self._cache.current(session_id)
        await self._drive_known(memory, view, lease.generation, lease.takeovers)

    async def _drive_known(
        self,
        memory: SessionMemory,
        view: TurnView,
        generation: int | None = None,
        takeovers: int = 0,
    ) -> None:
        self._busy_sessions.add(memory.session_id)
        program = self.programs.get(view.agent)
        if program is None or view.request is None or memory.session_id in self._drives.by_session:
            return
        await self.slots.acquire()
        if memory.session_id in self._drives.by_session:
            self.slots.release()  # a turn began there while this waited for its slot
            return
        job = Job(
            turn_id=view.turn_id,
            request=view.request,
            view=view,
            generation=generation,
            takeovers=takeovers,
            faults=self._drives.faults.get((memory.session_id, view.turn_id), (0, "")),
            deps=self.deps.get((memory.session_id, view.turn_id), NONE_GIVEN),
        )
        self._drives.start(memory, program, job)

    async def _open_inbox(self, inbox: DueInbox) -> None:
        """Wake the turn under way, or begin a turn with the first item."""
        driving = self._drives.by_session.get(inbox.session_id)
        if driving is not None:
            if inbox.now:
                driving.drive.wake()
            return
        if inbox.active is not None or inbox.agent not in self.programs:
            return
        services = self.services
        turn = turn_for(inbox, submitter=services.worker_id, now_ms=services.clock.now_ms())
        with suppress(WindlassError):  # another worker was faster
            turn_id = turn_of_item(inbox.first.item_id)
            await services.store.accept(inbox.session_id, turn_id, turn)
            self.kick()

    def _drive_ended(
        self, session_id: str, turn_id: str, ended: TurnRecord | Parked | None
    ) -> None:
        """Scan again only if something may wait for the session or the slot: a scan costs more than a short turn."""
        self._news.set()
        has_more = self._was_full or session_id in self._busy_sessions or isinstance(ended, Parked)
        if isinstance(ended, TurnRecord):
            self.deps.pop((session_id, turn_id), None)
            has_more = has_more or ended.left_something
        if has_more:
            self._was_full = False
            self._busy_sessions.discard(session_id)
            self._kick.set()


async def _set_or_late(event: asyncio.Event) -> None:
    """Wait for an event, but no longer than from one scan to the next."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_SCAN_S):
            await event.wait()
