"""What a subagent costs above a turn without one: in commits, and in processor time.

Processor time is counted in bytecode instructions, those of reads included: a machine that is busy with other things takes
twice the time for the same work, and counts the same.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from bench.bars.turn_counts import StandingLoop
from bench.counts import instructions_by_file
from tests.scenarios.family import agent, asks
from windlass import Agent, Runtime
from windlass.engines.resting import Resting
from windlass.ports import InboxItem
from windlass.runtime.checkpoints import Checkpoints
from windlass.stores.sqlite.readers import Readers
from windlass.testing import say

A = TypeVar("A")
TURNS = 20
# Above a turn without children, which is one commit.
ONE_CHILD = 6
PER_CHILD_OF_TWENTY = 1.5
# As counted when it was last set, and 5 % more. The bar is 10 ms of processor time on a quiet machine.
CHILD_INSTRUCTIONS = 86_000
COUNTED = 6
SLACK = 1.0 if sys.version_info[:2] == (3, 11) else 1.5
# No renewal of the lease, which is a commit, falls into a turn.
LEASE_S = 3_600


def lead(n: int) -> Agent[Any, Any]:
    """Return an agent that asks `n` children at once, if that is any."""
    helper = agent("helper", say("Yes."))
    first = asks(*["helper"] * n) if n else say("Done.")
    return agent("lead", first, say("Done."), tools=[helper.as_tool()])


async def commits(folder: Path, n: int) -> list[int]:
    """Return the commits of each of some turns with `n` children."""
    found: list[int] = []
    async with Runtime(lead(n), store=str(folder / f"{n}.db"), lease_s=LEASE_S) as rt:
        store: Any = rt._services.store
        await rt.session("warm").run("Go", turn_id="t")
        for at in range(TURNS):
            before = store._writer.commits
            result = await rt.session(f"s{at}").run("Go", turn_id="t")
            found.append(store._writer.commits - before)
            assert result.text == "Done."
            assert result.child_usage.calls == n
    return found


async def test_one_child_costs_six_commits(tmp_path: Path) -> None:
    least, *_ = await commits(tmp_path, 0)
    assert least == 1
    assert max(await commits(tmp_path, 1)) - least <= ONE_CHILD


async def test_twenty_children_share_their_commits(tmp_path: Path) -> None:
    assert max(await commits(tmp_path, 20)) - 1 <= 20 * PER_CHILD_OF_TWENTY


async def test_a_child_that_looks_for_items_with_a_write_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The red proof: each turn that is taken up writes down what it did, and that it took nothing."""

    async def take(self: Checkpoints) -> tuple[InboxItem, ...]:
        self.has_items = False
        turn = self._turn
        await turn.lane.durable()
        return await turn.services.store.take_inbox(
            turn.session_id, turn.turn_id, generation=turn.generation, limit=1
        )

    monkeypatch.setattr(Checkpoints, "_take_items", take)
    monkeypatch.setattr("windlass.runtime.starting.Job.is_quiet", property(lambda _: False))
    assert max(await commits(tmp_path, 1)) - 1 > ONE_CHILD


# --- processor time ----------------------------------------------------------------------------


@pytest.fixture
def reads_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read on the loop's thread, where it is counted."""

    async def read(self: Readers, look: Callable[..., A], args: tuple[Any, ...]) -> A:
        return self.glance(look, args)

    monkeypatch.setattr(Readers, "read", read)


def instructions(folder: Path, n: int) -> int:
    """Count the bytecode instructions of a turn with `n` children: the least of some."""
    counts = []
    with asyncio.Runner(loop_factory=StandingLoop) as runner:
        loop = cast("StandingLoop", runner.get_loop())
        file = str(folder / f"{n}.db")
        rt = Runtime(lead(n), store=file, durability="process", lease_s=LEASE_S)

        async def one(session_id: str) -> None:
            assert (await rt.session(session_id).run("Go", turn_id="t")).text == "Done."

        runner.run(rt.__aenter__())
        try:
            runner.run(one("warm"))
            for at in range(COUNTED):
                task = loop.create_task(one(f"s{at}"))
                with loop.standing():
                    counts.append(instructions_by_file(partial(loop.run_until_complete, task)))
        finally:
            runner.run(rt.__aexit__(None))
    return min(counts, key=Counter.total).total()


def child_instructions(folder: Path) -> int:
    """Return what one child costs above a turn without one."""
    return instructions(folder, 1) - instructions(folder, 0)


@pytest.mark.usefixtures("reads_are_counted")
def test_one_child_costs_little_processor_time(tmp_path: Path) -> None:
    assert child_instructions(tmp_path) <= CHILD_INSTRUCTIONS * SLACK


@pytest.mark.usefixtures("reads_are_counted")
def test_a_caller_that_looks_again_and_again_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The red proof: a caller that waits for a turn with children looks at all of them four times."""
    look = Resting._look

    async def four_times(self: Resting, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as that one says
        for _ in range(3):
            await look(self, *given, **named)
        return await look(self, *given, **named)

    monkeypatch.setattr(Resting, "_look", four_times)
    assert child_instructions(tmp_path) > CHILD_INSTRUCTIONS
