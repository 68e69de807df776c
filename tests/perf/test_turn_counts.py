"""What a whole turn costs through the public API, in counts that are the same on every run: the gate.

Commits and bytes depend on what a turn does and on nothing else. Instructions differ between Python releases, so their
budgets are exact for the one they were taken on. Behind each gate stands a fault that turns it red.

Some bars are not reached yet (docs/benchmarks.md says why). Their gates stand where windlass is, so that it can only
come nearer: whoever does sets them anew.
"""

from __future__ import annotations

import asyncio
import selectors
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.bars.floor_ratios import W1, W2, W3
from bench.bars.turn_counts import (
    commits_per_turn,
    iteration_instructions,
    log_bytes_per_turn,
    turn_instructions,
)
from bench.counts import frames_by_file
from bench.store_file import bare_file
from bench.workloads.candidate import opened
from bench.workloads.script import ANSWER, TEXT, Args, Script, loop, question, script
from bench.workloads.windlass_turns import FILE, WindlassTurns
from windlass.runtime import system_clock
from windlass.stores.sqlite import writer

COMMITS = [
    pytest.param(W1.plan, "once", 1, id="no call"),
    pytest.param(W2.plan, "once", 21, id="20 iterations, once"),
    pytest.param(W3.plan, "once", 2, id="20 calls, once"),
]
PURE_COMMITS = [
    pytest.param(W2.plan, 11, id="20 iterations"),  # bar: 3
    pytest.param(W3.plan, 2, id="20 calls"),
]

# To what the floor writes, which stores neither intents nor outcomes nor a turn's start.
W2_BYTES = 1.2  # bar: 1.0
W3_BYTES = 0.6

SESSIONS = 50
SHARED_COMMITS = 0.2

# Bytecode instructions on 3.11, 5 % above what was counted when they were last set.
BUDGET_PYTHON = (3, 11)
ITERATION_BUDGET = 7_280
PURE_BUDGET = 6_500
TURN_BUDGET = 14_200
# Python frames, and passes of the event loop, of an iteration of a turn that is driven alone.
FRAMES = 220
PASSES = 1
OTHER_PYTHONS = 1.5

LONG_TURNS = 40
MAX_MORE = 1.03

NOT_WANTED = {
    "aiohttp", "anthropic", "google", "httpx", "http", "mcp", "openai", "opentelemetry", "psycopg",
    "pydantic", "requests", "sqlite3", "starlette", "urllib3",
}  # fmt: skip
EVENT_LOOP = {"asyncio", "selectors", "ssl"}
DESCRIBED = """
from windlass import Agent, Runtime, tool

@tool
def sound(i: int) -> str:
    return f"{i}: 7 fathoms"

Agent("pilot", model="demo", tools=[sound])
"""


def on_this_python(budget: float) -> float:
    return budget * (1 if sys.version_info[:2] == BUDGET_PYTHON else OTHER_PYTHONS)


# --- commits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("plan", "variant", "commits"), COMMITS)
async def test_a_turn_commits_as_often_as_it_must(
    plan: str, variant: str, commits: int, tmp_path: Path
) -> None:
    assert await commits_per_turn(variant, plan, tmp_path) == commits


@pytest.mark.parametrize(("plan", "most"), PURE_COMMITS)
async def test_pure_calls_share_commits(plan: str, most: int, tmp_path: Path) -> None:
    assert await commits_per_turn("pure", plan, tmp_path) <= most


async def test_sessions_at_once_share_their_commits(tmp_path: Path) -> None:
    async with opened(WindlassTurns("once", tmp_path, durability="process")) as candidate:
        await candidate.turn("first", question(loop(1)))
        before = candidate.commits
        answers = await asyncio.gather(
            *(candidate.turn(f"s{at}", question(loop(1))) for at in range(SESSIONS))
        )

        assert answers == [ANSWER] * SESSIONS
        assert (candidate.commits - before) / SESSIONS <= SHARED_COMMITS


async def test_a_tool_that_writes_on_its_own_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = WindlassTurns("once", tmp_path, durability="process")

    async def run_and_write(self: Script, i: int) -> str:
        await candidate.runtime.session(f"other{i}").enqueue("a word", when="next_turn")
        return f"{i}: written"

    async with opened(candidate):
        await candidate.turn("s", question(TEXT))
        monkeypatch.setattr(Script, "run_tool", run_and_write)
        before = candidate.commits
        await candidate.turn("s", question(W2.plan))

        assert candidate.commits - before >= 21 + 20


# --- bytes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("plan", "most"), [(W2.plan, W2_BYTES), (W3.plan, W3_BYTES)])
async def test_a_turn_writes_little_more_than_its_messages(
    plan: str, most: float, tmp_path: Path
) -> None:
    mine, floor = await log_bytes_per_turn("once", plan, tmp_path)

    assert mine <= most * floor


async def test_a_page_more_per_commit_is_seen(tmp_path: Path) -> None:
    with bare_file(tmp_path / FILE) as db:
        db.execute("CREATE TABLE ballast (weight BLOB)")
        db.execute(
            "CREATE TRIGGER load_ballast AFTER INSERT ON log"
            " BEGIN INSERT INTO ballast VALUES (randomblob(4000)); END"
        )

    mine, floor = await log_bytes_per_turn("once", W2.plan, tmp_path)

    assert mine > W2_BYTES * floor


# --- instructions ------------------------------------------------------------------------------


def test_an_iteration_stays_within_its_budget(tmp_path: Path) -> None:
    per_iteration = iteration_instructions(tmp_path).total()

    assert per_iteration <= on_this_python(ITERATION_BUDGET)


def test_an_iteration_with_a_pure_call_stays_within_its_budget(tmp_path: Path) -> None:
    per_iteration = iteration_instructions(tmp_path, variant="pure").total()

    assert per_iteration <= on_this_python(PURE_BUDGET)


def test_an_iteration_enters_few_frames_and_mostly_goes_on_in_one_pass_of_the_loop(
    tmp_path: Path,
) -> None:
    frames = iteration_instructions(tmp_path, count=frames_by_file)

    assert frames.total() <= on_this_python(FRAMES)
    assert frames[selectors.__file__] <= PASSES


def test_a_pass_and_a_call_more_per_iteration_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow_thought(_self: Script) -> None:
        for _ in range(2):
            await asyncio.sleep(0)

    monkeypatch.setattr(Script, "think", slow_thought)
    frames = iteration_instructions(tmp_path, count=frames_by_file)

    assert frames.total() > FRAMES
    assert frames[selectors.__file__] > PASSES


def test_a_turn_without_a_call_stays_within_its_budget(tmp_path: Path) -> None:
    assert turn_instructions(tmp_path, TEXT).total() <= on_this_python(TURN_BUDGET)


def test_a_slow_machine_counts_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fast", "slow"):
        (tmp_path / name).mkdir()
    fast = turn_instructions(tmp_path / "fast", TEXT).total()
    # Between two looks at the clock 20 ms pass, and a commit takes as long.
    now_ns, pace_s = count(time.time_ns(), 20_000_000), count(0.0, 0.02)
    monkeypatch.setattr(system_clock, "time", SimpleNamespace(time_ns=now_ns.__next__))
    monkeypatch.setattr(writer, "_clock", pace_s.__next__)

    assert turn_instructions(tmp_path / "slow", TEXT).total() == fast


def test_an_iteration_costs_the_same_in_a_long_session(tmp_path: Path) -> None:
    for name in ("short", "long"):
        (tmp_path / name).mkdir()
    short = iteration_instructions(tmp_path / "short").total()
    long = iteration_instructions(tmp_path / "long", LONG_TURNS).total()

    assert long <= MAX_MORE * short


def test_a_few_lines_more_per_iteration_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = script.reply

    def slow_reply(asked: str, n_results: int, n_seen: int) -> str | list[Args]:
        for _ in range(1_000):
            pass
        return reply(asked, n_results, n_seen)

    monkeypatch.setattr(script, "reply", slow_reply)

    per_iteration = iteration_instructions(tmp_path).total()
    assert per_iteration > on_this_python(ITERATION_BUDGET)


def test_a_walk_through_the_history_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = script.reply

    def walking_reply(asked: str, n_results: int, n_seen: int) -> str | list[Args]:
        for _ in range(n_seen):
            len(asked)
        return reply(asked, n_results, n_seen)

    monkeypatch.setattr(script, "reply", walking_reply)
    for name in ("short", "long"):
        (tmp_path / name).mkdir()

    short = iteration_instructions(tmp_path / "short").total()
    long = iteration_instructions(tmp_path / "long", LONG_TURNS).total()
    assert long > MAX_MORE * short


# --- the import --------------------------------------------------------------------------------


def loaded_by(statement: str) -> set[str]:
    child = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_import_brings_no_provider_no_pydantic_and_no_http() -> None:
    assert not loaded_by("from windlass import Agent, Runtime, tool") & NOT_WANTED


def test_an_import_of_pydantic_would_be_seen() -> None:
    assert "pydantic" in loaded_by("import windlass, pydantic") & NOT_WANTED


def test_an_agent_is_described_without_an_event_loop() -> None:
    assert not loaded_by(DESCRIBED) & EVENT_LOOP


def test_a_tool_that_is_made_with_its_thread_would_be_seen() -> None:
    """The fault: what runs sync bodies is loaded when a tool is made, and not when it runs."""
    assert loaded_by(f"{DESCRIBED}\nimport windlass.tools.threads") >= EVENT_LOOP
