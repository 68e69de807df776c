"""Turns are watched while the processes that drive and observe them are killed: each fact is told once, in its order.

A driver is killed by SIGKILL before and after each of its writes; an observer at each fact that it sees, noted or not.
Another goes on by the last cursor that was noted, every second one in the process that drives. What all of them noted is
compared with what the file tells at the end: `tests.durability.watched.verdict` has the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.durability.soak.ledger import Line
from tests.durability.watched.observer import Watch, ledger_of
from tests.durability.watched.rounds import Kill, Nurseries, Plan, Played
from tests.durability.watched.verdict import dangling, judge
from tests.limits import times

N_RANDOM = times(6)
N_KILLS = 5
# How often a planted fault is looked for.
MOST_PLAYED = 10
LONGEST_S = 1.2
PATIENCE_S = 3.0
WRITES = (
    "join 1", "accept 1", "accept 2", "claim 1", *(f"unit of first {n}" for n in range(1, 7)), "release 1",
    "claim 2", *(f"unit of first {n}" for n in range(7, 11)), "claim 3", *(f"unit of second {n}" for n in range(1, 4)),
    "leave 1",
)  # fmt: skip
POINTS = [f"{when} {write}" for write in WRITES for when in ("before", "after")]


def check(rounds: Iterable[Played]) -> int:
    """Judge rounds; return how many processes were killed."""
    red, kills = {}, 0
    for played in rounds:
        verdict = asyncio.run(judge(played.folder))
        kills += played.kills
        if verdict.findings or not played.is_over:
            red[played.folder.name] = verdict.findings
    assert red == {}
    return kills


def said_nothing(nurseries: Nurseries) -> bool:
    """Whether no process complained."""
    return not any(log.read_text() for log in nurseries.logs)


def one_by_one(first: int, dies_at: int, *, is_noted: bool) -> Iterator[Watch]:
    """Yield observers that die at this fact of theirs, every second in the driving process."""
    for at in count(first):
        yield Watch(place="driver" if at % 2 else "elsewhere", dies_at=dies_at, is_noted=is_noted)


def varied(number: int) -> Iterator[Watch]:
    """Yield observers that live for some facts, or in the driving process for some events."""
    for at in count(number):
        yield Watch(
            place="driver" if at % 2 else "elsewhere",
            dies_at=2 + (5 * at + number) % 7,
            counts="events" if at % 4 == 1 else "facts",
            is_noted=at % 3 > 0,
            is_restless=at % 5 < 2,
        )


@pytest.mark.slow
def test_each_fact_is_told_once_though_the_driver_is_killed_at_any_write(tmp_path: Path) -> None:
    with Nurseries(tmp_path) as nurseries:
        whole = nurseries.play(tmp_path / "whole", Plan())
        lines = ledger_of(tmp_path / "whole").lines("point")
        assert sorted(line.said["at"] for line in lines) == sorted(POINTS)
        played = [whole]
        for number, point in enumerate(POINTS):
            plan = Plan(dies_at=point, watches=varied(number))
            played.append(nurseries.play(tmp_path / point, plan))
            deaths = ledger_of(tmp_path / point).lines("dies")
            assert point in [line.said["at"] for line in deaths]
    assert check(played) > 2 * len(POINTS)
    assert said_nothing(nurseries)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_each_fact_is_told_once_though_the_observer_is_killed_at_every_fact(
    tmp_path: Path, first: int
) -> None:
    with Nurseries(tmp_path) as nurseries:
        noted = one_by_one(first, 1, is_noted=True)
        unnoted = one_by_one(first, 2, is_noted=False)
        played = [
            nurseries.play(tmp_path / "noted", Plan(watches=noted)),
            nurseries.play(tmp_path / "unnoted", Plan(watches=unnoted)),
        ]
    # 20 facts: one observer for each; and of the others one less, because the last never sees a second.
    assert check(played) == 20 + 19
    assert said_nothing(nurseries)


@pytest.mark.slow
@pytest.mark.timeout(times(120))
def test_each_fact_is_told_once_whenever_drivers_and_observers_are_killed(tmp_path: Path) -> None:
    played = []
    with Nurseries(tmp_path) as nurseries:
        for seed in range(N_RANDOM):
            random = Random(seed)
            roles = ["driver", "observer"] * N_KILLS
            kills = sorted(Kill(random.uniform(0.0, LONGEST_S), role) for role in roles)
            plan = Plan(kills=tuple(kills), watches=varied(seed))
            played.append(nurseries.play(tmp_path / str(seed), plan))
    assert check(played) >= N_RANDOM * N_KILLS
    assert said_nothing(nurseries)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "plan", "finding"),
    [
        ("starts_now", Plan(watches=one_by_one(0, 1, is_noted=True)), "never told: ModelFinished"),
        ("forgets_waits", Plan(), "never told: WaitOpened"),
        ("misses_waits", Plan(), "never told: WaitResolved"),
        ("hands_out_old_cursors", Plan(watches=one_by_one(0, 2, is_noted=True)), "told twice"),
        (
            "shows_at_once",
            Plan(dies_at="before unit of first 2", watches=[Watch(place="driver")]),
            "failed",
        ),
    ],
)
def test_the_verdict_notices_what_goes_wrong_for_those_who_watch(
    tmp_path: Path, mutant: str, plan: Plan, finding: str
) -> None:
    plan = plan._replace(mutant=mutant, patience_s=PATIENCE_S)
    with Nurseries(tmp_path) as nurseries:
        # On a busy machine a driver may die before its observer has noted what it was shown.
        for at in range(MOST_PLAYED):
            played = nurseries.play(tmp_path / str(at), plan)
            findings = asyncio.run(judge(played.folder)).findings
            if any(found.startswith(finding) for found in findings):
                return
    pytest.fail(f"{mutant} was not noticed in {MOST_PLAYED} plays: {findings}")


def shown(kind: str, **said: object) -> Line:
    """Return a line of a ledger."""
    about = {"type": kind, "preview": True, "about": "", "retracts": [], **said}
    return Line("event", "one", 1, 0.0, "", "", about)


HERE = Line("watches", "one", 1, 0.0, "", "", {})
ELSEWHERE = Line("watches", "other", 2, 0.0, "", "", {})
WORDS = shown("TextDelta", about="c1")


@pytest.mark.parametrize(
    ("behind", "left"),
    [
        ([], ["left over: TextDelta of c1"]),
        ([shown("ModelFinished", about="c2", preview=False)], ["left over: TextDelta of c1"]),
        ([shown("ModelFinished", about="c1", preview=False)], []),
        ([shown("Retracted", retracts=["c1"])], []),
        ([shown("Recovered")], []),
        ([HERE], ["left over: TextDelta of c1"]),
        ([ELSEWHERE], []),
    ],
)
def test_a_preview_is_held_until_its_call_has_ended_or_it_is_dropped(
    behind: list[Line], left: list[str]
) -> None:
    assert list(dangling([HERE, WORDS, *behind])) == left
