"""What it costs to take up a session that was not here, in counts: per message little, per older frame nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from tests.limits import HANGS_S
from tests.plugins.long_sessions.gauges import Instructions
from tests.scenarios.stage import Stage
from tests.scenarios.summing import Summing
from windlass import Agent, tool
from windlass.kernel import canonical

# Turns of two messages each: a digest is stored every 64 messages.
SHORT, LONG = 40, 240
FEW, MANY = 2, 12

# Bytecode instructions on 3.11 for each message on the loop's thread, 10 % above what was counted.
BUDGET_PYTHON = (3, 11)
READ_BUDGET = 212
OTHER_PYTHONS = 1.5
MOST_HASHED = 70
MOST_MORE = 1.05


def asking() -> Agent[None, str]:
    @tool(effect="once", approval="ask")
    async def work(n: int) -> str:
        """Work."""
        return f"worked {n}"

    return Agent("asking", model=Summing().model, tools=[work], instructions="Be brief.")


class Hashed:
    """Counts the messages that are hashed into a chain."""

    n = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is canonical.link.__code__:
            self.n += 1


async def first_turn(stage: Stage, n_turns: int, gauge: Instructions | Hashed) -> int:
    """Return what the first turn of a process costs in a session with so many."""
    async with stage.runtime(asking()) as rt:
        for _ in range(n_turns):
            await rt.session("s").run("Hello.")
    async with stage.runtime(asking()) as rt:
        await rt.session("other").run("Hello.")
        with gauge.counting():
            await rt.session("s").run("And now?")
    return gauge.n


async def answered(stage: Stage, frames: int) -> int:
    """Return what it costs to go on with a turn of another process, in a session with so many frames."""
    gauge = Instructions()
    async with stage.runtime(asking()) as rt:
        session = rt.session("s")
        for _ in range(frames):
            for _ in range(5):
                await session.run("Hello.")
            await session.compact()
        parked = await session.run("Now work.", turn_id="t")
    async with stage.runtime(asking()) as rt:
        await rt.session("other").run("Hello.")
        with gauge.counting():
            await rt.approve(parked.waits[0].key)
            done = await rt.turn("s", "t").result(timeout=HANGS_S)
    assert done.text == "worked"
    return gauge.n


async def test_a_message_that_is_read_is_looked_at_once(tmp_path: Path) -> None:
    short = await first_turn(Stage("memory", tmp_path), SHORT, Instructions())
    long = await first_turn(Stage("memory", tmp_path), LONG, Instructions())

    exact = sys.version_info[:2] == BUDGET_PYTHON
    budget = READ_BUDGET * (1 if exact else OTHER_PYTHONS)
    assert (long - short) / (2 * (LONG - SHORT)) <= budget


@pytest.mark.parametrize(("kind", "n_turns"), [("memory", LONG), ("sqlite", SHORT)])
async def test_whoever_reads_a_session_hashes_its_last_messages_alone(
    tmp_path: Path, kind: str, n_turns: int
) -> None:
    assert 0 < await first_turn(Stage(kind, tmp_path), n_turns, Hashed()) <= MOST_HASHED


async def test_an_answer_costs_the_same_however_many_frames_there_were(tmp_path: Path) -> None:
    few = await answered(Stage("memory", tmp_path), FEW)
    many = await answered(Stage("memory", tmp_path), MANY)

    assert many <= few * MOST_MORE
