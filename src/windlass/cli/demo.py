"""The demo: one turn of an agent, killed twice, approved from outside, and finished all the same.

Law 1. What is printed was seen: signals by waiting for the process, lines of the table in the store,
    counts in files that the model and the tools append to. Where it is not as told, the demo says so
    and ends with 1.
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
from typing import Literal

import msgspec

from windlass.api.adapters import open_store
from windlass.cli import trip
from windlass.cli.story import Story
from windlass.cli.timeline import Style, Timeline
from windlass.kernel import Finished
from windlass.ports import TurnView

EXIT_NOT_AS_TOLD = 1
# Each process needs a second or so; one that has not ended by then is not going to.
_PATIENCE_S = 60

Role = Literal["start", "go-on", "approve"]

_INTRO = (
    "One turn of an agent on one SQLite file: no key, no server, no network. The model is a few rules.",
    "Processes come and go, and two of them are killed after their tool acted and before it answered.",
    "The lines are read back from the store when a process has ended.",
)


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is for."""

    role: Role
    title: str
    dies_in: str | None = None

    @property
    def exit_code(self) -> int:
        """How it has to end."""
        return 0 if self.dies_in is None else -signal.SIGKILL


ACTS = (
    Act(role="start", title="is asked, and starts the turn", dies_in="book"),
    Act(role="go-on", title="opens the file; nobody asks again", dies_in="notify"),
    Act(role="go-on", title="opens the file"),
    Act(role="approve", title="has no agent; eva says yes"),
    Act(role="go-on", title="opens the file"),
)


class NotAsTold(Exception):
    """The demo saw something else than it tells."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to count when all is over: processes by id, and the lines of the world's files."""

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


@contextlib.contextmanager
def _child(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process; whatever happens here, it is gone afterwards."""
    # Ctrl-C waits until the process is known here: raised inside Popen, it would leave an orphan.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = None
    try:
        # Ctrl-C is for this process, which then ends the child.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - this very program
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield child
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if child is not None:
            with child:
                if child.poll() is None:
                    child.kill()


def _play(act: Act, number: int, folder: Path) -> int:
    """Let one process do its part; return its id."""
    command = [sys.executable, "-m", "windlass.cli.demo_worker", str(folder), act.role]
    if act.dies_in is not None:
        command += ["--dies-in", act.dies_in]
    with _child(command) as child:
        try:
            exit_code = child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise NotAsTold(f"process {number} has not ended in {_PATIENCE_S} s") from None
    if exit_code != act.exit_code:
        raise NotAsTold(f"process {number} ended with {exit_code}, wanted {act.exit_code}")
    return child.pid


async def _load(folder: Path) -> TurnView:
    """Return the turn as it stands in the file."""
    store = open_store(trip.address(folder), "power")
    await store.open()
    try:
        turn = await store.load_turn(trip.SESSION, trip.TURN)
    finally:
        await store.close()
    if turn is None:
        raise NotAsTold("the turn is not in the store")
    return turn


def _perform(folder: Path, screen: Timeline) -> Seen:
    """Play all acts and show each when it is over."""
    story = Story()
    pids: list[int] = []
    for number, act in enumerate(ACTS, start=1):
        pid = _play(act, number, folder.absolute())
        pids.append(pid)
        turn = asyncio.run(_load(folder))
        screen.say(f"process {number}, pid {pid}: {act.title}", "bold")
        recorded = story.recorded()
        if recorded and act.role == "go-on":
            screen.row(
                "journal", "what was asked before", recorded, "as recorded, not run", color="dim"
            )
        killed = act.dies_in is not None
        for line in story.lines(turn, killed=killed):
            mark = screen.style.sign("✗ ", "x ") if line.color == "red" else ""
            screen.row(line.what, line.asked, mark + line.answered, line.how, color=line.color)
    return Seen.of(trip.World(folder=folder), pids, turn)


def check(seen: Seen) -> None:
    """Compare what was seen with what the demo tells.

    Raises:
        NotAsTold: naming what does not hold.
    """
    bought = Counter(seen.model)
    claims = {
        "every process was another one": len(set(seen.pids)) == len(ACTS),
        "5 requests went to the model, none of them twice": len(seen.model) == len(bought) == 5,
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


def _times(count: int) -> str:
    return "1 time" if count == 1 else f"{count} times"


def _sum_up(seen: Seen, screen: Timeline) -> None:
    screen.say()
    screen.tell("Question", trip.QUESTION)
    screen.tell("Answer", seen.answer, "green")
    screen.say()
    killed = [f"{seen.pids[at]} in {act.dies_in}" for at, act in enumerate(ACTS) if act.dies_in]
    screen.say(f"processes   {len(seen.pids)}, killed with SIGKILL: {' and '.join(killed)}")
    again = len(seen.model) - len(set(seen.model))
    screen.say(f"model       {len(seen.model)} replies bought, {again} of them twice")
    ran = Counter(seen.tools)
    screen.say(f"look_up     pure    ran {_times(ran['look_up'])}")
    key = screen.style.cut(seen.keys[0], 14)
    screen.say(
        f"book        keyed   ran {_times(ran['book'])} under one key, {key}; bookings: {seen.bookings}"
    )
    screen.say(
        f"notify      once    ran {_times(ran['notify'])}, killed there, never again; messages: {seen.messages}"
    )
    screen.say(
        f"pay         once    ran {_times(ran['pay'])}, after eva said yes; payments: {len(seen.payers)}"
    )
    screen.say("(counted in files that the model and the tools append to)", "dim")


def run(folder: Path | None, *, plain: bool) -> int:
    """Show the turn; 0, or 1 if anything was not as told. Without a folder, nothing is kept."""
    screen = Timeline(sys.stdout, Style.of(sys.stdout, plain=plain))
    for line in _INTRO:
        screen.say(line, "dim")
    screen.say()
    screen.head()
    with contextlib.ExitStack() as stack:
        kept = folder
        if folder is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-demo-"))
            folder = Path(made)
        try:
            seen = _perform(folder, screen)
            check(seen)
        except NotAsTold as refusal:
            print(f"demo: {refusal}", file=sys.stderr)
            return EXIT_NOT_AS_TOLD
        _sum_up(seen, screen)
    if kept is not None:
        screen.say(f"\nThe database and the counts are in {kept}.")
    return 0
