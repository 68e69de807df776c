"""The workloads themselves: the script says the same to everybody, and a floor does all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.workloads.candidate import Candidate, opened
from bench.workloads.floor import Floor
from bench.workloads.gauges import Reading, measured_turn, medians
from bench.workloads.script import ANSWER, TEXT, Diary, Script, loop, n_calls_of, par, question


def test_the_reply_follows_from_the_question_and_its_results_alone() -> None:
    script = Script()

    assert script.reply(question(TEXT), 0, 1) == ANSWER
    assert script.reply(question(loop(2)), 0, 1) == [{"i": 0}]
    assert script.reply(question(loop(2)), 1, 3) == [{"i": 1}]
    assert script.reply(question(loop(2)), 2, 5) == ANSWER
    assert script.reply(question(par(3)), 0, 1) == [{"i": 0}, {"i": 1}, {"i": 2}]
    assert script.reply(question(par(3)), 3, 5) == ANSWER
    assert Script().reply(question(loop(2)), 1, 3) == [{"i": 1}]


@pytest.mark.parametrize(("plan", "n"), [(TEXT, 0), (loop(20), 20), (par(7), 7)])
def test_a_question_has_200_characters_and_tells_its_calls(plan: str, n: int) -> None:
    assert len(question(plan)) == 200
    assert n_calls_of(question(plan)) == n


async def test_a_diary_tells_what_ran_in_order(tmp_path: Path) -> None:
    script = Script(tmp_path / "diary.txt")

    script.reply(question(loop(1)), 0, 1)
    await script.run_tool(0)

    diary = Diary(tmp_path / "diary.txt")
    assert [(kind, number) for kind, number, _ in diary.lines] == [
        ("model", 0), ("start", 0), ("end", 0),
    ]  # fmt: skip
    assert diary.moment_ns("start", "end") == diary.lines[1][2]
    assert Diary(tmp_path / "none.txt").lines == []


@pytest.mark.parametrize("variant", ["full", "group", "memory"])
@pytest.mark.parametrize("plan", [TEXT, loop(3), par(3)])
async def test_a_floor_does_every_call(variant: str, plan: str, tmp_path: Path) -> None:
    async with opened(Floor(variant, tmp_path)) as floor:
        await measured_turn(floor, "s", question(plan))


@pytest.mark.parametrize(("plan", "commits"), [(TEXT, 2), (loop(20), 42), (par(20), 23)])
async def test_a_floor_commits_each_step(plan: str, commits: int, tmp_path: Path) -> None:
    async with opened(Floor("full", tmp_path)) as floor:
        await floor.turn("s", question(plan))

        assert floor.commits == commits


async def test_a_floor_finds_its_sessions_again(tmp_path: Path) -> None:
    async with opened(Floor("full", tmp_path)) as floor:
        await floor.turn("s", question(TEXT))

    async with opened(Floor("full", tmp_path)) as floor:
        await floor.turn("s", question(TEXT))

        assert len(floor._history("s")) == 4


class Idler(Candidate):
    async def turn(self, session: str, asked: str) -> str:
        return ANSWER


async def test_work_that_was_not_done_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        await measured_turn(Idler("", tmp_path), "s", question(loop(1)))


def test_medians_are_of_each_gauge() -> None:
    found = medians([Reading(1.0, 30.0, 5.0), Reading(2.0, 10.0, 6.0), Reading(9.0, 20.0, 7.0)])

    assert found == Reading(2.0, 20.0, 6.0)
