"""The demo: one turn of an agent, killed twice, approved from outside, and finished all the same.

Law 1. Everything printed was observed: signals by waiting for the process, lines of the table in the store,
    counts in files that the model and the tools append to. If anything differs from what the demo claims,
    it says so and exits with 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from windlass.cli import demo_trip as trip
from windlass.cli.demo_table import Story, Table
from windlass.cli.opening import opened_store
from windlass.cli.output import write_json
from windlass.cli.settings import Settings
from windlass.kernel import Finished
from windlass.ports import TurnView

EXIT_NOT_AS_TOLD = 1
# Each process needs about a second; one that has not ended by then is not going to.
_PATIENCE_S = 60
_INTRO = (
    "One turn of an agent on one SQLite file: no key, no server, no network. The model is a few rules.",
    "Processes come and go; two of them are killed after their tool acted and before it answered.",
    "The lines are read back from the store when a process has ended.",
)


class NotAsTold(Exception):
    """The demo saw something other than what it claims."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What one process does."""

    role: Literal["start", "resume", "approve"]
    title: str
    dies_in: str | None = None

    @property
    def exit_code(self) -> int:
        """How the process has to end."""
        return 0 if self.dies_in is None else -signal.SIGKILL


ACTS = (
    Act(role="start", title="asks the question and starts the turn", dies_in="book"),
    Act(role="resume", title="opens the file and asks nothing", dies_in="notify"),
    Act(role="resume", title="opens the file"),
    Act(role="approve", title="has no agent; eva approves"),
    Act(role="resume", title="opens the file"),
)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What can be counted at the end: process ids, and the lines of the world's files."""

    pids: Sequence[int]
    model: Sequence[str]
    tools: Sequence[str]
    keys: Sequence[str]
    bookings: int
    messages: int
    payers: Sequence[int]
    answer: str

    @classmethod
    def of(cls, world: trip.World, pids: Sequence[int], turn: TurnView) -> Seen:
        tools = world.read("tools")
        return cls(
            pids=pids,
            model=[digest for _pid, digest in world.read("model")],
            tools=[words[1] for words in tools],
            keys=[words[2] for words in tools if words[1] == "book"],
            bookings=len(world.read("hotel")),
            messages=len(world.read("messages")),
            payers=[int(pid) for pid, _cents in world.read("payments")],
            answer=turn.outcome.text if isinstance(turn.outcome, Finished) else "",
        )

    def record(self) -> dict[str, Any]:
        """Return the answer and the counts, as programs get them."""
        deaths = [(pid, act.dies_in) for pid, act in zip(self.pids, ACTS, strict=True)]
        return {
            "question": trip.QUESTION,
            "answer": self.answer,
            "pids": self.pids,
            "killed": [{"pid": pid, "in": tool} for pid, tool in deaths if tool is not None],
            "replies": {"bought": len(self.model), "twice": len(self.model) - len(set(self.model))},
            "ran": Counter(self.tools),
            "bookings": self.bookings,
            "messages": self.messages,
            "payments": len(self.payers),
        }


def run(folder: Path | None, *, plain: bool, json: bool = False) -> int:
    """Show the turn; return 0, or 1 if anything was not as told. Without a folder, nothing is kept."""
    table = None if json else _begin_table(plain=plain)
    with contextlib.ExitStack() as stack:
        kept = folder
        if folder is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-demo-"))
            folder = Path(made)
        try:
            seen = _perform(folder, table)
            check(seen)
        except NotAsTold as refusal:
            _refuse(str(refusal), json=json)
            return EXIT_NOT_AS_TOLD
        if table is None:
            write_json({**seen.record(), "kept": None if kept is None else str(kept)})
        else:
            _end_table(table, seen, kept)
    return 0


def check(seen: Seen) -> None:
    """Compare what was seen with what the demo claims.

    Raises:
        NotAsTold: naming what does not hold.
    """
    asked = seen.model
    claims = {
        "every process was another one": len(set(seen.pids)) == len(ACTS),
        "5 requests went to the model, none of them twice": len(set(asked)) == len(asked) == 5,
        "look_up ran once": seen.tools.count("look_up") == 1,
        "book ran twice under one key": len(seen.keys) == 2 and len(set(seen.keys)) == 1,
        "the hotel has one booking": seen.bookings == 1,
        "notify ran once": seen.tools.count("notify") == 1,
        "one message went out": seen.messages == 1,
        "pay ran once": seen.tools.count("pay") == 1,
        "one payment was made, after the approval": list(seen.payers) == [seen.pids[-1]],
        "the turn ended with an answer": bool(seen.answer),
    }
    broken = [claim for claim, holds in claims.items() if not holds]
    if broken:
        raise NotAsTold(f"this does not hold: {'; '.join(broken)}")


# ---------------------------------------------------------------------- the processes


def _perform(folder: Path, table: Table | None) -> Seen:
    """Play all acts and show each when it is over: in the table, or one JSON value per line."""
    story = Story()
    pids: list[int] = []
    for number, act in enumerate(ACTS, start=1):
        pid = _play(act, number, folder.absolute())
        pids.append(pid)
        turn = asyncio.run(_load(folder))
        if table is not None:
            table.say(f"process {number}, pid {pid}: {act.title}", "bold")
        for line in story.lines(turn, resumed=act.role == "resume", killed=act.dies_in is not None):
            if table is not None:
                table.line(line)
            else:
                said = msgspec.structs.asdict(line)
                del said["color"]
                write_json({"process": number, "pid": pid, **said})
    return Seen.of(trip.World(folder=folder), pids, turn)


def _play(act: Act, number: int, folder: Path) -> int:
    """Run one process to its end; return its id."""
    program = [sys.executable, "-m", "windlass.cli.demo_trip"]
    command = [*program, str(folder), act.role, act.dies_in or ""]
    with _child(command) as child:
        try:
            exit_code = child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise NotAsTold(f"process {number} has not ended in {_PATIENCE_S} s") from None
    if exit_code != act.exit_code:
        raise NotAsTold(f"process {number} ended with {exit_code}, wanted {act.exit_code}")
    return child.pid


@contextlib.contextmanager
def _child(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process; whatever happens here, it is gone afterwards."""
    # Block Ctrl-C until the process is known here: raised inside Popen, it would leave an orphan.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = None
    try:
        # Its own session: Ctrl-C reaches this process, which then ends the child.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - this very program
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield child
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if child is not None:
            with child:
                if child.poll() is None:
                    child.kill()


async def _load(folder: Path) -> TurnView:
    """Return the turn as the file has it."""
    async with opened_store(Settings(store=trip.address(folder))) as rows:
        turn = await rows.load_turn(trip.SESSION, trip.TURN)
    if turn is None:
        raise NotAsTold("the turn is not in the store")
    return turn


# ---------------------------------------------------------------------- how it is shown


def _begin_table(*, plain: bool) -> Table:
    table = Table(sys.stdout, plain=plain)
    for line in _INTRO:
        table.say(line, "dim")
    table.say()
    table.head()
    return table


def _end_table(table: Table, seen: Seen, kept: Path | None) -> None:
    """Write the answer and the counts."""
    record = seen.record()
    killed = " and ".join(f"{each['pid']} in {each['in']}" for each in record["killed"])
    replies, key = record["replies"], table.cut(seen.keys[0], 14)
    times = {name: "1 time" if n == 1 else f"{n} times" for name, n in record["ran"].items()}
    table.say()
    table.tell("Question", trip.QUESTION)
    table.tell("Answer", seen.answer, "green")
    counts = f"""
processes   {len(seen.pids)}, killed with SIGKILL: {killed}
model       {replies["bought"]} calls, {replies["twice"]} of them repeated
look_up     pure    ran {times["look_up"]}
book        keyed   ran {times["book"]} under one key, {key}; bookings: {seen.bookings}
notify      once    ran {times["notify"]}, killed there, not run again; messages: {seen.messages}
pay         once    ran {times["pay"]}, after eva approved; payments: {len(seen.payers)}"""
    table.say(counts)
    table.say("(counted in files that the model and the tools append to)", "dim")
    if kept is not None:
        table.say(f"\nThe database and the counts are in {kept}.")


def _refuse(why: str, *, json: bool) -> None:
    """Write to standard error that something was not as told, as the other commands write errors."""
    if json:
        error = {"code": "not_as_told", "message": why, "field": None}
        write_json({"error": error}, sys.stderr)
    else:
        print(f"demo: {why}", file=sys.stderr)
