"""What the kernel costs, in counts that are the same on every run: they are the gate, times are not.

Instructions differ between Python releases, so the budgets are exact for the one they were taken on.
That cost does not grow with the history holds on every release.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import pytest

from bench.counts import count_instructions, peak_bytes
from bench.turns import (
    Answers,
    answers,
    history,
    machine_at,
    poll_iteration,
    requests_from,
    run_iteration,
)
from windlass.kernel import Action, DriverView, StandardDriver, TurnMachine, canonical

SHORT = 10
LONG = 2_000

# Bytecode instructions on 3.11, 5 % above what was counted when they were last set.
BUDGET_PYTHON = (3, 11)
ITERATION_BUDGET = 2_680
POLLED_BUDGET = 3_048
DIGEST_BUDGET = 185
SNAPSHOT_BUDGET = 129

# Other releases count other instructions; a change for the worse still shows.
OTHER_PYTHONS = 1.5

# A list of 2,000 is 16 kB; an iteration that copies one is far over this.
MAX_MORE_BYTES = 1_024

Count = Callable[[Callable[[], object]], int]


def on_this_python(budget: float) -> float:
    return budget * (1 if sys.version_info[:2] == BUDGET_PYTHON else OTHER_PYTHONS)


def iterations(
    machine: TurnMachine, run: Callable[[TurnMachine, Answers], None] = run_iteration
) -> Iterator[Callable[[], None]]:
    """Pieces of work: one iteration each, after a first that reads the history once."""
    told = list(islice(answers(), 10))
    run(machine, told[0])
    for each in told[1:]:
        yield lambda each=each: run(machine, each)  # type: ignore[misc]


def iteration_cost(n: int, count: Count = count_instructions, driver: object = None) -> float:
    machine = machine_at(history(n), driver)  # type: ignore[arg-type]
    # The median: now and then a list has to grow, and is moved as a whole.
    return statistics.median(count(work) for work in iterations(machine))


def polled_cost(n: int, count: Count = count_instructions) -> float:
    """What an iteration costs when every effect is polled and progress is told."""
    machine = machine_at(history(n), progress=True)
    return statistics.median(count(work) for work in iterations(machine, poll_iteration))


def digest_cost(n: int, count: Count = count_instructions) -> float:
    requests = list(islice(requests_from(n - 1), 8))
    canonical.digest(requests[0])
    return statistics.median(
        count(lambda request=request: canonical.digest(request))  # type: ignore[misc]
        for request in requests[1:]
    )


def snapshot_cost(n: int, count: Count = count_instructions) -> float:
    machine = machine_at(history(n))
    for work in iterations(machine):
        work()
    return statistics.median(count(machine.snapshot) for _ in range(5))


COSTS = [
    pytest.param(iteration_cost, ITERATION_BUDGET, id="iteration"),
    pytest.param(polled_cost, POLLED_BUDGET, id="polled"),
    pytest.param(digest_cost, DIGEST_BUDGET, id="digest"),
    pytest.param(snapshot_cost, SNAPSHOT_BUDGET, id="snapshot"),
]


@pytest.mark.parametrize(("cost", "budget"), COSTS)
def test_it_stays_within_its_budget(cost: Callable[[int], float], budget: int) -> None:
    assert cost(SHORT) <= on_this_python(budget)


@pytest.mark.parametrize(("cost", "budget"), COSTS)
def test_it_costs_the_same_at_any_length(cost: Callable[[int], float], budget: int) -> None:
    assert cost(LONG) == pytest.approx(cost(SHORT), rel=0.01)


@pytest.mark.parametrize(("cost", "budget"), COSTS)
def test_it_copies_nothing_that_grows(cost: Callable[[int, Count], float], budget: int) -> None:
    """Instructions do not see a copy made in C; the memory for it does."""
    assert cost(LONG, peak_bytes) <= cost(SHORT, peak_bytes) + MAX_MORE_BYTES


@pytest.mark.parametrize(("cost", "budget"), COSTS)
def test_a_count_comes_out_the_same_every_time(cost: Callable[[int], float], budget: int) -> None:
    assert cost(SHORT) == cost(SHORT)


# --- the faults that turn it red ---------------------------------------------------------------


class WalkingDriver(StandardDriver):
    """Looks at every message of the history, each iteration."""

    def prepare(self, view: DriverView) -> list[Action]:
        for message in view.messages:
            assert message.id
        return super().prepare(view)


class CopyingDriver(StandardDriver):
    """Copies the history, each iteration."""

    def prepare(self, view: DriverView) -> list[Action]:
        copied: Sequence[object] = tuple(view.messages)
        return super().prepare(view) if copied else []


def test_a_walk_over_the_history_is_seen() -> None:
    short, long = (iteration_cost(n, driver=WalkingDriver()) for n in (SHORT, LONG))

    assert long > 1.5 * short


def test_more_work_in_each_iteration_breaks_the_budget() -> None:
    n_walked = 1_000
    assert iteration_cost(n_walked, driver=WalkingDriver()) > on_this_python(ITERATION_BUDGET)


def test_a_copy_of_the_history_is_seen_in_memory_only() -> None:
    driver = CopyingDriver()

    assert iteration_cost(LONG, driver=driver) == pytest.approx(
        iteration_cost(SHORT, driver=driver), rel=0.01
    )
    more = iteration_cost(LONG, peak_bytes, driver) - iteration_cost(SHORT, peak_bytes, driver)
    assert more > 8 * MAX_MORE_BYTES
