"""Kill a scenario at every moment at which a process can die, and report where that makes a difference."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from windlass.errors import ConfigError
from windlass.testing.crashing.crash_point import CrashPoint
from windlass.testing.crashing.disk import Disk, Ending, MemoryDisk, SqliteDisk, make_blank
from windlass.testing.crashing.life import MakeScenario, TrialReport, run_trial, told

_MAX_TOLD = 20


@dataclass(frozen=True, kw_only=True)
class KillReport:
    """The crash points that were tried.

    Attributes:
        points: All of them, in the order of the program.
        unknown: Those that leave it unknown whether a tool with the contract "once" acted.
        missed: Those that the program did not come to again: it does not do the same thing in every run, which
            threads and real I/O may cause.
        left_out: How many of the points that it saw were left out, for `only` or `max_points`.
    """

    points: tuple[CrashPoint, ...]
    unknown: tuple[CrashPoint, ...] = ()
    missed: tuple[CrashPoint, ...] = ()
    left_out: int = 0

    def __str__(self) -> str:
        return ", ".join([f"{len(self.points)} crash points", *self.remarks])

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said besides how many there are."""
        unknown, missed = len(self.unknown), len(self.missed)
        counts = {"unknown": unknown, "missed": missed, "left out": self.left_out}
        return tuple(f"{count} {name}" for name, count in counts.items() if count)


class Finding(NamedTuple):
    """A crash that the scenario does not survive, and how that shows.

    Attributes:
        point: The moment of the crash.
        problem: How it shows, in words for people.
        error: What the program or the check raised; None if it ended otherwise without an error.
    """

    point: CrashPoint
    problem: str
    error: BaseException | None = None


class CrashFound(AssertionError):
    """A scenario does not survive being killed: `findings` says where, and how that shows.

    Attributes:
        findings: Each crash that the scenario does not survive, and how that shows.
        report: All points that were tried.
    """

    def __init__(self, findings: tuple[Finding, ...], report: KillReport) -> None:
        self.findings = findings
        self.report = report
        super().__init__(_told(findings, report))


def _told(findings: tuple[Finding, ...], report: KillReport) -> str:
    remarks = f" ({', '.join(report.remarks)})" if report.remarks else ""
    where = f"{len(findings)} of {len(report.points)} points{remarks}"
    lines = [f"the scenario does not survive a crash at {where}"]
    for point, problem, _ in findings[:_MAX_TOLD]:
        lines += ["", f"- {point}", *(f"    {line}" for line in problem.splitlines())]
    if len(findings) > _MAX_TOLD:
        lines += ["", f"and {len(findings) - _MAX_TOLD} more"]
    return "\n".join(lines)


StoreKind: TypeAlias = Literal["memory", "sqlite"]
_PATIENCE_S = 10.0


async def crash_points(
    make: MakeScenario,
    *,
    store: StoreKind = "memory",
    timeout: float = _PATIENCE_S,  # noqa: ASYNC109 - the public name
) -> tuple[CrashPoint, ...]:
    """Return the moments of an undisturbed run at which its process could die, in order.

    Args:
        make: Makes the scenario with a world of its own.
        store: Where the data are: in `memory`, or in a `sqlite` file in a temporary folder.
        timeout: How many seconds a process may take to its end.

    Raises:
        Exception: what the scenario itself raises without any crash.
    """
    async with _disks(store) as disk:
        report = await run_trial(make, disk(), patience_s=timeout)
    _undisturbed(report)
    return report.seen


async def kill_everywhere(
    make: MakeScenario,
    *,
    store: StoreKind = "memory",
    twice: bool = False,
    only: str = "",
    max_points: int | None = None,
    timeout: float = _PATIENCE_S,  # noqa: ASYNC109 - the public name
) -> KillReport:
    """Run a scenario once for each of its crash points: crash it there, start it again, compare and check.

    Args:
        make: Makes the scenario with a world of its own; called anew for each crash point.
        store: Where the data are: in memory, or in a SQLite file in a temporary folder.
        twice: Also kill the process that recovers, at each of its own crash points.
        only: Try only points whose description contains this, as when one of them is looked into.
        max_points: Try no more than that many in all, evenly spread. With `twice`, up to half of them are first
            crashes, and the others are spread over the processes that recover from those. None tries all.
        timeout: How many seconds a process may take to its end.

    Raises:
        CrashFound: after some crash the end was another one, a check failed, or there was no end.
        Exception: what the scenario itself raises without any crash.
    """
    async with _disks(store) as disk:
        killing = _Killing(make, disk, timeout)
        await killing.prepare()
        await killing.kill_all(_named(killing.points, only), twice=twice, most=max_points)
    report = KillReport(
        points=tuple(killing.tried),
        unknown=tuple(killing.unknown),
        missed=tuple(killing.missed),
        left_out=killing.left_out,
    )
    if killing.findings:
        found = CrashFound(tuple(killing.findings), report)
        raise found from killing.findings[0].error
    return report


class _Killing:
    """Kills a scenario again and again, and keeps what was found."""

    def __init__(self, make: MakeScenario, disk: Callable[[], Disk], timeout: float) -> None:
        self._make = make
        self._disk = disk
        self._timeout_s = timeout
        self._wanted = Ending(())
        self.points: tuple[CrashPoint, ...] = ()
        self.tried: list[CrashPoint] = []
        self.unknown: list[CrashPoint] = []
        self.missed: list[CrashPoint] = []
        self.findings: list[Finding] = []
        self.left_out = 0

    async def prepare(self) -> None:
        """See how the scenario ends without a crash: twice, for it has to end the same way."""
        first, second = await self._try(), await self._try()
        self._wanted, self.points = _undisturbed(first), first.seen
        difference = self._wanted.difference(_undisturbed(second))
        if difference:
            raise AssertionError(
                "the scenario ends otherwise when it is run again without a crash, "
                f"so there is nothing to compare with\n{difference}"
            )

    async def kill_all(
        self, points: tuple[CrashPoint, ...], *, twice: bool, most: int | None
    ) -> None:
        """Crash at each of these points, and if `twice` wherever the recovering process can die: `most` times in all."""
        left = sys.maxsize if most is None else most
        first = _spread(points, (left + 1) // 2 if twice else left)
        left -= len(first)
        self.left_out = len(self.points) - len(first)
        for n_done, point in enumerate(first):
            seen = await self._kill(point)
            if not twice:
                continue
            second = _spread(seen, left // (len(first) - n_done))
            left -= len(second)
            self.left_out += len(seen) - len(second)
            for one in second:
                await self._kill(msgspec.structs.replace(one, first=point))

    async def _kill(self, point: CrashPoint) -> tuple[CrashPoint, ...]:
        """Crash at a point, and see what comes of it; return where the process that recovered could die."""
        report = await self._try(point.path)
        self.tried.append(point)
        if report.missed:
            self.missed.append(point)
        problem, error = self._problem(report)
        if problem:
            self.findings.append(Finding(point, problem, error))
        elif self._is_unknown(report):
            self.unknown.append(point)
        return () if report.missed or problem else report.seen

    async def _try(self, plan: tuple[str, ...] = ()) -> TrialReport:
        return await run_trial(self._make, self._disk(), plan, patience_s=self._timeout_s)

    def _is_unknown(self, report: TrialReport) -> bool:
        ending = report.fate.ending
        return ending is not None and ending.has_unknown and not self._wanted.has_unknown

    def _problem(self, report: TrialReport) -> tuple[str, BaseException | None]:
        """Return what is wrong after a crash, in words; nothing if all is well."""
        fate = report.fate
        if fate.kind == "hung":
            return f"the program, started again, did not end within {self._timeout_s:g} s", None
        if fate.error is not None:
            return f"the program, started again, raised {told(fate.error)}", fate.error
        if report.broken is not None:
            return f"the check failed: {told(report.broken)}", report.broken
        if self._is_unknown(report):
            return ("", None) if report.scenario.allow_unknown else (_UNKNOWN, None)
        difference = "" if fate.ending is None else self._wanted.difference(fate.ending)
        return difference and f"it ended otherwise\n{difference}", None


_UNKNOWN = "it is unknown whether a tool acted, and the scenario does not allow that"


def _undisturbed(report: TrialReport) -> Ending:
    """Return how a run without a crash ended; an error there has nothing to do with crashes."""
    if report.error is not None:
        report.error.add_note("(in the run without any crash)")
        raise report.error
    if report.fate.ending is None:
        raise TimeoutError("the scenario did not end, in the run without any crash")
    return report.fate.ending


def _named(points: tuple[CrashPoint, ...], only: str) -> tuple[CrashPoint, ...]:
    named = tuple(point for point in points if only in str(point))
    if only and not named:
        raise ConfigError(f"only: no crash point is called {only!r}", field="only", found=only)
    return named


def _spread(points: tuple[CrashPoint, ...], most: int) -> tuple[CrashPoint, ...]:
    """Return at most so many of the points, evenly spread."""
    if len(points) <= most:
        return points
    return tuple(points[at * len(points) // most] for at in range(most))


@asynccontextmanager
async def _disks(store: str) -> AsyncIterator[Callable[[], Disk]]:
    """Yield a function that makes disks, one for each world; remove their files at the end."""
    kind = store.removesuffix(":")
    if kind == "memory":
        yield MemoryDisk
        return
    if kind != "sqlite":
        raise ConfigError.at("store", repr(store), "memory or sqlite")
    with tempfile.TemporaryDirectory(prefix="windlass-", ignore_cleanup_errors=True) as folder:
        blank = Path(folder, "blank.db")
        await make_blank(blank)
        worlds = itertools.count(1)

        def disk() -> Disk:
            world = Path(folder, f"world-{next(worlds)}")
            world.mkdir()
            return SqliteDisk(world, blank)

        yield disk
