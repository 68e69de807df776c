"""What a whole turn costs through the public API, in counts that are the same on every run: the gate.

Commits and bytes depend on what a turn does and on nothing else. Instructions differ between Python releases, so their
budget is exact for the one it was taken on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.bars.turn_counts import (
    COMMITS,
    commits_per_turn,
)
from bench.workloads.candidate import opened
from bench.workloads.script import ANSWER, loop, question
from bench.workloads.windlass_turns import WindlassTurns

SESSIONS = 50
MAX_GROWTH = 1.1

# Bytecode instructions on 3.11 of one iteration with one `once` call, 8 % above what was counted when it was set.
BUDGET_PYTHON = (3, 11)
ITERATION_BUDGET = 0
OTHER_PYTHONS = 1.5
# How much more an iteration may take after so many messages.
LONG_TURNS = 60
MAX_MORE = 1.05

HEAVY = ("pydantic", "httpx", "aiohttp", "requests", "openai", "anthropic", "http.client", "ssl")


# --- commits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("plan", "variant"), list(COMMITS))
async def test_a_turn_commits_as_often_as_it_must(plan: str, variant: str, tmp_path: Path) -> None:
    found = await commits_per_turn(variant, plan, tmp_path)

    if variant == "pure":  # how many the loop's idle moments make of it, up to that
        assert found <= COMMITS[plan, variant]
    else:
        assert found == COMMITS[plan, variant]


async def test_sessions_at_once_share_their_commits(tmp_path: Path) -> None:
    async with opened(WindlassTurns("once", tmp_path, durability="process")) as candidate:
        await candidate.turn("first", question(loop(1)))
        before = candidate.commits
        answers = await asyncio.gather(
            *(candidate.turn(f"s{at}", question(loop(1))) for at in range(SESSIONS))
        )

        assert answers == [ANSWER] * SESSIONS
        assert (candidate.commits - before) / SESSIONS <= 0.2
