"""The demo: one turn, each step in a process of its own, one of them killed in the middle of a tool.

Law 1. What is printed was seen: process ids and signals by waiting for the process, counts in files
    that others wrote. Where it is not as claimed, the demo says so and ends with 1.

Usage: python -m windlass.cli.demo [--plain] [--steps-dir DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from windlass.cli import trip
from windlass.cli.one_step import SNAPSHOT, Note
from windlass.cli.timeline import Style, Timeline
from windlass.kernel import canonical

EXIT_NOT_AS_CLAIMED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_PIPE_CLOSED = 128 + signal.SIGPIPE

# The turn takes 11; one that has not ended by then is not going to.
_MAX_STEPS = 30

_INTRO = (
    "One turn of an agent on the bare machine: no key, no server, no network. The model is a stand-in,",
    "a few rules that read the request. Each step runs in a process of its own; between two steps only",
    "bytes in a file are left. One process is killed in the middle of a tool.",
)
_NOT_YET = (
    "Not yet: the bare machine keeps no journal and knows no effect contracts. It asked for the killed",
    "tool again and could not know whether it had acted. Here it had not; the runtime has to make sure.",
)


class NotAsClaimed(Exception):
    """The demo saw something else than it promises."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One process and what became of it."""

    number: int
    pid: int
    asked: Note
    answered: Note | None
    exit_code: int

    @property
    def was_killed(self) -> bool:
        """Whether it ended by SIGKILL."""
        return self.exit_code == -signal.SIGKILL


@contextlib.contextmanager
def _child(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start one step; whatever happens here, it is gone afterwards."""
    # Ctrl-C waits until the process is known here: raised inside Popen, it would leave an orphan.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = None
    try:
        child = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", "windlass.cli.one_step", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for this process, which then ends the child.
            start_new_session=True,
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield child
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if child is not None:
            with child:
                if child.poll() is None:
                    child.kill()


def _take_step(number: int, folder: Path, *, kill_in_tool: bool) -> Step:
    """Run one step in its own process; kill it as soon as it is in the middle of `book`."""
    notes: dict[str, Note] = {}
    wanted = 0
    with _child(folder) as child:
        assert child.stdin is not None  # noqa: S101 - asked for above
        assert child.stdout is not None  # noqa: S101 - asked for above
        for line in child.stdout:
            note = canonical.decode(line.rstrip(b"\n"), Note)
            notes[note.stage] = note
            if note.stage == "in_tool" and kill_in_tool:
                child.kill()
                wanted = -signal.SIGKILL
            elif note.stage == "in_tool":
                child.stdin.write(b"the desk says yes\n")
                child.stdin.flush()
        exit_code = child.wait()
    if exit_code != wanted:
        raise NotAsClaimed(
            f"step {number} (pid {child.pid}) ended with {exit_code}, wanted {wanted}"
        )
    return Step(
        number=number,
        pid=child.pid,
        asked=notes["asked"],
        answered=notes.get("answered"),
        exit_code=exit_code,
    )


def _run_turn(folder: Path, screen: Timeline, *, keep: bool) -> list[Step]:
    steps: list[Step] = []
    for number in range(1, _MAX_STEPS + 1):
        killed = [step for step in steps if step.was_killed]
        step = _take_step(number, folder, kill_in_tool=not killed)
        _show(step, screen, again=bool(steps) and steps[-1].was_killed)
        steps.append(step)
        if keep and step.answered is not None:
            shutil.copyfile(folder / SNAPSHOT, folder / f"step-{number:02}.json")
        if step.answered is not None and step.answered.is_done:
            return steps
    raise NotAsClaimed(f"the turn has not ended after {_MAX_STEPS} steps")


def _show(step: Step, screen: Timeline, *, again: bool) -> None:
    asked = step.asked
    cells = (str(step.number), str(step.pid), str(asked.effect_id), asked.text)
    if step.answered is None:
        mark = "✗ " if screen.style.unicode else "x "
        words = f"{mark}KILLED (signal {-step.exit_code}), no answer"
        screen.row(*cells, words, "as above", color="red")
        return
    if again:
        mark = "↻ " if screen.style.unicode else "> "
        cells = (*cells[:3], f"{mark}{asked.text}, asked again")
    color: Literal["yellow", "cyan"] | None = "yellow" if again else None
    if asked.text.startswith("call the model"):
        color = "cyan"
    screen.row(*cells, step.answered.text, f"{step.answered.n_bytes:,} B", color=color)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def check(steps: Sequence[Step], bought: Counter[str], tools: Counter[str]) -> None:
    """Compare what was seen with what the demo claims.

    Raises:
        NotAsClaimed: naming the claim.
    """
    killed = [at for at, step in enumerate(steps) if step.was_killed]
    claims = {
        "exactly one process was killed": len(killed) == 1,
        "no request was sent to the model twice": max(bought.values(), default=0) == 1,
        "the killed tool had not acted, and acted once": tools["acted book"] == 1,
        "every step had a process of its own": len({step.pid for step in steps}) == len(steps),
    }
    if len(killed) == 1:
        before, after = steps[killed[0]], steps[killed[0] + 1]
        claims["the effect came again, id and payload the same"] = (
            before.asked.effect_digest == after.asked.effect_digest
        )
    broken = [claim for claim, holds in claims.items() if not holds]
    if broken:
        raise NotAsClaimed(f"this does not hold: {'; '.join(broken)}")


def _sum_up(folder: Path, steps: Sequence[Step], screen: Timeline) -> None:
    bought = Counter(_lines(folder / trip.CALLS_FILE))
    tools = Counter(_lines(folder / trip.TOOLS_FILE))
    check(steps, bought, tools)
    killed = next(step for step in steps if step.was_killed)
    last = steps[-1].answered
    again = sum(bought.values()) - len(bought)
    started = ", ".join(
        f"{tool.name} {tools[f'started {tool.name}']}" for tool in trip.CONFIG.tools
    )
    screen.say()
    screen.say(f"Question   {trip.QUESTION}")
    screen.say(f"Answer     {last.answer if last is not None else ''}", "green")
    screen.say()
    screen.say(f"processes: {len(steps)}, killed: 1 (pid {killed.pid} in the middle of book)")
    screen.say(f"model calls bought: {sum(bought.values())}, bought again: {again}")
    screen.say(f"tools started: {started}; bookings made: {tools['acted book']}")
    screen.say(f"effect {killed.asked.effect_id} came again with the same id and an equal payload")
    screen.say("(counted in files that the stand-in and the tools append to)", "dim")
    screen.say()
    for line in _NOT_YET:
        screen.say(line, "yellow")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m windlass.cli.demo",
        description="One turn of an agent, each step in its own process, one of them killed.",
    )
    parser.add_argument("--plain", action="store_true", help="no colors, plain ASCII")
    parser.add_argument(
        "--steps-dir",
        type=Path,
        metavar="DIR",
        help="keep the snapshots and counts here (DIR is new or empty)",
    )
    options = parser.parse_args(argv)
    folder: Path | None = options.steps_dir
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                parser.error(f"argument --steps-dir: {folder} is not empty")
        except OSError as error:
            parser.error(f"argument --steps-dir: {folder}: {error.strerror}")
    return options


def run(options: argparse.Namespace, screen: Timeline) -> int:
    """Show the turn; 0, or 1 if anything was not as claimed."""
    for line in _INTRO:
        screen.say(line, "dim")
    screen.say()
    screen.head()
    with contextlib.ExitStack() as stack:
        folder: Path = options.steps_dir or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-demo-"))
        )
        try:
            steps = _run_turn(folder, screen, keep=options.steps_dir is not None)
            _sum_up(folder, steps, screen)
        except NotAsClaimed as refusal:
            print(f"demo: {refusal}", file=sys.stderr)
            return EXIT_NOT_AS_CLAIMED
    if options.steps_dir is not None:
        screen.say(f"\nSnapshots are in {options.steps_dir}.")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code."""
    options = _arguments(argv)
    screen = Timeline(sys.stdout, Style.of(sys.stdout, plain=options.plain))
    try:
        return run(options, screen)
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) went away. Nothing more may be flushed there at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED


if __name__ == "__main__":
    raise SystemExit(main())
