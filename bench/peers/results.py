"""What was measured of everybody, and the table of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from bench.peers.catalogue import EVERYBODY, MEMORY_LANGGRAPH, WINDLASS, Peer

Figures = dict[str, Any]
BASICS = ("W1", "W2", "W3")
BEST_PEER_BAR = 4.0
_NOTHING = "-"


class Results:
    """Figures by peer and workload, round by round, each with the floor's right before and after."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self._kept: dict[tuple[str, str], list[tuple[Figures, list[Figures]]]] = {}

    def add(self, peer: Peer, workload: str, figures: Figures, floors: list[Figures]) -> None:
        """Keep what one process measured, and what the floor measured around it."""
        self._kept.setdefault((peer.label, workload), []).append((figures, floors))

    def errors(self) -> list[str]:
        """Return what went wrong, once each."""
        said = [f"{label}: not installed: {text}" for label, text in self.refused.items()]
        for (label, workload), pairs in self._kept.items():
            said += [
                f"{label}, {workload}: {each['error']}" for each, _ in pairs if "error" in each
            ]
        return list(dict.fromkeys(said))

    def median(
        self,
        peer: Peer,
        workload: str,
        read: Callable[[Figures], float],
        *,
        to_floor: bool = False,
    ) -> float | None:
        """Return the median over all rounds that worked, or of its ratio to the floors; None if none did."""
        pairs = self._kept.get((peer.label, workload), [])
        good = [pair for pair in pairs if not any("error" in each for each in (pair[0], *pair[1]))]
        if not good:
            return None
        if to_floor:
            return statistics.median(read(mine) / fmean(map(read, floors)) for mine, floors in good)
        return statistics.median(read(mine) for mine, _ in good)

    def worst_crash(self, peer: Peer, workload: str) -> str:
        """Say in a word whether a killed turn went on, and what was done twice."""
        pairs = self._kept.get((peer.label, workload))
        if pairs is None:
            return _NOTHING
        crashes = [each for each, _ in pairs]
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
            {"peer": label, "workload": workload, "figures": figures, "floors": floors}
            for (label, workload), pairs in self._kept.items()
            for figures, floors in pairs
        ]


def _to_floor(results: Results, peer: Peer, name: str) -> float | None:
    return results.median(
        peer, "basics", lambda figures: float(figures[name]["wall_us"]), to_floor=True
    )


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
    rate = results.median(
        peer, "many", lambda figures: float(figures["turns_per_s"]), to_floor=True
    )
    return [
        peer.label,
        *(_number(_to_floor(results, peer, name), 2) for name in BASICS),
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
    "", "W1 x", "W2 x", "W3 x", "W2 µs", "W2 CPU", "W2 kB", "W4 time", "W4 bytes",
    "W5 /s", "W5 x", "W6 ms", "W7 ms", "W8", "W8 at once", "W8 of 20",
]  # fmt: skip

LEGEND = """\
x: to the floor (one FULL commit per step) right before and after it; W5: turns per second to the floor's, more is better.
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
    """Hold windlass against the two bars that name its peers."""
    mine = _to_floor(results, WINDLASS, "W2")
    if mine is None:
        return []
    durable = [
        (found, peer)
        for peer in EVERYBODY
        if peer.steps and peer.environment != WINDLASS.environment
        if (found := _to_floor(results, peer, "W2")) is not None
    ]
    said = []
    if durable:
        ratio, best = min(durable)[0] / mine, min(durable)[1]
        held = "held" if ratio >= BEST_PEER_BAR else "MISSED"
        said.append(
            f"W2 against the best peer that stores each step ({best.label}): "
            f"{ratio:.1f} x faster, bar {BEST_PEER_BAR:.0f} x: {held}"
        )
    memory = _to_floor(results, MEMORY_LANGGRAPH, "W2")
    if memory is not None:
        held = "held" if memory > mine else "MISSED"
        said.append(
            f"W2 against LangGraph in memory: {memory / mine:.1f} x faster, bar 1 x: {held}"
        )
    return said
