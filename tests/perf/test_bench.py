"""The benchmark itself: it runs, prints every figure with its bar, and times nothing in this suite."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import report
from bench.__main__ import main
from bench.bars import background, idle, many_sessions
from bench.samples import figure, ratio
from bench.sections import SECTIONS
from bench.workloads.child import TURNS_EACH

ROOT = Path(__file__).parents[2]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


# The parts that take a second or two, and those that have to wait for leases, kills and long histories.
QUICK = {
    "disk": [],
    "turns": [1.0, 0.9, 0.35, 1.0, 0.35, 0.3],
    "counts": [1.0, 21.0, 3.0, 2.0, 3.0, 1.0],
    "reopen": [1.4],
    "tokens": [2.0],
    "replies": [],
    "import": [1.4, 1.4, 1.4, 1.4, 1.4, 1.4],
    "kernel": [35.0, 1.15, 1.5, 2.0, 2.0],
    "machine": [],
}
SLOW = {
    "sessions": [3.0, 0.05, 300.0],
    "long": [1.15, 1.1],
    "plugins": [1.25, 1.25, 1.0],
    "kills": [1.0, 0.3, 5.0, 1.0, 1.0, 0.0, 1.0, 1.0],
    "approvals": [1.0, 0.0],
    "background": [1.0, 1.0, 1.0, 6.0, 6.0, 10.0, 1.5, 50.0, 1.0, 0.0, 0.0, 2.0, 0.0],
    "idle": [40.0, 40.0, 0.0],
    "store": [1.2, 2.0, 2.0, 1.5, 1.1],
}


def check(parts: dict[str, list[float]], table: str, file: Path) -> None:
    """Compare what was printed with what was written, and the bars with those above."""
    figures = json.loads(file.read_text(encoding="utf-8"))["figures"]
    for each in figures:
        assert any(line.startswith(each["name"]) for line in table.splitlines())
    assert max(map(len, table.splitlines())) <= 100
    bars = [each["bar"] for each in figures if each["bar"] is not None]
    assert bars == [bar for of_one in parts.values() for bar in of_one]


def options(parts: dict[str, list[float]], file: Path) -> list[str]:
    return ["--rounds", "2", "--json", str(file), "--only", *parts]


def test_it_prints_a_table_and_writes_the_same_figures(tmp_path: Path) -> None:
    done = run(*options(QUICK, tmp_path / "figures.json"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    check(QUICK, done.stdout, tmp_path / "figures.json")


@pytest.fixture
def _few_sessions_and_short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a figure is printed does not depend on how many sessions and seconds it was taken from."""
    monkeypatch.setattr(many_sessions, "SESSIONS", 20)
    monkeypatch.setattr(many_sessions, "_N_TURNS", 20 * TURNS_EACH)
    monkeypatch.setattr(idle, "_IDLE_S", 0.2)
    monkeypatch.setattr(background, "_IDLE_S", 0.2)


@pytest.mark.slow
@pytest.mark.usefixtures("_few_sessions_and_short_waits")
@pytest.mark.parametrize("part", SLOW)
def test_a_part_that_takes_long_prints_a_table_and_writes_the_same_figures(
    part: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = {part: SLOW[part]}

    code = main(options(parts, tmp_path / "figures.json"))

    said = capfd.readouterr()
    assert (code, said.err) == (0, ""), said.out
    check(parts, said.out, tmp_path / "figures.json")


def test_no_part_is_left_out_here() -> None:
    assert list(SECTIONS) == sorted([*QUICK, *SLOW], key=list(SECTIONS).index)


def test_profile_prints_layers_of_a_turn_and_functions_of_the_kernel() -> None:
    done = run("--profile", "--rounds", "2")

    assert done.returncode == 0, done.stderr
    assert "(respond)" in done.stdout
    assert "windlass.runtime" in done.stdout


@pytest.mark.parametrize(
    "args", [("--rounds", "1"), ("--rounds", "x"), ("--fast",), ("--only", "luck")]
)
def test_wrong_arguments_are_answered_with_usage_and_2(args: tuple[str, ...]) -> None:
    done = run(*args)

    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m bench")


def test_a_figure_is_the_median_with_the_outer_tenths() -> None:
    found = figure("x", "µs", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0])

    assert (found.median, found.low, found.high) == (6.0, 2.0, 10.0)
    assert found.passes is None


@pytest.mark.parametrize(("bar", "passes"), [(1.9, False), (2.0, True), (2.1, True)])
def test_a_bar_is_held_up_to_its_figure(bar: float, passes: bool) -> None:
    found = figure("x", "µs", [2.0, 2.0], bar=bar)

    assert found.passes is passes
    assert (("held" if passes else "MISSED") in report.table([[found]])) is True


@pytest.mark.parametrize(("least", "passes"), [(1.9, True), (2.0, True), (2.1, False)])
def test_a_bar_may_be_one_to_reach(least: float, passes: bool) -> None:
    found = figure("x", "x", [2.0, 2.0], at_least=least)

    assert found.passes is passes
    assert f">= {least:.2f} x" in report.table([[found]])


def test_a_ratio_compares_what_ran_side_by_side() -> None:
    """A machine that turned slow halfway changes both sides of a pair, and not the ratio."""
    found = ratio("x", [[2.0, 2.0], [20.0, 20.0]], [[1.0, 1.0], [10.0, 10.0]])

    assert (found.median, found.low, found.high) == (2.0, 2.0, 2.0)
