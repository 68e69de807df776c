"""A worker on a budget is killed again and again: what counts is what was bought, and never over the limit.

The model writes each call down outside the process before it answers. What the store counts as spent is the recorded
replies and the lost reservations; `tests.durability.spend.audit` has the rules.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.durability.spend.audit import audit
from tests.durability.spend.lives import rounds
from tests.limits import times

KILLS = times(40)


@pytest.mark.slow
def test_a_budget_holds_however_often_its_worker_is_killed(tmp_path: Path) -> None:
    played = [(kills, asyncio.run(audit(place))) for place, kills in rounds(tmp_path, 1, KILLS)]
    assert [report.findings for _, report in played if report.findings] == []
    assert sum(kills for kills, _ in played) == KILLS
    # They were killed in the middle of calls, and budgets were spent.
    assert sum(report.lost for _, report in played) >= KILLS // 2
    assert sum(report.stopped for _, report in played) > 0
    assert sum(report.finished for _, report in played) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "rules"),
    [
        ("forget_to_reserve", {"covered", "within"}),
        ("forgive_what_was_lost", {"spent", "covered", "within"}),
    ],
)
def test_the_audit_notices_calls_that_do_not_count(
    tmp_path: Path, mutant: str, rules: set[str]
) -> None:
    found: set[str] = set()
    for place, _ in rounds(tmp_path, 2, 30, mutant):
        found |= {finding.rule for finding in asyncio.run(audit(place)).findings}
    assert found == rules
