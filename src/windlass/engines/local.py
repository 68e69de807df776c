"""The local engine: a worker inside this process, with nothing but a store.

Law 1. A turn is accepted durably before anybody is told that it is; `run` may let that ride with its first unit.
Law 2. One turn of a session at a time. The store says which; this worker only looks.
Law 3. What nobody drives is found: turns whose worker is gone, turns that were answered, turns that wait their turn, items in
    idle sessions. Finding is reading; an idle worker writes nothing but its lease.
Law 4. A worker drives only agents that it has. It lets go of a session in which another's turn waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress

from windlass.engines.drives import Drives
from windlass.engines.due_work import due_work
from windlass.engines.given_deps import GivenDeps
from windlass.engines.housekeeping import Housekeeping
from windlass.engines.mail import turn_for
from windlass.engines.membership import Membership
from windlass.engines.places import Places
from windlass.engines.residence import Residence
from windlass.errors import (
    EngineError,
    HeadMoved,
    StoreError,
    UnknownSession,
    WindlassError,
)
from windlass.ports import Due, DueInbox, DueTurn, NewTurn, TurnView, WaitAnswer
from windlass.ports.inbox import turn_of_item
from windlass.runtime.drive import Drive, Parked
from windlass.runtime.program import Program
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.starting import Job
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
        self._services = services
        self._programs = programs
        self._is_worker = is_worker and bool(programs)
        self._resident = Residence(services)
        self.places = Places(max_turns)
        self._drives = Drives(
            self._resident, services.clock, places=self.places, on_end=self._drive_ended
        )
        self.deps = GivenDeps(services)
        # Sessions that were asked for something while a turn of theirs was driven here.
        self._busy_sessions: set[str] = set()
        self._was_full = False
        self._waiting = 0
        self._kick = asyncio.Event()
        self._news = asyncio.Event()
        self._membership = Membership(services, is_busy=self._is_busy)
        self._housekeeping = Housekeeping(services, retention_ms=retention_ms)
        self._is_closing = False

    # ------------------------------------------------------------------ opening and closing

    async def open(self) -> None:
        """Join the store's workers and begin to look for work."""
        if not self._is_worker:
            return
        await self.join()
        await self._scan()
        self._drives.tasks.start(self._look_around(), name="windlass-scan")

    async def join(self) -> str:
        """Be a worker of the store, once; return its id."""
        return await self._membership.join()

    async def close(self) -> None:
        """Stop driving, write down what has ended, and give the sessions up. Ends no turn."""
        self._is_closing = True
        self._news.set()
        # Whoever loses patience with the leaving gets no loops that go on behind a closed store.
        try:
            await self._drives.leave(_GRACE_S)
        finally:
            await self._membership.leave()
            await self._services.aside.finish(_ASIDE_S)
            self._services.feeds.close()

    # ------------------------------------------------------------------ from outside

    def kick(self, session_id: str | None = None) -> None:
        """Look for work now; in this session again when its turn has ended."""
        if session_id is not None and session_id in self._drives:
            self._busy_sessions.add(session_id)
        self._kick.set()

    def wake(self, session_id: str) -> None:
        """Tell a session's turn that something arrived for it."""
        driving = self._drives.get(session_id)
        if driving is not None:
            driving.drive.wake()
        self.kick(session_id)

    async def flush(self, session_id: str) -> None:
        """Let the store know what is driven here: a turn that was just begun may still be on its way."""
        driving = self._drives.get(session_id)
        if driving is not None and not driving.drive.is_accepted:
            with suppress(StoreError):  # whoever waits for the turn is told
                await driving.drive.flush()

    def check_deps(self, agent: str, session_id: str, turn_id: str) -> None:
        """Refuse to begin a turn of an agent here whose tools would have nothing to work with."""
        self.deps.check(self._programs.get(agent), session_id, turn_id)

    def cancel(self, session_id: str, turn_id: str, reason: str) -> None:
        """End a turn that is driven here; its mark is in the store already."""
        driving = self._drives.get(session_id, turn_id)
        if driving is not None:
            driving.drive.cancel(reason)
        elif (session_id, turn_id) in self._drives.again:
            self._drives.again[session_id, turn_id] = 0  # it need not wait any longer
        self.kick()

    def answered(self) -> None:
        """Somebody answered a wait: let turns that are under way look, and look for parked ones."""
        self._drives.wake_all()
        self.kick()

    @property
    def driving(self) -> Collection[str]:
        """The sessions in which a turn is driven here."""
        return self._drives

    def forget(self, session_id: str) -> None:
        """Unload a session that nothing is driven in."""
        self._resident.forget(session_id)

    def can_drive(self, agent: str) -> bool:
        """Whether this process drives turns of this agent."""
        return self._is_worker and agent in self._programs

    async def begin(self, session_id: str, turn_id: str, turn: NewTurn) -> None:
        """Drive a new turn whose acceptance rides with its first unit.

        Raises:
            HeadMoved: something else is under way there; accept it on its own.
        """
        await self.places.acquire()
        try:
            memory = await self._idle_session(session_id, turn.agent, turn_id)
        except BaseException:
            self.places.release()
            raise
        deps = self.deps.of(session_id, turn_id)
        job = Job(turn_id=turn_id, request=turn.request, accept=turn, deps=deps)
        self._drives.start(
            memory, turn_id, Drive(self._services, self._programs[turn.agent], memory, job)
        )

    async def _idle_session(self, session_id: str, agent: str, turn_id: str) -> SessionMemory:
        if session_id not in self._drives:
            memory = await self._resident.idle(session_id, agent, turn_id)
            if session_id not in self._drives:
                return memory
        raise HeadMoved(f"session {session_id}: another turn is under way")

    def _is_busy(self) -> bool:
        """Whether others have to know that this worker lives: it drives turns, or somebody waits for one."""
        return bool(len(self._drives) or self._waiting)

    async def outcome(self, session_id: str, turn_id: str) -> TurnRecord | TurnView:
        """Wait until a turn has ended or rests; return its record, or how it rests.

        Raises:
            WindlassError: it cannot be driven here, and says why.
        """
        self._waiting += 1
        try:
            return await self._outcome(session_id, turn_id)
        finally:
            self._waiting -= 1

    async def _outcome(self, session_id: str, turn_id: str) -> TurnRecord | TurnView:
        while True:
            driving = self._drives.get(session_id, turn_id)
            if driving is not None:
                ended = await driving.end()
                if isinstance(ended, TurnRecord):
                    return ended
                continue
            failure = self._drives.failures.pop((session_id, turn_id), None)
            if failure is not None:
                raise failure
            if self._is_closing:
                raise EngineError(
                    f"turn {turn_id}: this runtime was closed; it goes on when one is opened"
                )
            self._news.clear()
            view = await self._services.store.load_turn(session_id, turn_id)
            if view is not None and view.page is not None:
                return TurnRecord.of_page(
                    session_id, view.page, view.journal() if view.pages else None
                )
            if view is not None and view.state == "parked":
                # Whoever asks again and again lets others work meanwhile, also where no store takes time.
                await asyncio.sleep(0)
                return view
            if view is None and session_id not in self._drives:
                raise UnknownSession(f"turn {turn_id}: is not known", field="turn_id")
            await self._next_news()

    async def _next_news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_SCAN_S):
                await self._news.wait()

    # ------------------------------------------------------------------ looking around

    async def _look_around(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SCAN_S):
                    await self._kick.wait()
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
        store, now_ms = self._services.store, self._services.clock.now_ms()
        due = await due_work(store, self._programs, now_ms)
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
            due = await due_work(store, self._programs, now_ms)
        self._drives.look()
        await self._take_due(due)
        for inbox in due.inboxes:
            await self._open_mail(inbox)
        self._resident.evict(self._drives)
        self._services.feeds.tidy()

    async def _take_due(self, due: Due) -> None:
        for place in self._drives.due_again():
            with self._drives.taking_up(place):
                await self._resume(*place)
        for turn in due.turns:
            place = (turn.session_id, turn.turn_id)
            self._was_full = self._was_full or self.places.locked()
            if (
                place in self._drives.again
                or turn.session_id in self._drives
                or self.places.locked()
                or self._is_closing
            ):
                continue
            with self._drives.taking_up(place):
                await self._take(turn)

    async def _take(self, turn: DueTurn) -> None:
        if turn.agent not in self._programs:
            await self._make_way(turn)
        elif turn.why != "queued":
            await self._resume(turn.session_id, turn.turn_id)
        elif turn.owner in (None, self._services.worker_id) or not await self._is_there(turn):
            await self._begin_queued(turn)

    async def _is_there(self, turn: DueTurn) -> bool:
        assert turn.owner is not None  # noqa: S101 - the caller looked
        now_ms = self._services.clock.now_ms()
        return await self._services.store.is_present(turn.owner, now_ms=now_ms)

    async def _make_way(self, turn: DueTurn) -> None:
        """Let go of a session in which a turn of somebody else's agent waits."""
        memory = self._resident.get(turn.session_id)
        if turn.owner == self._services.worker_id and turn.why == "queued":
            view = await self._services.store.load_session(turn.session_id, history=False)
            generation = memory.generation if memory is not None else view.generation
            self._resident.forget(turn.session_id)
            await self._services.store.release(turn.session_id, generation=generation)

    async def _begin_queued(self, turn: DueTurn) -> None:
        view = await self._services.store.load_turn(turn.session_id, turn.turn_id)
        if view is None or view.state != "queued" or view.request is None:
            return
        memory = self._resident.get(turn.session_id)
        if memory is None or not memory.is_owned:
            memory = await self._resident.current(turn.session_id)
        # There may be another one behind it.
        self._busy_sessions.add(turn.session_id)
        await self._drive_known(memory, view, generation=None, takeovers=0)

    async def _resume(self, session_id: str, turn_id: str) -> None:
        """Go on with a turn whose worker is gone, or that was answered."""
        services = self._services
        if session_id in self._drives or self.places.locked():
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
        memory = await self._resident.current(session_id)
        # Something may have been queued behind it meanwhile.
        self._busy_sessions.add(session_id)
        await self._drive_known(
            memory, view, generation=lease.generation, takeovers=lease.takeovers
        )

    async def _drive_known(
        self, memory: SessionMemory, view: TurnView, *, generation: int | None, takeovers: int
    ) -> None:
        program = self._programs.get(view.agent)
        if program is None or view.request is None or memory.session_id in self._drives:
            return
        await self.places.acquire()
        job = Job(
            turn_id=view.turn_id,
            request=view.request,
            view=view,
            generation=generation,
            takeovers=takeovers,
            faults=self._drives.faults.get((memory.session_id, view.turn_id), (0, "")),
            deps=self.deps.of(memory.session_id, view.turn_id),
        )
        self._drives.start(memory, view.turn_id, Drive(self._services, program, memory, job))

    async def _open_mail(self, inbox: DueInbox) -> None:
        """Let the turn under way look, or let the first item begin a turn of its own."""
        driving = self._drives.get(inbox.session_id)
        if driving is not None:
            if inbox.now:
                driving.drive.wake()
            return
        if inbox.active is not None or inbox.agent not in self._programs:
            return
        services = self._services
        turn = turn_for(inbox, submitter=services.worker_id, now_ms=services.clock.now_ms())
        with suppress(WindlassError):  # another worker was faster
            turn_id = turn_of_item(inbox.first.item_id)
            await services.store.accept(inbox.session_id, turn_id, turn)
            self.kick()

    def _drive_ended(
        self, session_id: str, turn_id: str, ended: TurnRecord | Parked | None
    ) -> None:
        """Look again if something may wait for the place that a turn leaves: it costs more than a short turn."""
        self._news.set()
        has_more = self._was_full or session_id in self._busy_sessions or isinstance(ended, Parked)
        if isinstance(ended, TurnRecord):
            self.deps.forget(session_id, turn_id)
            has_more = has_more or ended.left_something
        if has_more:
            self._was_full = False
            self._busy_sessions.discard(session_id)
            self._kick.set()
