"""What a replay costs, in processor time and in counts that are the same on every run: the gate, and faults that it sees."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, cast

import pytest

from bench.bars.turn_counts import StandingLoop
from bench.counts import count_instructions
from tests.perf.test_turn_counts import on_this_python
from tests.runtime import played
from tests.runtime.replays import Kept
from tests.scenarios.stage import Stage
from windlass import Agent, Limits
from windlass.kernel import TurnMachine
from windlass.runtime.replaying import replay
from windlass.testing import call, say

N_CALLS = 10
"""Of a turn with about 20 effects."""
MAX_S = 0.005
TRIES = 9
COUNTS = 2
# Bytecode instructions on 3.11, 5 % above what was counted when it was last set.
ITERATION_BUDGET = 5_310
MAX_MORE = 1.05


def turn_of(folder: Path, n_calls: int) -> Kept:
    """Return a finished turn with so many calls, one after the other."""
    replies = [*[call("send")] * n_calls, say("Done.")]
    agent = played.agent(*replies, limits=Limits(max_iterations=None))
    return asyncio.run(_played(folder, agent))


async def _played(folder: Path, agent: Agent[None, Any]) -> Kept:
    return await played.one(Stage("memory", folder), agent)


def processor_s(turn: Kept) -> float:
    """Return the least of some replays: the others were met by something else."""

    async def replays() -> float:
        took_s = []
        for _ in range(TRIES):
            began_s = process_time()
            await replay(turn.program, turn.view, turn.session)
            took_s.append(process_time() - began_s)
        return min(took_s)

    return asyncio.run(replays())


def instructions(turn: Kept) -> int:
    """Return what a replay executes, once all that an agent does once is done.

    The least of some is returned: the others were met by something else, such as a garbage collection.
    """
    counts = []
    with asyncio.Runner(loop_factory=StandingLoop) as runner:
        loop = cast("StandingLoop", runner.get_loop())
        runner.run(replay(turn.program, turn.view, turn.session))
        for _ in range(COUNTS):
            counted = loop.create_task(replay(turn.program, turn.view, turn.session))
            with loop.standing():
                counts.append(count_instructions(partial(loop.run_until_complete, counted)))
    return min(counts)


def iteration_instructions(folder: Path, n_calls: int) -> float:
    """Return what one iteration of a replay executes, in a turn of so many."""
    short, long = turn_of(folder, n_calls), turn_of(folder, 2 * n_calls)
    return (instructions(long) - instructions(short)) / n_calls


def test_a_turn_of_twenty_effects_replays_in_five_milliseconds(tmp_path: Path) -> None:
    turn = turn_of(tmp_path, N_CALLS)
    found = asyncio.run(replay(turn.program, turn.view, turn.session))

    assert (found.effects, found.is_same) == (2 * N_CALLS + 1, True)
    assert processor_s(turn) <= MAX_S


def test_an_iteration_of_a_replay_stays_within_its_budget(tmp_path: Path) -> None:
    assert iteration_instructions(tmp_path, N_CALLS) <= on_this_python(ITERATION_BUDGET)


def test_an_iteration_of_a_replay_costs_the_same_in_a_long_turn(tmp_path: Path) -> None:
    few = iteration_instructions(tmp_path, N_CALLS)
    many = iteration_instructions(tmp_path, 8 * N_CALLS)

    assert many <= MAX_MORE * few


# --- faults ------------------------------------------------------------------------------------


def test_a_replay_that_begins_anew_at_each_effect_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, advance = turn_of(tmp_path, N_CALLS), TurnMachine.advance

    def slow(self: TurnMachine, events: list[object]) -> object:
        for _ in range(len(self.messages) * 2_000):
            pass
        return advance(self, events)  # type: ignore[arg-type]  # as it is

    monkeypatch.setattr(TurnMachine, "advance", slow)

    assert processor_s(turn) > MAX_S


def test_a_walk_through_the_turn_at_each_effect_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = TurnMachine.advance

    def walking(self: TurnMachine, events: list[object]) -> object:
        for message in self.messages:
            len(message.parts)
        return advance(self, events)  # type: ignore[arg-type]  # as it is

    monkeypatch.setattr(TurnMachine, "advance", walking)
    few = iteration_instructions(tmp_path, N_CALLS)

    assert iteration_instructions(tmp_path, 8 * N_CALLS) > MAX_MORE * few
