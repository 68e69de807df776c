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

from windlass.api.adapters import open_store
from windlass.cli import trip
from windlass.cli.demo_screen import ForPeople, ForPrograms, Screen
from windlass.cli.demo_seen import ACTS, Act, Seen
from windlass.cli.story import Line, Story
from windlass.ports import TurnView

EXIT_NOT_AS_TOLD = 1
# Each process needs a second or so; one that has not ended by then is not going to.
_PATIENCE_S = 60


class NotAsTold(Exception):
    """The demo saw something else than it tells."""


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


def _perform(folder: Path, screen: Screen) -> Seen:
    """Play all acts and show each when it is over."""
    story = Story()
    pids: list[int] = []
    for number, act in enumerate(ACTS, start=1):
        pid = _play(act, number, folder.absolute())
        pids.append(pid)
        turn = asyncio.run(_load(folder))
        screen.process(number, pid, act.title)
        recorded = story.recorded()
        if recorded and act.role == "go-on":
            screen.line(
                Line(
                    what="journal",
                    asked="what was asked before",
                    answered=recorded,
                    how="as recorded, not run",
                    color="dim",
                )
            )
        for line in story.lines(turn, killed=act.dies_in is not None):
            screen.line(line)
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


def run(folder: Path | None, *, plain: bool, json: bool = False) -> int:
    """Show the turn; 0, or 1 if anything was not as told. Without a folder, nothing is kept."""
    screen = ForPrograms() if json else ForPeople(plain=plain)
    screen.begin()
    with contextlib.ExitStack() as stack:
        kept = folder
        if folder is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-demo-"))
            folder = Path(made)
        try:
            seen = _perform(folder, screen)
            check(seen)
        except NotAsTold as refusal:
            screen.refuse(str(refusal))
            return EXIT_NOT_AS_TOLD
        screen.end(seen, kept)
    return 0
