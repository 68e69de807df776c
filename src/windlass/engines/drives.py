"""The drives under way in this process: one turn per session, no more turns than there are places."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from windlass.engines.driving import Driving
from windlass.engines.places import Places
from windlass.engines.residence import Residence
from windlass.errors import (
    EngineError,
    HeadMoved,
    LeaseLost,
    SessionDeleted,
    StoreError,
    UnknownSession,
    WindlassError,
)
from windlass.ports.clock import Clock
from windlass.runtime.drive import Drive, Parked
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.task_set import TaskSet
from windlass.runtime.turn_record import TurnRecord
from windlass.runtime.turn_signals import StopTurn

_log = logging.getLogger("windlass")
_MAX_PAUSE_MS = 300_000
_MAX_FAILURES = 256


class Drives:
    """Starts drives and sees to what becomes of them.

    Whoever calls `start` has taken a place before; the drive gives it back. `on_end` is told of every end; None:
    the turn is not this worker's any more, or failed.
    """

    def __init__(
        self,
        residence: Residence,
        clock: Clock,
        *,
        places: Places,
        on_end: Callable[[str, str, TurnRecord | Parked | None], None],
    ) -> None:
        self._residence = residence
        self._clock = clock
        self._on_end = on_end
        self._by_session: dict[str, Driving] = {}
        self._is_leaving = False
        self._places = places
        self.tasks = TaskSet(_log_failure)
        # Turns that are ours and could not be gone on with: when they are to be taken up again.
        self.again: dict[tuple[str, str], int] = {}
        # How often a turn failed here for another reason than the store, and with what.
        self.faults: dict[tuple[str, str], tuple[int, str]] = {}
        self._tries: dict[tuple[str, str], int] = {}
        # Turns that were not even accepted, and why.
        self.failures: dict[tuple[str, str], WindlassError] = {}

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._by_session

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_session)

    def __len__(self) -> int:
        return len(self._by_session)

    def get(self, session_id: str, turn_id: str | None = None) -> Driving | None:
        """Return the drive in a session, if it is of that turn."""
        driving = self._by_session.get(session_id)
        if driving is None or turn_id in (None, driving.turn_id):
            return driving
        return None

    def wake_all(self) -> None:
        """Let all turns look for answers."""
        for driving in self._by_session.values():
            driving.drive.wake()

    def look(self) -> None:
        """Let calls that wait beside others look for answers: nobody tells of those from other processes."""
        for driving in self._by_session.values():
            driving.drive.look()

    async def leave(self, grace_s: float) -> None:
        """Let all turns go; bodies that run have so long to end."""
        self._is_leaving = True
        driving = list(self._by_session.values())
        for one in driving:
            one.drive.stop()
        try:
            if driving:
                await asyncio.wait([one.task for one in driving], timeout=grace_s)
        finally:
            await self.tasks.close()

    def start(self, memory: SessionMemory, turn_id: str, drive: Drive) -> None:
        """Drive a turn."""
        memory.is_idle = False
        driving = self._by_session[memory.session_id] = Driving(turn_id, drive)
        driving.task = self.tasks.start(self._run(memory, driving), name=f"windlass-turn-{turn_id}")

    @contextmanager
    def taking_up(self, place: tuple[str, str]) -> Iterator[None]:
        """Keep what is wrong with one turn from holding up the others: it is looked at again later."""
        try:
            yield
        except (LeaseLost, HeadMoved, UnknownSession, SessionDeleted):
            pass  # another worker was faster, or it has ended
        except WindlassError as error:
            _log.warning("taking up %s/%s: %s", *place, error.code)
            self.try_later(place)

    def try_later(self, place: tuple[str, str]) -> None:
        """Take a turn up again, later each time."""
        tries = self._tries[place] = self._tries.get(place, 0) + 1
        self.again[place] = self._clock.now_ms() + min(_MAX_PAUSE_MS, 250 * 2**tries)

    def due_again(self) -> tuple[tuple[str, str], ...]:
        """Return the turns whose pause is over."""
        now_ms = self._clock.now_ms()
        found = tuple(place for place, due_ms in self.again.items() if due_ms <= now_ms)
        for place in found:
            del self.again[place]
        return found

    async def _run(self, memory: SessionMemory, driving: Driving) -> None:
        ended: TurnRecord | Parked | None = None
        try:
            ended = await driving.drive.run()
        except (StopTurn, LeaseLost, HeadMoved) as error:
            self._given_up(memory, driving, error)
        except BaseException as error:
            if self._is_leaving:
                raise
            self._broken(memory, driving, error)  # whatever it is, the turn is not lost
        finally:
            if ended is None:
                self._residence.forget(memory.session_id)
            del self._by_session[memory.session_id]
            self._places.release()
            driving.finish(ended)
            if ended is not None:
                self._tries.pop((memory.session_id, driving.turn_id), None)
                self.faults.pop((memory.session_id, driving.turn_id), None)
            self._on_end(memory.session_id, driving.turn_id, ended)

    def _given_up(self, memory: SessionMemory, driving: Driving, error: Exception) -> None:
        """Somebody else has the session, or this worker leaves."""
        if not driving.drive.is_accepted and isinstance(error, WindlassError):
            self._fail((memory.session_id, driving.turn_id), error)

    def _broken(self, memory: SessionMemory, driving: Driving, error: BaseException) -> None:
        """The store, or code of the user's, failed. An accepted turn is tried again, until it counts as poison."""
        place = (memory.session_id, driving.turn_id)
        if not isinstance(error, StoreError):
            _log.error("driving %s/%s failed", *place, exc_info=error)
            self.faults[place] = (self.faults.get(place, (0, ""))[0] + 1, type(error).__name__)
        if driving.drive.is_accepted:
            self.try_later(place)
        elif isinstance(error, WindlassError):
            self._fail(place, error)
        else:
            name = type(error).__name__
            failure = EngineError(f"turn {driving.turn_id}: could not begin, {name} was raised")
            failure.__cause__ = error
            self._fail(place, failure)

    def _fail(self, place: tuple[str, str], error: WindlassError) -> None:
        """Keep why a turn could not begin, for whoever waits; somebody who has left does not ask."""
        if len(self.failures) >= _MAX_FAILURES:
            del self.failures[next(iter(self.failures))]
        self.failures[place] = error


def _log_failure(error: BaseException) -> None:
    _log.error("a task of the engine failed", exc_info=error)
