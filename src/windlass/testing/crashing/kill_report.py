"""What came of killing a scenario everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from windlass.testing.crashing.crash_point import CrashPoint

_MAX_TOLD = 20


@dataclass(frozen=True, kw_only=True)
class KillReport:
    """The crash points that were tried.

    Attributes:
        points: All of them, in the order of the program.
        unknown: Those after which nobody knows whether a tool with the contract "once" acted.
        missed: Those that the program did not come to again: it does not do the same thing in every run, which
            threads and real I/O may cause.
        left_out: How many were left out, for `only` or `max_points`.
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
        counts = (
            (len(self.unknown), "unknown"),
            (len(self.missed), "missed"),
            (self.left_out, "left out"),
        )
        return tuple(f"{count} {name}" for count, name in counts if count)


class Finding(NamedTuple):
    """A crash that the scenario does not survive, and how that shows."""

    point: CrashPoint
    problem: str
    error: BaseException | None = None


class CrashFound(AssertionError):
    """A scenario does not survive being killed: `findings` says where, and how that shows."""

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
