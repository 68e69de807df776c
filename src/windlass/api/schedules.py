"""The schedules of a store: list, pause, run, add and remove them; and start the ticks of declared schedules.

Law. Each schedule has one waiting tick. A change cancels it and accepts the next tick in one transaction, then looks
    again: a tick that came due in the same moment has accepted a successor, which is then cancelled, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from os import urandom
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from windlass.api.process import Process
from windlass.api.schedule import Clock, Schedule, check_policies, plan_of
from windlass.errors import EngineError, InvalidInput, SessionDeleted
from windlass.kernel.value import Value
from windlass.ports import AcceptTurn, CancelTurn, SessionSummary, TurnView
from windlass.runtime.emitting import is_name
from windlass.runtime.schedule_clock import (
    Plan,
    acceptance,
    clock_label,
    due_of_run,
    name_of_clock,
    revision_of,
    run_by_hand,
    runs_label,
    runs_place,
)
from windlass.runtime.schedule_ticks import Missed, Overlap
from windlass.runtime.schedule_times import times_of

if TYPE_CHECKING:
    from windlass.api.turn_handle import TurnHandle
    from windlass.engines.admission import Admission

_SECOND_MS = 1_000
# The page of a journal to start at, for a reader that wants no pages.
_NO_PAGES = 2**31
# How often to replace a waiting tick before reporting that others keep changing the schedule.
_TRIES = 16
_PAGE = 100


class ScheduleView(Value, kw_only=True):
    """A schedule as the store has it.

    Attributes:
        name: The name of the schedule.
        expression: Its cron expression; None if it has an interval.
        tz: The time zone of the expression.
        every: Its interval; None if it has an expression.
        next: When it is due next; None while it is paused.
        last: The instant that its last run was for.
        paused: Whether it is paused.
        running: How many of its runs have not ended.
        skipped: How many ticks have not run since the last run.
        version: The version of the release that decides when it is due.
    """

    name: str
    expression: str | None = None
    tz: str | None = None
    every: timedelta | None = None
    next: datetime | None = None
    last: datetime | None = None
    paused: bool = False
    running: int = 0
    skipped: int = 0
    version: int = 0


class _Waiting(NamedTuple):
    """A tick that waits."""

    session_id: str
    turn_id: str
    agent: str
    plan: Plan


class _Wanted(NamedTuple):
    """What should happen to the waiting ticks: which of them stay, and which tick is accepted."""

    kept: list[_Waiting] = []  # noqa: RUF012 - never changed
    new: Plan | None = None
    agent: str = ""


class Schedules:
    """The schedules of a runtime's store, whichever worker drives them."""

    def __init__(self, admission: Admission, declared: Mapping[str, Schedule]) -> None:
        self._admission = admission
        self._declared = declared

    # ------------------------------------------------------------------ looking

    async def list(self) -> tuple[ScheduleView, ...]:
        """Return the schedules of the store, by name, without removed ones."""
        store, after = self._admission.services.store, ""
        names: set[str] = set()
        while page := await store.list_sessions(kind="schedule", after=after, limit=_PAGE):
            names |= {name for one in page if (name := name_of_clock(one.label)) is not None}
            after = page[-1].session_id
        views = [await self._view(name) for name in sorted(names)]
        return tuple(view for view in views if view is not None)

    async def _view(self, name: str) -> ScheduleView | None:
        waiting = await self._waiting(name)
        if not waiting:
            return None
        plan, now_ms = waiting[-1].plan, self._now_ms
        place = await runs_place(self._admission.services.store, name, now_ms)
        every = None if plan.every_ms is None else timedelta(milliseconds=plan.every_ms)
        return ScheduleView(
            name=name,
            expression=plan.expression,
            tz=plan.tz,
            every=every,
            next=_instant(plan.due_ms),
            last=_instant(await self._last(name)),
            paused=plan.is_paused,
            running=place.unfinished,
            skipped=plan.carried,
            version=plan.version,
        )

    async def _last(self, name: str) -> int | None:
        for session in await self._sessions(runs_label(name)):
            store = self._admission.services.store
            for turn in await store.list_turns(session_id=session.session_id, limit=_PAGE):
                due_ms = due_of_run(turn.turn_id)
                if due_ms is not None:
                    return due_ms
        return None

    async def _sessions(self, label: str) -> tuple[SessionSummary, ...]:
        """Return the sessions of a schedule, the newest first."""
        found = await self._admission.services.store.list_sessions(kind="schedule", label=label)
        return tuple(sorted(found, key=lambda one: one.created_ms, reverse=True))

    async def _waiting(self, name: str) -> tuple[_Waiting, ...]:
        """Return the waiting ticks of a schedule that are not cancelled, oldest revision and instant first."""
        found = await self._look(name)
        while found is None:
            found = await self._look(name)
        return tuple(sorted(found, key=lambda one: (*_rank(one.plan), one.plan.due_ms or 0)))

    async def _look(self, name: str) -> Collection[_Waiting] | None:
        """Return the waiting ticks; None if one ended meanwhile, because its successor may be missing from them."""
        found: list[_Waiting] = []
        try:
            for session in await self._sessions(clock_label(name)):
                async for turn in self._unfinished(session.session_id):
                    if turn is None or turn.state == "done":
                        return None
                    plan = None if turn.request is None else Plan.of(turn.request)
                    if plan is not None and turn.cancel is None:
                        found.append(_Waiting(session.session_id, turn.turn_id, turn.agent, plan))
        except SessionDeleted:
            return None  # since it was listed: its last tick had ended
        return found

    async def _unfinished(self, session_id: str) -> AsyncIterator[TurnView | None]:
        store = self._admission.services.store
        view = await store.load_session(session_id, history=False)
        for turn_id in (view.active, *view.queued):
            if turn_id is not None:
                yield await store.load_turn(session_id, turn_id, since=_NO_PAGES)

    @property
    def _now_ms(self) -> int:
        return self._admission.services.clock.now_ms()

    # ------------------------------------------------------------------ changing

    async def pause(self, name: str) -> None:
        """Pause a schedule until it is resumed, also across restarts. A run that has begun continues.

        Args:
            name: The name of the schedule.

        Raises:
            InvalidInput: there is no schedule of this name.
        """

        def wanted(waiting: tuple[_Waiting, ...], revision: int) -> _Wanted:
            kept = [one for one in _current(waiting) if one.plan.is_paused]
            if kept:
                return _Wanted(kept)
            last = _known(waiting, name)
            new = msgspec.structs.replace(last.plan, due_ms=None, revision=revision)
            return _Wanted(new=new, agent=last.agent)

        await self._become(name, wanted)

    async def resume(self, name: str) -> None:
        """Resume a paused schedule, from its next tick on. Ticks during the pause do not run.

        Args:
            name: The name of the schedule.

        Raises:
            InvalidInput: there is no schedule of this name.
        """

        def wanted(waiting: tuple[_Waiting, ...], revision: int) -> _Wanted:
            kept = [one for one in _current(waiting) if not one.plan.is_paused]
            if kept:
                return _Wanted(kept)
            last = _known(waiting, name)
            return _Wanted(new=self._next(last.plan, revision), agent=last.agent)

        await self._become(name, wanted)

    async def run_now(self, name: str) -> TurnHandle[Any]:
        """Run a schedule once, now, after its unfinished runs; also while it is paused. Its ticks do not change.

        Args:
            name: The name of the schedule.

        Raises:
            InvalidInput: there is no schedule of this name.
        """
        from windlass.api.turn_handle import TurnHandle  # noqa: PLC0415 - as of a runtime

        plan, now_ms = _known(await self._waiting(_checked(name)), name).plan, self._now_ms
        store = self._admission.services.store
        place = await runs_place(store, name, now_ms)
        errand = run_by_hand(now_ms, urandom(8).hex()).to(plan, place.session_id, now_ms)
        (receipt,) = await store.run_errands((errand,), now_ms=now_ms)
        if receipt.status == "dropped":
            raise EngineError(f"schedule {name}: {receipt.reason}")
        self._admission.worker.kick(errand.session_id)
        return TurnHandle(self._admission, errand.session_id, errand.turn_id)

    async def add(  # noqa: PLR0913 - what a schedule is made of
        self,
        name: str,
        cron: str | None = None,
        *,
        target: Process[Any],
        tz: str | None = None,
        every: timedelta | None = None,
        missed: Missed = "one",
        overlap: Overlap = "queue",
        args: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Add a schedule, or change the schedule of this name. It stays until it is removed, also across restarts.

        Args:
            name: The name of the schedule.
            cron: As for `@schedule`.
            target: What runs: a process, or a function with `@schedule`, whose own times are ignored. Workers need it
                among their `processes` or `schedules`.
            tz: As for `@schedule`.
            every: As for `@schedule`.
            missed: As for `@schedule`.
            overlap: As for `@schedule`.
            args: The arguments of the function that are named like one of these parameters.
            **more: The arguments of the function.

        Raises:
            InvalidInput: an argument is not valid, or this runtime's code declares a schedule of this name.
            ArgsInvalid: the function does not take these arguments.
        """
        times = times_of(cron, tz=tz, every=every)
        check_policies(missed, overlap, 0)
        if not isinstance(target, Process):
            wanted = "a function with @schedule, or a process"
            raise InvalidInput.at("target", type(target).__name__, wanted)
        self._check_not_declared(name)
        given = {**(args or {}), **more}
        plan = plan_of(_checked(name), times, target, given, (missed, overlap, 0))
        agent = target.program_name if isinstance(target, Schedule) else Clock(target).program_name
        await self._settle(plan, agent)

    async def remove(self, name: str) -> None:
        """Remove a schedule that was added, or that the code no longer declares. A run that has begun continues.

        Args:
            name: The name of the schedule.

        Raises:
            InvalidInput: there is no schedule of this name, or this runtime's code declares it.
        """
        self._check_not_declared(name)
        _known(await self._waiting(_checked(name)), name)
        await self._become(name, lambda _waiting, _revision: _Wanted())

    def _check_not_declared(self, name: str) -> None:
        if name in self._declared:
            raise InvalidInput.at(
                "name", f"{name}, which the code declares", "another; or pause it"
            )

    async def settle(self) -> None:
        """Make sure that a tick of each declared schedule waits; replace the tick if the schedule has changed."""
        for one in self._declared.values():
            await self._settle(one.plan, one.program_name)

    async def _settle(self, plan: Plan, agent: str) -> None:
        def wanted(waiting: tuple[_Waiting, ...], revision: int) -> _Wanted:
            current = _current(waiting)
            if current and current[0].plan.version > plan.version:
                return _Wanted(current)  # a later release decides
            if current and _is_same(current[0], plan, agent):
                return _Wanted(current)
            is_paused = bool(current) and current[0].plan.is_paused
            new = msgspec.structs.replace(plan, revision=revision)
            return _Wanted(new=new if is_paused else self._next(new, revision), agent=agent)

        await self._become(plan.name, wanted)

    def _next(self, plan: Plan, revision: int) -> Plan | None:
        return msgspec.structs.replace(plan, revision=revision, carried=0).after(self._now_ms)

    async def _become(
        self, name: str, wanted: Callable[[tuple[_Waiting, ...], int], _Wanted]
    ) -> None:
        """Cancel and accept ticks until exactly the wanted ticks wait."""
        store = self._admission.services.store
        _checked(name)
        for _ in range(_TRIES):
            waiting, now_ms = await self._waiting(name), self._now_ms
            become = wanted(waiting, await self._revision(name) + 1)
            errands: Sequence[CancelTurn | AcceptTurn] = [
                CancelTurn(session_id=one.session_id, turn_id=one.turn_id, reason="replaced")
                for one in waiting
                if one not in become.kept
            ]
            if become.new is not None:
                errands = (*errands, acceptance(store, become.new, become.agent, now_ms))
            if not errands:
                return
            await store.run_errands(errands, now_ms=now_ms)
            for errand in errands:
                self._admission.worker.wake(errand.session_id)
        raise EngineError(f"schedule {name}: others change it at the same time")

    async def _revision(self, name: str) -> int:
        """Return the highest revision among the ticks of a schedule."""
        store, found = self._admission.services.store, 0
        for session in await self._sessions(clock_label(name)):
            turns = await store.list_turns(session_id=session.session_id, limit=1)
            found = max(found, *(revision_of(turn.turn_id) for turn in turns), 0)
        return found


def _rank(plan: Plan) -> tuple[int, int]:
    return plan.version, plan.revision


def _current(waiting: tuple[_Waiting, ...]) -> list[_Waiting]:
    """Return the ticks of the newest revision: one, or a tick that just came due and its successor."""
    return [one for one in waiting if _rank(one.plan) == _rank(waiting[-1].plan)]


def _is_same(one: _Waiting, plan: Plan, agent: str) -> bool:
    return (one.plan.content, one.plan.version, one.agent) == (plan.content, plan.version, agent)


def _known(waiting: tuple[_Waiting, ...], name: str) -> _Waiting:
    if not waiting:
        raise InvalidInput.at("name", repr(name)[:80], "the name of a schedule")
    return waiting[-1]


def _checked(name: str) -> str:
    if not is_name(name):
        raise InvalidInput.at("name", repr(name)[:80], "an id of at most 64 characters")
    return name


def _instant(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / _SECOND_MS, tz=UTC)
