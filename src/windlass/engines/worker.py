"""A worker: drives the turns of its agents, and looks for what no worker drives whenever its engine says so.

Law 1. A turn is accepted durably before a caller is told that it is; the acceptance may ride with the turn's first unit.
Law 2. One turn of a session at a time. The store says which; this worker only looks.
Law 3. Each look finds what no worker drives: turns whose worker is gone, turns that were answered, queued turns, inbox items
    of idle sessions. Looking only reads; an idle worker writes nothing but its lease.
Law 4. A worker drives only agents that it has; one made for one session takes up turns of that session only. It releases
    a session in which a turn of another agent is queued.

Length: a look at all sessions and a look into one are the same acts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from contextlib import AsyncExitStack, suppress

from windlass.engines.drives import Drives, Slots, TurnKey
from windlass.engines.hand_offs import check_agent, deps_of, pass_on_deps
from windlass.engines.membership import Housekeeping, Membership, begin_with_item
from windlass.engines.resting import Resting
from windlass.engines.session_cache import SessionCache
from windlass.errors import (
    EngineError,
    HeadMoved,
    SessionDeleted,
    StoreError,
    UnknownSession,
    WindlassError,
)
from windlass.kernel import HandedOff
from windlass.ports import (
    ClaimedTurn,
    Due,
    DueInbox,
    DueTurn,
    DueWait,
    Engine,
    ErrandReceipt,
    NewTurn,
    SessionView,
    TurnRequest,
    TurnView,
    Wait,
    WaitAnswer,
)
from windlass.ports.views import NO_PAGES
from windlass.ports.waits import waits_for_itself
from windlass.runtime.drive import Parked
from windlass.runtime.folded import FoldedTurns
from windlass.runtime.program import Program
from windlass.runtime.retention import Retention
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.starting import NONE_GIVEN, Job
from windlass.runtime.store_watch import StoreWatch
from windlass.runtime.turn_record import TurnRecord

_log = logging.getLogger("windlass")
_MAX_DROPPED = 100
_GRACE_S = 10.0
_ASIDE_S = 1.0


class Worker:
    """Drives the turns of a runtime's agents."""

    def __init__(
        self,
        services: Services,
        programs: Mapping[str, Program],
        *,
        is_worker: bool,
        max_turns: int,
        only_session: str | None,
        retention: Retention,
    ) -> None:
        self.services = services
        self._only_session = only_session
        self.programs = programs
        agents = {one.name: one for one in programs.values() if one.code is None}
        # Whether any may hand off, or answers with a value; whether sessions can only be of one agent, as far as is known here.
        self.has_hand_offs = any(one.handoffs for one in agents.values())
        self.has_one_agent = len(agents) == 1 and not self.has_hand_offs
        self.has_outputs = any(one.output is not None for one in agents.values())
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
        self._is_claiming = False
        # The errands whose target was gone, the last of them.
        self.dropped: deque[ErrandReceipt] = deque(maxlen=_MAX_DROPPED)
        services.on_errands = self._errands_ran
        services.lent = self.slots.lent
        # What others write, and what turns come to: read once for all who watch from this process.
        self.watch = StoreWatch(services.store)
        self.folded = FoldedTurns(services.store)
        self.resting = Resting(services, self._drives, self.watch)
        self._membership = Membership(services, is_busy=self._is_busy)
        self._housekeeping = Housekeeping(services, retention=retention)
        self._engine: Engine | None = None
        self._is_closing = False

    async def open(self, engine: Engine) -> None:
        """Join the store's workers and look for work, from now on whenever the engine says so."""
        if not self._is_worker:
            return
        await self.join()
        await self.look()
        self._engine = engine
        await engine.open(self)

    async def join(self) -> str:
        """Become a worker of the store, once; return its id."""
        return await self._membership.join()

    async def close(self) -> None:
        """Stop driving, write down what has ended, and give the sessions up. Ends no turn."""
        self._is_closing = True
        self.resting.close()
        # Whatever fails here, and also if close() is cancelled, the rest is stopped all the same: from the last line up.
        async with AsyncExitStack() as closing:
            closing.callback(self.services.feeds.close)
            closing.callback(self.folded.close)
            closing.callback(self.watch.close)
            closing.push_async_callback(self.services.aside.finish, _ASIDE_S)
            closing.push_async_callback(self._membership.stop)
            if self._engine is not None:
                closing.push_async_callback(self._engine.close)
            await self._drives.stop(_GRACE_S)

    def kick(self, session_id: str | None = None) -> None:
        """Look for work now; in this session again when its turn has ended."""
        if session_id is not None and session_id in self._drives.by_session:
            self._busy_sessions.add(session_id)
        if self._engine is not None:
            self._engine.kick(session_id)

    def wake(self, session_id: str) -> None:
        """Tell a session's turn that something arrived for it."""
        driving = self._drives.by_session.get(session_id)
        if driving is not None:
            driving.drive.wake()
        self.kick(session_id)

    def _errands_ran(self, receipts: tuple[ErrandReceipt, ...]) -> None:
        """Wake what errands have touched here; other workers find it themselves."""
        for receipt in receipts:
            if receipt.status == "dropped":
                # The session of a wait that is gone is not known.
                to = f"session {receipt.session_id}" if receipt.session_id else "a wait"
                _log.warning("an errand to %s was dropped: %s", to, receipt.reason)
                self.dropped.append(receipt)
            else:
                self.wake(receipt.session_id)

    async def settled(self, session_id: str) -> None:
        """Wait until what callers gave a session before is in the store, so that more can follow.

        Raises:
            EngineError: the runtime closes, and a turn that was about to begin is given up: nothing may overtake it.
        """
        await self.join()
        await self.flush(session_id)
        self.check_open(session_id)

    async def flush(self, session_id: str) -> None:
        """Wait until the store knows the turn that is driven here: it may have begun a moment ago."""
        driving = self._drives.by_session.get(session_id)
        if driving is None or driving.drive.is_accepted or self.is_driven_by_caller(session_id):
            return
        with suppress(StoreError):  # raised to the callers that wait for the turn
            await driving.drive.flush()

    def is_driven_by_caller(self, session_id: str) -> bool:
        """Whether the task that asks is the one that drives a session's turn: it cannot wait for the turn."""
        driving = self._drives.by_session.get(session_id)
        return driving is not None and driving.task is asyncio.current_task()

    def cancel(self, session_id: str, turn_id: str, reason: str) -> None:
        """End a turn that is driven here; the store has the request already."""
        driving = self._drives.get(session_id, turn_id)
        if driving is not None:
            driving.drive.cancel(reason)
        elif (session_id, turn_id) in self._drives.again:
            self._drives.again[session_id, turn_id] = 0  # it need not wait any longer
        self.kick()

    def hurry(self, session_id: str, turn_id: str) -> None:
        """Try a turn at once that the store kept from going on: a caller asks for it."""
        outages = self._drives.outages
        if outages and outages.pop((session_id, turn_id), None) is not None:
            self._drives.again[session_id, turn_id] = 0
            self.kick()

    def answered(self) -> None:
        """Make turns under way look for an answer that was just given, and look for parked ones."""
        self._drives.wake_all()
        self.kick()

    def forget(self, session_id: str) -> None:
        """Drop a session from the cache."""
        self._cache.forget(session_id)

    def _takes_up(self, session_id: str) -> bool:
        """Whether turns that others began in this session are this worker's to drive."""
        return self._only_session in (None, session_id)

    def can_drive(self, agent: str) -> bool:
        """Whether this process drives turns of this agent."""
        return self._is_worker and agent in self.programs

    def request_of(self, session_id: str, turn_id: str) -> TurnRequest | None:
        """Return the request of a turn that is driven here."""
        driving = self._drives.get(session_id, turn_id)
        return None if driving is None else driving.request

    async def begin(self, session_id: str, turn_id: str, turn: NewTurn) -> None:
        """Drive a new turn whose acceptance rides with its first unit.

        In a session that this worker does not have yet, nothing is asked before that unit is in the store: another
        worker may begin a turn there in the same moment, and one of both has to give way.

        Raises:
            HeadMoved: something comes first in the session; accept this one on its own.
            LeaseLost: another worker was faster; likewise.
            OtherAgent: the session belongs to another agent than the turn.
            EngineError: the runtime closes. Nothing was accepted.
        """
        self._check_free(session_id)
        await self.slots.acquire(can_queue=session_id)
        try:
            self._check_free(session_id)
            memory = await self._cache.idle(session_id, turn.agent, turn_id)
            self._check_free(session_id)
            if memory.agent != turn.agent:
                check_agent(self.programs, turn, memory.agent)
        except BaseException:
            self.slots.release()
            raise
        deps, rides = self.deps.get((session_id, turn_id), NONE_GIVEN), self._cache.is_held(memory)
        job = Job(
            turn_id=turn_id,
            request=turn.request,
            accept=turn,
            deps=deps,
            is_accepted_first=not rides,
        )
        self._drives.start(memory, self.programs[turn.agent], job)
        if not rides:
            await self._drives.accepted(session_id, turn_id)

    def agent_of(self, session_id: str) -> str | None:
        """Return the agent of a session, if it is this worker's and is cached."""
        memory = self._cache.get(session_id)
        return memory.agent if memory is not None and memory.is_owned else None

    def _check_free(self, session_id: str) -> None:
        if self._is_closing:
            raise _closing(session_id)
        # A claim that is under way may give a turn of any session.
        if session_id in self._drives.by_session or self._is_claiming:
            raise HeadMoved(f"session {session_id}: another turn is under way")

    def check_open(self, session_id: str) -> None:
        """Refuse what would enter a session of a runtime that closes.

        Raises:
            EngineError: it does.
        """
        if self._is_closing:
            raise _closing(session_id)

    def _is_busy(self) -> bool:
        """Whether other workers have to know that this one lives: it drives turns, or a caller waits for one."""
        return bool(self._drives.by_session) or self.resting.has_callers

    # ------------------------------------------------------------------ looking for work

    async def look(self) -> None:
        """Find what is due, begin what can be begun, and tidy up."""
        now_ms = self.services.clock.now_ms()
        try:
            due = await self._due(now_ms)
            for cancel in due.cancels:
                await self._hear_cancel(cancel.session_id, cancel.turn_id)
            if due.waits:
                await self._expire(due.waits, now_ms)
                due = await self._due(now_ms)
            self._drives.look()
            await self._take_due(due)
            for inbox in due.inboxes:
                await self._open_inbox(inbox)
            if self._housekeeping.is_time():
                self._cache.evict(self._drives.by_session)
                self.services.feeds.tidy()
            await self._housekeeping.reclaim()
        finally:
            self.resting.wake()

    async def _due(self, now_ms: int) -> Due:
        agents, worker_id = tuple(self.programs), self.services.worker_id
        return await self.services.store.due(now_ms, agents=agents, worker_id=worker_id)

    async def _expire(self, waits: Iterable[DueWait | Wait], now_ms: int) -> None:
        """Answer waits whose time is over."""
        too_late = WaitAnswer(status="expired", now_ms=now_ms)
        for wait in waits:
            with self._drives.taking_up((wait.session_id, wait.turn_id)):
                await self.services.store.resolve_wait(wait.key, too_late)

    async def _hear_cancel(self, session_id: str, turn_id: str) -> None:
        """End a turn that is driven here, if the store says that it is to end."""
        driving = self._drives.get(session_id, turn_id)
        if driving is not None:
            view = await self.services.store.load_turn(session_id, turn_id, since=NO_PAGES)
            if view is not None and view.cancel is not None:
                driving.drive.cancel(view.cancel)

    async def drive(self, session_id: str) -> int | None:
        """Drive one session until nothing of it is due; return when something will be, if that is known."""
        drives = self._drives
        while True:
            waits_ms = await self._expire_in(session_id)
            await self._try_again(session_id)
            with suppress(UnknownSession, SessionDeleted):
                await self._look_into(session_id)
            driving = drives.by_session.get(session_id)
            if driving is None or self._is_closing:
                again_ms = [
                    at_ms for (name, _), at_ms in drives.again.items() if name == session_id
                ]
                return min((*waits_ms, *again_ms), default=None)
            await driving.end()

    async def _expire_in(self, session_id: str) -> list[int]:
        """Answer the waits of one session whose time is over; return when the others' is."""
        now_ms = self.services.clock.now_ms()
        found = await self.services.store.list_waits(session_id=session_id)
        timed = [
            (one.wait.expires_ms, one.wait) for one in found if one.wait.expires_ms is not None
        ]
        await self._expire([wait for at_ms, wait in timed if at_ms <= now_ms], now_ms)
        return [at_ms for at_ms, _ in timed if at_ms > now_ms]

    async def _look_into(self, session_id: str) -> None:
        """Find what is due in one session, and begin what can be begun."""
        store, driving = self.services.store, self._drives.by_session.get(session_id)
        if driving is not None:
            await self._hear_cancel(session_id, driving.turn_id)
            driving.drive.look()
        session = await store.load_session(session_id, history=False)
        if driving is None and session.active is None and session.queued:
            first = await store.load_turn(session_id, session.queued[0], since=NO_PAGES)
            if first is not None and first.agent not in self.programs:
                await self._make_way(session_id, session.owner)
        # A turn that comes next is given; if none is, an item may come next, and begin one.
        await self._take_one(session_id)
        if session.waiting:
            await self._look_at_items(session)
            await self._take_one(session_id)

    async def _take_one(self, session_id: str) -> None:
        """Drive the turn of a session that comes next, if there is one."""
        is_free = session_id not in self._drives.by_session and not self._is_closing
        if is_free and self._takes_up(session_id):
            for claimed in await self._claim(1, session_id):
                await self._drive_claimed(claimed)

    async def _look_at_items(self, session: SessionView) -> None:
        """Let what waits in the inbox of a session enter a turn, or begin one."""
        items = (await self.services.store.inbox(session.session_id)).items
        waiting = [item for item in items if item.state == "pending" and item.when != "asked"]
        if waiting:
            inbox = DueInbox(
                session_id=session.session_id,
                agent=session.agent,
                active=session.active,
                now=any(item.when == "now" for item in waiting),
                first=waiting[0],
            )
            await self._open_inbox(inbox)

    async def _take_due(self, due: Due) -> None:
        drives, slots = self._drives, self.slots
        await self._try_again()
        ours: list[DueTurn] = []
        for turn in due.turns:
            key = (turn.session_id, turn.turn_id)
            if turn.agent not in self.programs:
                if turn.why == "queued":
                    with drives.taking_up(key):
                        await self._make_way(turn.session_id, turn.owner)
            elif self._takes_up(turn.session_id) and not (
                key in drives.again or turn.session_id in drives.by_session
            ):
                ours.append(turn)
        if not ours or self._is_closing:
            return
        room = slots.free
        self._was_full = self._was_full or room < len(ours)
        wanted = min(room, len(ours))
        given = await self._claim(wanted, self._only_session) if wanted else ()
        for claimed in given:
            await self._drive_claimed(claimed)
        if len(given) < wanted:
            # Another worker was faster; or a turn cannot be read, which is told when it is taken up by itself.
            names = {(claimed.lease.session_id, claimed.lease.turn_id) for claimed in given}
            await self._resume_first([t for t in ours if (t.session_id, t.turn_id) not in names])

    async def _try_again(self, session_id: str | None = None) -> None:
        """Drive turns again whose pause is over, of all sessions or of one; those without a slot as soon as there is one."""
        drives = self._drives
        for key in drives.due_again(session_id):
            if self.slots.are_taken() or key[0] in drives.by_session:
                drives.again[key], self._was_full = 0, True
                continue
            with drives.taking_up(key):
                await self._resume(*key)

    async def _resume_first(self, due: list[DueTurn]) -> None:
        services = self.services
        for turn in due:
            owner, now_ms = turn.owner, services.clock.now_ms()
            if owner is None or not await services.store.is_present(owner, now_ms=now_ms):
                with self._drives.taking_up((turn.session_id, turn.turn_id)):
                    await self._resume(turn.session_id, turn.turn_id)
                return

    async def _claim(self, limit: int, session_id: str | None = None) -> tuple[ClaimedTurn, ...]:
        """Take turns that nobody drives, but for those of sessions in which a turn has just begun here."""
        services, drives = self.services, self._drives
        later = [session_id for session_id, _ in drives.again]
        self._is_claiming = True
        try:
            return await services.store.claim(
                services.worker_id,
                agents=tuple(self.programs),
                limit=limit,
                until_ms=services.until_ms(),
                now_ms=services.clock.now_ms(),
                session_id=session_id,
                but=(*drives.by_session, *later),
                known=self._cache.heads(),
            )
        finally:
            self._is_claiming = False

    async def _drive_claimed(self, claimed: ClaimedTurn) -> None:
        lease, view, drives = claimed.lease, claimed.turn, self._drives
        key = (lease.session_id, lease.turn_id)
        with drives.taking_up(key):
            session = claimed.session
            memory = self._cache.taken(session)
            is_child = session.kind == "child"
            is_quiet = is_child and not view.pages and not session.waiting
            # Behind a child's turn, or one that goes on, seldom comes another: the next look in its time finds that.
            if session.waiting or session.queued or not (is_child or view.pages):
                self._busy_sessions.add(session.session_id)
            await self._drive_known(
                memory, view, lease.generation, lease.takeovers, is_quiet=is_quiet
            )
            if drives.get(*key) is None:
                drives.again[key] = 0  # it is this worker's now, and comes when the session is free

    async def _make_way(self, session_id: str, owner: str | None) -> None:
        """Release a session of this worker's in which a turn of an agent that it lacks is queued."""
        memory = self._cache.get(session_id)
        if owner == self.services.worker_id:
            view = await self.services.store.load_session(session_id, history=False)
            generation = memory.generation if memory is not None else view.generation
            self._cache.forget(session_id)
            await self.services.store.release(session_id, generation=generation)

    async def _resume(self, session_id: str, turn_id: str) -> None:
        """Drive a turn again that this worker could not go on with before."""
        services = self.services
        if session_id in self._drives.by_session or self.slots.are_taken() or self._is_closing:
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
        self._busy_sessions.add(session_id)
        await self._drive_known(memory, view, lease.generation, lease.takeovers)

    async def _drive_known(
        self,
        memory: SessionMemory,
        view: TurnView,
        generation: int | None = None,
        takeovers: int = 0,
        *,
        is_quiet: bool = False,
    ) -> None:
        program = self.programs.get(view.agent)
        if program is None or view.request is None or memory.session_id in self._drives.by_session:
            return
        await self.slots.acquire()
        if memory.session_id in self._drives.by_session or self._is_closing:
            self.slots.release()  # while this waited: a turn began there, or the worker stops
            return
        job = Job(
            turn_id=view.turn_id,
            request=view.request,
            view=view,
            generation=generation,
            takeovers=takeovers,
            faults=self._drives.faults.get((memory.session_id, view.turn_id), (0, "")),
            deps=deps_of(self.deps, memory.session_id, view, program),
            is_quiet=is_quiet,
        )
        self._drives.start(memory, program, job)

    async def _open_inbox(self, inbox: DueInbox) -> None:
        """Wake the turn under way, here or where it is parked; or begin a turn with the first item."""
        driving = self._drives.by_session.get(inbox.session_id)
        if driving is not None:
            if inbox.now:
                driving.drive.wake()
            return
        if not self._takes_up(inbox.session_id):
            return
        if inbox.active is not None:
            if inbox.now:
                await self._wake_parked(inbox.session_id, inbox.active)
            return
        if inbox.agent not in self.programs or self._is_closing:
            return
        with suppress(WindlassError):  # another worker was faster
            await begin_with_item(self.services, inbox)
            self.kick()

    async def reopen(self, session_id: str, turn_id: str) -> bool:
        """Drive a parked turn that waits for nothing, because its wait was lost; return whether it is one."""
        view = await self.services.store.load_turn(session_id, turn_id, since=NO_PAGES)
        if view is None or view.state != "parked" or view.agent not in self.programs:
            return False
        if any(one.state == "open" for one in view.waits):
            return False
        await self.join()
        with self._drives.taking_up((session_id, turn_id)):
            await self._resume(session_id, turn_id)
        return True

    async def _wake_parked(self, session_id: str, turn_id: str) -> None:
        """Let a turn that waits for nothing but children or a time take in what came for it."""
        with self._drives.taking_up((session_id, turn_id)):
            view = await self.services.store.load_turn(session_id, turn_id, since=NO_PAGES)
            if view is None or view.state != "parked" or view.agent not in self.programs:
                return
            # What was due when this look began may have entered since: the turn is not driven for nothing.
            items = (await self.services.store.inbox(session_id)).items
            if waits_for_itself(view.waits) and any(
                item.state == "pending" and item.when == "now" for item in items
            ):
                await self._resume(session_id, turn_id)

    def _drive_ended(
        self, session_id: str, turn_id: str, ended: TurnRecord | Parked | None
    ) -> None:
        """Look again only if something may wait for the session or the slot: a look costs more than a short turn."""
        self.resting.tell(session_id)
        has_more = self._was_full or session_id in self._busy_sessions or isinstance(ended, Parked)
        if isinstance(ended, TurnRecord):
            if self.deps or type(ended.outcome) is HandedOff:
                pass_on_deps(self.deps, self.programs, (session_id, turn_id), ended.outcome)
            has_more = has_more or ended.left_something
        if has_more:
            self._was_full = False
            self._busy_sessions.discard(session_id)
            self.kick()


def _closing(session_id: str) -> EngineError:
    """Return the refusal of what would enter a session of a runtime that closes."""
    return EngineError(f"session {session_id}: this runtime is being closed; nothing was accepted")
