"""How the demo is told: as a table for people, as a value on each line for programs."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

from windlass.cli import trip
from windlass.cli.demo_seen import ACTS, Seen
from windlass.cli.json_lines import write_json
from windlass.cli.story import Line
from windlass.cli.timeline import Style, Timeline

_INTRO = (
    "One turn of an agent on one SQLite file: no key, no server, no network. The model is a few rules.",
    "Processes come and go, and two of them are killed after their tool acted and before it answered.",
    "The lines are read back from the store when a process has ended.",
)


class Screen(Protocol):
    """Whoever is told."""

    def begin(self) -> None:
        """Say what is to come."""
        ...

    def process(self, number: int, pid: int, title: str) -> None:
        """Say that a process has ended; the next lines are its own."""
        ...

    def line(self, line: Line) -> None:
        """Say what it did."""
        ...

    def end(self, seen: Seen, kept: Path | None) -> None:
        """Say what it came to, and where it is kept."""
        ...

    def refuse(self, why: str) -> None:
        """Say that something was not as told."""
        ...


class ForPeople:
    """A table that grows, and a sum below it."""

    def __init__(self, *, plain: bool) -> None:
        self._screen = Timeline(sys.stdout, Style.of(sys.stdout, plain=plain))

    def begin(self) -> None:
        """Write the head."""
        for line in _INTRO:
            self._screen.say(line, "dim")
        self._screen.say()
        self._screen.head()

    def process(self, number: int, pid: int, title: str) -> None:
        """Write a line of its own."""
        self._screen.say(f"process {number}, pid {pid}: {title}", "bold")

    def line(self, line: Line) -> None:
        """Write a row; what went wrong is marked."""
        mark = self._screen.style.sign("✗ ", "x ") if line.color == "red" else ""
        cells = (line.what, line.asked, mark + line.answered, line.how)
        self._screen.row(*cells, color=line.color)

    def end(self, seen: Seen, kept: Path | None) -> None:
        """Write the answer and the counts."""
        self._screen.say()
        self._screen.tell("Question", trip.QUESTION)
        self._screen.tell("Answer", seen.answer, "green")
        self._screen.say()
        killed = [f"{seen.pids[at]} in {act.dies_in}" for at, act in enumerate(ACTS) if act.dies_in]
        self._screen.say(
            f"processes   {len(seen.pids)}, killed with SIGKILL: {' and '.join(killed)}"
        )
        self._screen.say(
            f"model       {len(seen.model)} replies bought, {_twice(seen)} of them twice"
        )
        ran = Counter(seen.tools)
        self._screen.say(f"look_up     pure    ran {_times(ran['look_up'])}")
        key = self._screen.style.cut(seen.keys[0], 14)
        self._screen.say(
            f"book        keyed   ran {_times(ran['book'])} under one key, {key}; bookings: {seen.bookings}"
        )
        self._screen.say(
            f"notify      once    ran {_times(ran['notify'])}, killed there, never again; messages: {seen.messages}"
        )
        self._screen.say(
            f"pay         once    ran {_times(ran['pay'])}, after eva said yes; payments: {len(seen.payers)}"
        )
        self._screen.say("(counted in files that the model and the tools append to)", "dim")
        if kept is not None:
            self._screen.say(f"\nThe database and the counts are in {kept}.")

    def refuse(self, why: str) -> None:
        """Write it where errors go."""
        print(f"demo: {why}", file=sys.stderr)


class ForPrograms:
    """One value per line: each with its process, the last with the counts."""

    def __init__(self) -> None:
        self._process: dict[str, Any] = {}

    def begin(self) -> None:
        """Say nothing: programs know what they asked for."""

    def process(self, number: int, pid: int, title: str) -> None:  # noqa: ARG002 - words for people
        """Keep it for the lines to come."""
        self._process = {"process": number, "pid": pid}

    def line(self, line: Line) -> None:
        """Write a line of the table, uncut."""
        said = {"what": line.what, "asked": line.asked, "answered": line.answered, "how": line.how}
        write_json({**self._process, **said})

    def end(self, seen: Seen, kept: Path | None) -> None:
        """Write the answer and the counts."""
        killed = [
            {"pid": pid, "in": act.dies_in}
            for pid, act in zip(seen.pids, ACTS, strict=True)
            if act.dies_in
        ]
        write_json(
            {
                "question": trip.QUESTION,
                "answer": seen.answer,
                "pids": seen.pids,
                "killed": killed,
                "replies": {"bought": len(seen.model), "twice": _twice(seen)},
                "ran": Counter(seen.tools),
                "bookings": seen.bookings,
                "messages": seen.messages,
                "payments": len(seen.payers),
                "kept": None if kept is None else str(kept),
            }
        )

    def refuse(self, why: str) -> None:
        """Write it as the other commands write errors."""
        error = {"code": "not_as_told", "message": why, "field": None}
        write_json({"error": error}, sys.stderr)


def _times(count: int) -> str:
    return "1 time" if count == 1 else f"{count} times"


def _twice(seen: Seen) -> int:
    """Return how many replies were bought again."""
    return len(seen.model) - len(set(seen.model))
