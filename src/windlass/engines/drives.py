"""The drives under way in this process: one turn per session, and no more turns than there are slots."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from windlass.engines.session_cache import SessionCache
from windlass.errors import (
    EngineError,
    HeadMoved,
    LeaseLost,
    SessionDeleted,
    StoreError,
    StoreUnavailable,
    UnknownSession,
    WindlassError,
)
from windlass.ports import TurnRequest
from windlass.runtime.drive import Drive, Parked
from windlass.runtime.program import Program
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.starting import Job
from windlass.runtime.turn_record import TurnRecord
from windlass.runtime.turn_signals import StopTurn

_log = logging.getLogger("windlass")
_MAX_PAUSE_MS = 300_000
_MAX_OUTAGE_MS = 10_000
_MAX_FAILURES = 256

TurnKey: TypeAlias = tuple[str, str]
"""A session's id and a turn's id."""


class Slots:
    """How many turns may be driven at a time, first come, first served.

    A turn whose tool waits for another turn does nothing meanwhile, so it lends its slot. Otherwise as many such
    turns as there are slots would wait for each other for ever. It takes the slot back at once, without waiting
    until one is free: for a moment one turn more than there are slots may run.
    """

    def __init__(self, count: int) -> None:
        # Below zero while more slots were taken back than are free.
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Those who need not wait: their turn can be accepted first, and gets its slot later.
        self._can_queue: dict[str, asyncio.Future[None]] = {}

    @property
    def free(self) -> int:
        """How many turns can begin without waiting."""
        return 0 if self._waiting else max(0, self._free)

    def are_taken(self) -> bool:
        """Whether a new turn has to wait."""
        return self._free <= 0 or bool(self._waiting)

    async def acquire(self, can_queue: str | None = None) -> None:
        """Wait for a slot, and take it.

        Args:
            can_queue: The session whose turn can as well be accepted first.

        Raises:
            HeadMoved: it is to be, because another caller comes behind it.
        """
        if not self.are_taken():
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if can_queue is not None:
            self._can_queue[can_queue] = waiter
        try:
            await waiter
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif waiter.done() and not waiter.cancelled():
                self.release()  # it was given a slot that it will not use
            raise
        finally:
            if can_queue is not None:
                self._can_queue.pop(can_queue, None)

    def hurry(self, session_id: str) -> None:
        """Let the turn of a session that waits for a slot be accepted first."""
        waiter = self._can_queue.get(session_id)
        if waiter is not None and not waiter.done():
            waiter.set_exception(HeadMoved(f"session {session_id}: no slot is free"))

    def release(self) -> None:
        """Give a slot back, to the first that waits for one."""
        self._free += 1
        while self._free > 0 and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._free -= 1
                waiter.set_result(None)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lend the caller's slot to another turn for a while."""
        self.release()
        try:
            yield
        finally:
            self._free -= 1


class Driving:
    """A turn that is driven here: its drive, its task, and the callers that wait for its end."""

    __slots__ = ("_waiters", "drive", "request", "task", "turn_id")

    task: asyncio.Task[None]

    def __init__(self, turn_id: str, request: TurnRequest, drive: Drive) -> None:
        self.turn_id = turn_id
        self.request = request
        self.drive = drive
        self._waiters: list[asyncio.Future[TurnRecord | Parked | None]] = []

    def end(self) -> asyncio.Future[TurnRecord | Parked | None]:
        """Return what to wait for. None: the turn goes on elsewhere, or failed; the store knows more."""
        # One future per waiter: cancelling one does not cancel the others, and a shield would cost a pass of the loop.
        waiter: asyncio.Future[TurnRecord | Parked | None] = asyncio.Future()
        self._waiters.append(waiter)
        return waiter

    def finish(self, ended: TurnRecord | Parked | None) -> None:
        """Wake the waiters."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(ended)


class Drives:
    """Starts drives and deals with their end.

    The caller of `start` has acquired a slot before; the drive releases it. `on_end` is called at every end, with None
    when the turn does not belong to this worker any more, or failed.
    """

    def __init__(
        self,
        cache: SessionCache,
        services: Services,
        *,
        slots: Slots,
        on_end: Callable[[str, str, TurnRecord | Parked | None], None],
    ) -> None:
        self._cache = cache
        self._services = services
        self._on_end = on_end
        self._is_stopping = False
        self._slots = slots
        self.by_session: dict[str, Driving] = {}
        # Turns of this worker that could not go on, and when to try again.
        self.again: dict[TurnKey, int] = {}
        # How often a turn failed here for a reason other than the store, and with what.
        self.faults: dict[TurnKey, tuple[int, str]] = {}
        self._tries: dict[TurnKey, int] = {}
        # Accepted turns that the store keeps from going on, and what it said; they are tried again.
        self.outages: dict[TurnKey, StoreUnavailable] = {}
        # Turns that were not even accepted, and why.
        self.failures: dict[TurnKey, WindlassError] = {}

    def get(self, session_id: str, turn_id: str) -> Driving | None:
        """Return the drive of a turn."""
        driving = self.by_session.get(session_id)
        return None if driving is None or driving.turn_id != turn_id else driving

    def wake_all(self) -> None:
        """Make all turns look for answers."""
        for driving in self.by_session.values():
            driving.drive.wake()

    def look(self) -> None:
        """Make calls that wait beside others look for answers: other processes do not tell us when they answer."""
        for driving in self.by_session.values():
            driving.drive.look()

    async def stop(self, grace_s: float) -> None:
        """Stop all drives; tool bodies that run get `grace_s` seconds to end."""
        self._is_stopping = True
        driving = tuple(self.by_session.values())
        for one in driving:
            one.drive.stop()
        try:
            if driving:
                await asyncio.wait([one.task for one in driving], timeout=grace_s)
        finally:
            while running := [one.task for one in self.by_session.values() if not one.task.done()]:
                for task in running:
                    task.cancel()
                await asyncio.wait(running)

    def start(self, memory: SessionMemory, program: Program, job: Job) -> None:
        """Drive a turn."""
        memory.is_idle = False
        self.outages.pop((memory.session_id, job.turn_id), None)
        self._services.driving += 1
        drive = Drive(self._services, program, memory, job)
        driving = self.by_session[memory.session_id] = Driving(job.turn_id, job.request, drive)
        driving.task = asyncio.get_running_loop().create_task(
            self._run(memory, driving), name=f"windlass-turn-{job.turn_id}"
        )

    async def accepted(self, session_id: str, turn_id: str) -> None:
        """Wait until the store has a turn that was just started here, or refused it.

        Raises:
            WindlassError: why the turn could not begin.
        """
        driving = self.get(session_id, turn_id)
        if driving is not None:
            with suppress(StoreError):  # the drive ends with it
                await driving.drive.flush()
            if not driving.drive.is_accepted and self.get(session_id, turn_id) is driving:
                await driving.end()
        failure = self.failures.pop((session_id, turn_id), None)
        if failure is not None:
            raise failure

    @contextmanager
    def taking_up(self, key: TurnKey) -> Iterator[None]:
        """Keep a failure to take up one turn from holding up the others: that turn is tried again later."""
        try:
            yield
        except (LeaseLost, HeadMoved, UnknownSession, SessionDeleted):
            pass  # another worker was faster, or the turn has ended
        except WindlassError as error:
            _log.warning("taking up %s/%s: %s", *key, error.code)
            self.try_later(key, error)

    def try_later(self, key: TurnKey, error: BaseException) -> None:
        """Try a turn again, after a pause that grows each time; shorter ones for a store that is out of order."""
        most_ms = _MAX_PAUSE_MS
        if isinstance(error, StoreUnavailable):
            self.outages[key] = error
            most_ms = _MAX_OUTAGE_MS
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        self.again[key] = self._services.clock.now_ms() + min(most_ms, 250 * 2**tries)

    def due_again(self, session_id: str | None = None) -> tuple[TurnKey, ...]:
        """Return the turns whose pause is over, of all sessions or of one."""
        now_ms = self._services.clock.now_ms()
        wanted = (key for key in self.again if session_id in (None, key[0]))
        found = tuple(key for key in wanted if self.again[key] <= now_ms)
        for key in found:
            del self.again[key]
        return found

    async def _run(self, memory: SessionMemory, driving: Driving) -> None:
        session_id, turn_id = memory.session_id, driving.turn_id
        ended: TurnRecord | Parked | None = None
        try:
            ended = await driving.drive.run()
        except (StopTurn, LeaseLost, HeadMoved) as error:
            # Another worker has the session, or this worker stops.
            if not driving.drive.is_accepted and isinstance(error, WindlassError):
                self._fail((session_id, turn_id), error)
        except BaseException as error:
            if not self._is_stopping:
                self._broken((session_id, turn_id), driving, error)
            elif isinstance(error, Exception):
                _log.error("a task of the engine failed", exc_info=error)
            else:
                raise
        finally:
            # Of a process, which may sleep for weeks beside thousands of others, nothing stays in memory.
            if ended is None or (driving.request.overrides and driving.drive.is_process):
                self._cache.forget(session_id)
            if (self._tries or self.faults) and ended is not None:
                self._tries.pop((session_id, turn_id), None)
                self.faults.pop((session_id, turn_id), None)
            del self.by_session[session_id]
            self._services.driving -= 1
            self._slots.release()
            driving.finish(ended)
            self._on_end(session_id, turn_id, ended)

    def _broken(self, key: TurnKey, driving: Driving, error: BaseException) -> None:
        """Deal with an error of the store or of user code: an accepted turn is tried again until it is poison."""
        if not isinstance(error, StoreError):
            _log.error("driving %s/%s failed", *key, exc_info=error)
            self.faults[key] = (self.faults.get(key, (0, ""))[0] + 1, type(error).__name__)
        else:
            _log.warning("driving %s/%s: %s", *key, error.code)
        if driving.drive.is_accepted:
            self.try_later(key, error)
        elif isinstance(error, WindlassError):
            self._fail(key, error)
        else:
            name = type(error).__name__
            failure = EngineError(f"turn {driving.turn_id}: could not begin, {name} was raised")
            failure.__cause__ = error
            self._fail(key, failure)

    def _fail(self, key: TurnKey, error: WindlassError) -> None:
        """Keep why a turn could not begin, for the caller that waits for it, if it still does."""
        if len(self.failures) >= _MAX_FAILURES:
            del self.failures[next(iter(self.failures))]
        self.failures[key] = error
