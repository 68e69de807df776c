"""What was measured of everybody, and the table of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from bench.peers.catalogue import EVERYBODY, FLOOR, MEMORY_LANGGRAPH, WINDLASS, Peer

Figures = dict[str, Any]
BASICS = ("W1", "W2", "W3")
BEST_PEER_BAR = 4.0
_NOTHING = "-"


class Run(NamedTuple):
    """What one process measured, and what others measured right before and right after, by their labels."""

    figures: Figures
    around: Sequence[dict[str, Figures]] = ()

    def others(self, label: str) -> list[Figures]:
        """Return the figures of one of the others, of the runs that worked."""
        found = [each[label] for each in self.around if label in each]
        return [figures for figures in found if "error" not in figures]


class Results:
    """Runs by peer and workload."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self._kept: dict[tuple[str, str], list[Run]] = {}

    def add(
        self,
        peer: Peer,
        workload: str,
        figures: Figures,
        around: Sequence[dict[str, Figures]] = (),
    ) -> None:
        """Keep a run."""
        self._kept.setdefault((peer.label, workload), []).append(Run(figures, around))

    def errors(self) -> list[str]:
        """Return what went wrong, once each."""
        said = [f"{label}: not installed: {text}" for label, text in self.refused.items()]
        for (label, workload), runs in self._kept.items():
            wrong = [run.figures["error"] for run in runs if "error" in run.figures]
            said += [f"{label}, {workload}: {error}" for error in wrong]
        return list(dict.fromkeys(said))

    def median(
        self, peer: Peer, workload: str, read: Callable[[Figures], float], *, to: Peer | None = None
    ) -> float | None:
        """Return the median over all runs that worked, or of its ratio to another's beside it; None if none did."""
        runs = self._kept.get((peer.label, workload), [])
        good = [run for run in runs if "error" not in run.figures]
        if to is None:
            found = [read(run.figures) for run in good]
        else:
            pairs = [(run, run.others(to.label)) for run in good]
            found = [
                read(run.figures) / fmean(map(read, others)) for run, others in pairs if others
            ]
        return statistics.median(found) if found else None

    def worst_crash(self, peer: Peer, workload: str) -> str:
        """Say in a word whether a killed turn went on, and what was done twice."""
        runs = self._kept.get((peer.label, workload))
        if runs is None:
            return _NOTHING
        crashes = [run.figures for run in runs]
        if not all(each.get("answered") for each in crashes):
            return "no"
        worst = max(crashes, key=lambda each: each["finished_again"] + each["replies_again"])
        twice = [f"{worst['finished_again']}/{worst['finished']}"]
        twice.append("again" if worst["in_flight_again"] else "not again")
        twice.append(str(worst["replies_again"]))
        return "yes " + ", ".join(twice)

    def as_json(self) -> list[Figures]:
        """Return everything, for programs."""
        return [
            {"peer": label, "workload": workload, **run._asdict()}
            for (label, workload), runs in self._kept.items()
            for run in runs
        ]


def _wall(name: str) -> Callable[[Figures], float]:
    return lambda figures: float(figures[name]["wall_us"])


def _number(value: float | None, digits: int = 1) -> str:
    return _NOTHING if value is None else f"{value:,.{digits}f}"


def _row(results: Results, peer: Peer) -> list[str]:
    def of(workload: str, *path: str, by: float = 1.0) -> float | None:
        def read(figures: Figures) -> float:
            found: Any = figures
            for name in path:
                found = found[name]
            return float(found) / by

        return results.median(peer, workload, read)

    growth = results.median(
        peer, "long", lambda figures: figures["old"]["wall_us"] / figures["young"]["wall_us"]
    )
    wider = results.median(
        peer, "long", lambda figures: figures["written_old"] / max(1.0, figures["written_young"])
    )
    rate = results.median(peer, "many", lambda figures: float(figures["turns_per_s"]), to=FLOOR)
    return [
        peer.label,
        *(_number(results.median(peer, "basics", _wall(name), to=FLOOR), 2) for name in BASICS),
        _number(results.median(peer, "basics", _wall("W2"), to=WINDLASS)),
        _number(of("basics", "W2", "wall_us", by=20.0), 0),
        _number(of("basics", "W2", "cpu_us", by=20.0), 0),
        _number(of("basics", "W2", "written", by=20_000.0)),
        _number(growth, 2),
        _number(wider if peer.keeps else None, 2),
        _number(of("many", "turns_per_s"), 0),
        _number(rate, 2),
        _number(of("cold", "total_ms"), 0),
        _number(of("reopen", "wall_us", by=1e3)),
        results.worst_crash(peer, "crash"),
        results.worst_crash(peer, "crash at once"),
        results.worst_crash(peer, "crash of 20"),
    ]


_HEAD = [
    "", "W1 x", "W2 x", "W3 x", "W2 to us", "W2 µs", "W2 CPU", "W2 kB", "W4 time", "W4 bytes",
    "W5 /s", "W5 x", "W6 ms", "W7 ms", "W8", "W8 at once", "W8 of 20",
]  # fmt: skip

LEGEND = """\
x: to the floor (one FULL commit per step) right before and after it; "to us": to windlass with a `once` tool, likewise.
W5: turns per second, and these to the floor's: more is better. All else: less is better.
W1 a turn without a tool · W2 20 iterations with one call, per iteration (µs, µs of CPU, kB written) · W3 20 calls in one reply
W4 turn 250 of a session to its turn 10, time and bytes · W5 200 sessions of 5 turns at once · W6 from the start of a process
to the end of its first turn · W7 first turn of a new process on a session of 1,000 messages.
W8 kill -9 while call 5 of 10 runs (at once: the moment it starts; of 20: call 19 of 20 in one reply), then a new process:
"yes A/B, again, C": went on to its answer; of B finished calls A ran again; the call in flight ran again or not; C paid
replies were bought again. "no": did not go on. windlass tells the model of a `once` call that nobody knows how it ended."""


def table(results: Results, peers: Sequence[Peer]) -> str:
    """Return one table of all peers, as Markdown that also reads well on a terminal."""
    rows = [_HEAD, *(_row(results, peer) for peer in peers)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    lines = [_line(row, widths) for row in rows]
    rule = (
        "|"
        + "|".join("-" * (width + 1) + (":" if at else "-") for at, width in enumerate(widths))
        + "|"
    )
    return "\n".join([lines[0], rule, *lines[1:]])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first = f"{row[0]:<{widths[0]}}"
    rest = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
    return "| " + " | ".join([first, *rest]) + " |"


def verdicts(results: Results) -> list[str]:
    """Hold windlass against the two bars that name its peers, each measured beside it."""
    said = []
    durable = [
        (found, peer.label)
        for peer in EVERYBODY
        if peer.steps
        if (found := results.median(peer, "basics", _wall("W2"), to=WINDLASS)) is not None
    ]
    if durable:
        best, label = min(durable)
        said.append(
            f"W2 against the best peer that stores each step ({label}): {best:.1f} x faster, "
            f"bar {BEST_PEER_BAR:.0f} x: {'held' if best >= BEST_PEER_BAR else 'MISSED'}"
        )
    memory = results.median(MEMORY_LANGGRAPH, "basics", _wall("W2"), to=WINDLASS)
    if memory is not None:
        said.append(
            f"W2 against LangGraph in memory: {memory:.1f} x faster, "
            f"bar 1 x: {'held' if memory > 1 else 'MISSED'}"
        )
    return said
