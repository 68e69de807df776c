"""Schedules: functions that run at the times of a cron expression or an interval. How to declare one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, get_args
from zoneinfo import ZoneInfo

from windlass.api.process import Process
from windlass.api.process_context import ProcessContext
from windlass.errors import ArgsInvalid, ConfigError, InvalidInput
from windlass.kernel import Json
from windlass.ports import Model, TurnInfo
from windlass.runtime.emitting import is_name
from windlass.runtime.program import Program
from windlass.runtime.schedule_clock import Plan, run_tick
from windlass.runtime.schedule_ticks import Missed, Overlap
from windlass.runtime.schedule_times import Cron, Every, Times, times_of

if TYPE_CHECKING:
    from windlass.runtime.process_host import ProcessHost

D_co = TypeVar("D_co", covariant=True)
_SECOND_MS = 1_000
_PROGRAM = "schedule:"


class Tick(ProcessContext[D_co]):
    """The context of a function with `@schedule`: the operations of a process, and the tick that it runs for.

    Attributes:
        schedule: The name of the schedule.
        due: The instant that this run is for, in the schedule's time zone.
        missed: How many ticks before it have not run: no worker ran, or an earlier run had not ended.
    """

    def __init__(self, host: ProcessHost, spec: Process[Any]) -> None:
        said = host.turn.request.overrides
        run: Mapping[str, Any] = said["run"]
        super().__init__(host, str(said.get("process_id", "")), spec)
        self.schedule: str = run["schedule"]
        zone = UTC if "tz" not in run else ZoneInfo(run["tz"])
        self.due = datetime.fromtimestamp(run["due_ms"] / _SECOND_MS, tz=UTC).astimezone(zone)
        self.missed: int = run["missed"]


class Clock(Process[Json]):
    """Drives the ticks of added schedules that run a process. A declared schedule drives its own ticks."""

    noun = "schedule"

    is_short = True

    def __init__(self, target: Process[Any]) -> None:
        super().__init__(_no_function, name=target.name)
        self.target = target

    @property
    def program_name(self) -> str:
        """The name of the program that drives these ticks."""
        return f"{_PROGRAM}{self.target.program_name}"

    def compiled(
        self,
        find_model: Callable[[str], Model | None],
        model: Model,
        deps: Callable[[TurnInfo], Any] | None,  # noqa: ARG002 - they are the process's
    ) -> Program:
        """Return it as a runtime drives it."""
        return super().compiled(find_model, model, None)

    async def _run(self, host: ProcessHost) -> Json:
        plan = Plan.of(host.turn.request)
        assert plan is not None  # noqa: S101 - only ticks are accepted for it
        return await run_tick(host, plan)


async def _no_function(_ctx: Any) -> None:  # noqa: ANN401 - it is never called
    """Stand in for the function of a process."""


class Schedule(Process[Any]):
    """A function that runs at times. `@schedule` makes one.

    Attributes:
        name: The name of the schedule.
        times: When it is due.
        missed: What happens to ticks that came due while no worker ran.
        overlap: What happens to a tick that is due while an earlier run has not ended.
        version: If two releases differ, the one with the higher version decides when it is due.
    """

    noun = "schedule"

    def __init__(  # noqa: PLR0913 - what a schedule is made of
        self,
        fn: Callable[..., Awaitable[object]],
        *,
        times: Times,
        name: str | None,
        missed: Missed,
        overlap: Overlap,
        version: int,
        deps_type: type[Any] | None,
    ) -> None:
        super().__init__(fn, name=name, deps_type=deps_type)
        if not is_name(self.name):
            wanted = "an id of at most 64 characters"
            raise ConfigError.at("schedule.name", repr(self.name)[:40], wanted)
        self.times = times
        self.missed: Missed = missed
        self.overlap: Overlap = overlap
        self.version = version

    @property
    def program_name(self) -> str:
        """The name of the program that drives its ticks and runs."""
        return f"{_PROGRAM}{self.name}"

    @property
    def plan(self) -> Plan:
        """The plan that its ticks carry."""
        return plan_of(self.name, self.times, self, {}, (self.missed, self.overlap, self.version))

    async def _run(self, host: ProcessHost) -> object:
        asked = host.turn.request
        plan = Plan.of(asked)
        if plan is not None:
            return await run_tick(host, plan)
        ctx: Tick[Any] = Tick(host, self)
        args = self.check(asked.overrides.get("args") or {})
        return await self._fn(ctx, **self._converted(args))


def schedule(  # noqa: PLR0913 - what a schedule is made of
    cron: str | None = None,
    *,
    tz: str | None = None,
    every: timedelta | None = None,
    missed: Missed = "one",
    overlap: Overlap = "queue",
    version: int = 0,
    name: str | None = None,
    deps_type: type[Any] | None = None,
) -> Callable[[Callable[..., Awaitable[object]]], Schedule]:
    """Run an async function at given times; its first parameter is a `Tick`.

    Args:
        cron: A cron expression of five fields, or a name such as `@daily`.
        tz: The time zone of the expression, such as `Europe/Berlin`; by default UTC.
        every: An interval instead of an expression: whole seconds, from 1 second to 366 days.
        missed: What happens to ticks that came due while no worker ran. `one`: the newest runs, however late. `skip`: the
            newest runs if it is at most a minute late. `all`: each runs, up to the newest 1,000.
        overlap: What happens to a tick that is due while an earlier run has not ended: it waits (`queue`), or it does not
            run (`skip`).
        version: If the expressions of two releases differ, the higher version decides. Between equal versions the release
            that opened last decides.
        name: The name of the schedule; by default the function's name.
        deps_type: The type of the deps that `Runtime(deps=...)` makes for it.

    Raises:
        InvalidInput: the expression, the zone or a policy is not valid; names the field.
        ConfigError: the extra `schedules` is not installed, or the function cannot be run.
    """
    times = times_of(cron, tz=tz, every=every)
    check_policies(missed, overlap, version)

    def make(fn: Callable[..., Awaitable[object]]) -> Schedule:
        return Schedule(
            fn,
            times=times,
            name=name,
            missed=missed,
            overlap=overlap,
            version=version,
            deps_type=deps_type,
        )

    return make


def check_policies(missed: object, overlap: object, version: object) -> None:
    """Refuse what a schedule cannot do.

    Raises:
        InvalidInput: naming the field.
    """
    for field, found, wanted in (
        ("missed", missed, get_args(Missed)),
        ("overlap", overlap, get_args(Overlap)),
    ):
        if found not in wanted:
            raise InvalidInput.at(field, repr(found)[:40], f"one of {', '.join(wanted)}")
    if type(version) is not int or version < 0:
        raise InvalidInput.at("version", repr(version)[:40], "a whole number from 0")


def plan_of(
    name: str,
    times: Times,
    target: Process[Any],
    args: Mapping[str, Any],
    policies: tuple[Missed, Overlap, int],
) -> Plan:
    """Return the plan that the ticks of a schedule carry; its target is a schedule's function or a process.

    Raises:
        ArgsInvalid: the target does not take these arguments.
    """
    missed, overlap, version = policies
    return Plan(
        name=name,
        target=target.program_name,
        expression=times.expression if isinstance(times, Cron) else None,
        tz=times.tz if isinstance(times, Cron) else None,
        every_ms=times.interval_ms if isinstance(times, Every) else None,
        missed=missed,
        overlap=overlap,
        version=version,
        args=dict(target.check(args)),
    )


def checked_schedules(given: Sequence[object]) -> dict[str, Schedule]:
    """Return the schedules of a runtime by name.

    Raises:
        ConfigError: one is not a schedule, two have the same name, or one needs arguments.
    """
    found: dict[str, Schedule] = {}
    for at, one in enumerate(given):
        field = f"Runtime.schedules[{at}]"
        if not isinstance(one, Schedule):
            shown = "a function without @schedule" if callable(one) else type(one).__name__
            raise ConfigError.at(field, shown, "a schedule, as @schedule makes one")
        if found.setdefault(one.name, one) is not one:
            raise ConfigError.at(field, f"a second schedule called {one.name}", "each name once")
        try:
            one.check({})
        except ArgsInvalid as error:
            raise ConfigError(f"{field}: {error}", field=field) from None
    return found


def clocks_of(processes: Sequence[object]) -> tuple[Clock, ...]:
    """Return the programs that drive the ticks of added schedules which run these processes."""
    return tuple(Clock(one) for one in processes if isinstance(one, Process))
