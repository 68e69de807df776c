"""The clock of a schedule: a chain of turns. Each waits for one tick, starts its run and accepts the next tick.

    clock   one session per schedule and month; a turn `2026-11-17T08:00:00Z.r1` waits for that instant
    runs    one session per schedule and month; a turn `2026-11-17T08:00:00Z` does the work

Law 1. One unit writes a tick's decision, the runs that it starts and the next tick. The unit claims something, so a
    cancelled tick starts nothing.
Law 2. The id of a run is its instant. So no instant runs twice, whatever the clock of a worker shows, and however often a
    schedule is changed.
Law 3. A tick carries the whole plan, and passes it to the next tick. So any worker of any release that has the program can
    drive it; only a change of the plan replaces the tick (`api.schedules`).
Law 4. A tick does not wait for the run that it started. The length of a run does not change when the next tick is due.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

import msgspec

from windlass.errors import InvalidInput
from windlass.journal import ProcessCommand, derived_session_id
from windlass.kernel import Json, canonical
from windlass.kernel.value import EMPTY_DICT, JsonValue
from windlass.ports import AcceptTurn, Errand, NewTurn, Store, TurnRequest
from windlass.runtime.emitting import count_unfinished, month_of
from windlass.runtime.process_host import Made, ProcessHost
from windlass.runtime.schedule_ticks import (
    MOST_TICKS,
    DueTicks,
    Missed,
    Overlap,
    decide_ticks,
    due_ms_of,
    period_of,
    tick_id,
)
from windlass.runtime.schedule_times import Times, times_of

MOST_QUEUED = MOST_TICKS
"""How many runs of a schedule may wait; a tick that is due then is skipped."""
_PAUSED = "paused"
_BY_HAND = "now"
_SIGNAL = "resume"


class Plan(JsonValue, kw_only=True):
    """What a schedule does, as its ticks carry it.

    `due_ms` is when this tick is due; None: the schedule is paused. `target` is the program of the runs, `args` are their
    arguments. `revision` counts how often the plan was replaced, `carried` counts the ticks that have not run since the
    last run.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("args",)

    name: str
    target: str
    due_ms: int | None = None
    expression: str | None = None
    tz: str | None = None
    every_ms: int | None = None
    missed: Missed = "one"
    overlap: Overlap = "queue"
    version: int = 0
    revision: int = 1
    carried: int = 0
    args: dict[str, Any] = EMPTY_DICT

    @classmethod
    def of(cls, request: TurnRequest) -> Plan | None:
        """Return the plan that a turn carries, if it is a tick."""
        said = request.overrides.get("tick")
        return None if said is None else msgspec.convert(dict(said), cls)

    @property
    def times(self) -> Times:
        """When it is due."""
        every = None if self.every_ms is None else timedelta(milliseconds=self.every_ms)
        return times_of(self.expression, tz=self.tz, every=every)

    @property
    def content(self) -> str:
        """A digest of what the plan does, without its progress."""
        return canonical.digest(
            msgspec.structs.replace(self, due_ms=None, revision=1, carried=0, version=0)
        )

    @property
    def is_paused(self) -> bool:
        """Whether the schedule is paused."""
        return self.due_ms is None

    @property
    def turn_id(self) -> str:
        """The id of the turn that waits for this tick."""
        place = _PAUSED if self.due_ms is None else tick_id(self.due_ms)
        return f"{place}.r{self.revision}"

    def after(self, instant_ms: int) -> Plan | None:
        """Return the plan for the first tick after an instant; None if there is none."""
        due_ms = self.times.next_after(instant_ms)
        return None if due_ms is None else msgspec.structs.replace(self, due_ms=due_ms)


def revision_of(turn_id: str) -> int:
    """Return the revision of a tick's plan, from the tick's id."""
    number = turn_id.rpartition(".r")[2]
    return int(number) if number.isdigit() else 0


def clock_label(name: str) -> str:
    """Return the label of the sessions with the ticks of a schedule."""
    return f"schedule:{name}"


def runs_label(name: str) -> str:
    """Return the label of the sessions with the runs of a schedule."""
    return f"schedule:{name}/runs"


def name_of_clock(label: str | None) -> str | None:
    """Return the name of the schedule whose ticks are in sessions with this label."""
    if label is None or label.endswith("/runs"):
        return None
    return label.removeprefix("schedule:")


def acceptance(store: Store, plan: Plan, agent: str, now_ms: int) -> AcceptTurn:
    """Return the errand that accepts a tick."""
    month = month_of(now_ms) if plan.due_ms is None else period_of(plan.due_ms)
    overrides = {"tick": msgspec.to_builtins(plan)}
    turn = NewTurn(agent=agent, request=TurnRequest(overrides=overrides), now_ms=now_ms)
    return AcceptTurn(
        session_id=derived_session_id(store.secret, "schedule", "clock", plan.name, month),
        turn_id=plan.turn_id,
        turn=turn,
        kind="schedule",
        label=clock_label(plan.name),
        at_top=True,
    )


# ---------------------------------------------------------------------- runs


class Run(NamedTuple):
    """A run to start: the instant that it is for, and how many ticks before it have not run."""

    turn_id: str
    due_ms: int
    missed: int = 0

    def to(self, plan: Plan, session_id: str, now_ms: int) -> AcceptTurn:
        """Return the errand that starts it."""
        said = {"schedule": plan.name, "due_ms": self.due_ms, "missed": self.missed}
        overrides: dict[str, Any] = {
            "run": said if plan.tz is None else {**said, "tz": plan.tz},
            "args": plan.args,
            "process_id": plan.name,
        }
        turn = NewTurn(agent=plan.target, request=TurnRequest(overrides=overrides), now_ms=now_ms)
        return AcceptTurn(
            session_id=session_id,
            turn_id=self.turn_id,
            turn=turn,
            kind="schedule",
            label=runs_label(plan.name),
            at_top=True,
        )


def run_by_hand(now_ms: int, nonce: str) -> Run:
    """Return a run that a person asks for."""
    return Run(f"{_BY_HAND}.{now_ms}.{nonce}", now_ms)


def due_of_run(turn_id: str) -> int | None:
    """Return the instant that a run was for, by its id."""
    kind, _, rest = turn_id.partition(".")
    if kind == _BY_HAND:
        number = rest.partition(".")[0]
        return int(number) if number.isdigit() else None
    try:
        return due_ms_of(turn_id)
    except InvalidInput:
        return None  # a run that continued with other arguments


class RunsPlace(NamedTuple):
    """The session in which a schedule runs next, and how many runs there have not ended."""

    session_id: str
    unfinished: int


async def runs_place(store: Store, name: str, now_ms: int) -> RunsPlace:
    """Return where a schedule runs next: in an earlier month's session while that has unfinished runs."""
    wanted = derived_session_id(store.secret, "schedule", "runs", name, month_of(now_ms))
    for one in await store.list_sessions(kind="schedule", label=runs_label(name)):
        if unfinished := await count_unfinished(store, one.session_id):
            return RunsPlace(one.session_id, unfinished)
    return RunsPlace(wanted, 0)


# ---------------------------------------------------------------------- a tick


async def run_tick(host: ProcessHost, plan: Plan) -> Json:
    """Wait for a tick, start its run and accept the next tick. Return the decision."""
    host.turn.lane.is_patient = True  # a schedule's own function is its program, too
    if plan.due_ms is None:
        await host.signal(_SIGNAL, None)  # resuming the schedule cancels this turn
        return None
    await host.sleep_until(plan.due_ms)
    turn = host.turn
    store, clock = turn.services.store, turn.services.clock

    async def decide(_: str) -> Made:
        # The wait is over, even if the clock was set back meanwhile.
        now_ms = max(clock.now_ms(), plan.due_ms or 0)
        due = decide_ticks(plan.due_ms or 0, now_ms, plan.missed, plan.times)
        place = await runs_place(store, plan.name, now_ms)
        runs, skipped = _runs(plan, due, place.unfinished)
        errands: list[Errand] = [run.to(plan, place.session_id, now_ms) for run in runs]
        carried = 0 if runs else plan.carried + due.missed + skipped
        if due.next_ms is not None:
            following = msgspec.structs.replace(plan, due_ms=due.next_ms, carried=carried)
            errands.append(acceptance(store, following, turn.program.name, now_ms))
        said: dict[str, Json] = {"run": [run.turn_id for run in runs]}
        counts = {"missed": due.missed, "skipped": skipped}
        return {**said, **{key: n for key, n in counts.items() if n}}, tuple(errands)

    command = ProcessCommand(operation="start", process_id=plan.name, name="run")
    return await host.act(command, decide, claims=True)


def _runs(plan: Plan, due: DueTicks, unfinished: int) -> tuple[list[Run], int]:
    """Return the runs to start now, and how many due ticks are skipped because earlier runs have not ended."""
    room = MOST_QUEUED - unfinished
    if plan.overlap == "skip" and unfinished:
        room = 0
    kept = due.run[-room:] if room > 0 else ()
    skipped = len(due.run) - len(kept)
    before = plan.carried + due.missed + skipped
    runs = [Run(tick_id(at_ms), at_ms, 0 if n else before) for n, at_ms in enumerate(kept)]
    return runs, skipped
