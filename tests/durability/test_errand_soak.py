"""Workers are killed again and again while their turns act on each other's sessions: every errand runs, and once.

Twelve sessions start children and wait for them, post to each other and to sessions that only listen, cancel trees of turns,
and send to sessions that are gone. What each says that it did is compared with what happened to the others:
`tests.durability.errands.audit` has the rules. Meanwhile the store reclaims at once whatever has ended, and units that landed
are handed in again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.errands import plan
from tests.durability.errands.rounds import rounds
from tests.limits import times

KILLS = times(72)
MOST_ROUNDS = 4


@pytest.mark.slow
@pytest.mark.timeout(times(300))
def test_what_turns_do_to_other_sessions_is_done_once_however_often_workers_are_killed(
    tmp_path: Path,
) -> None:
    played = list(rounds(tmp_path / "soak", 1, KILLS))
    reports = [each.report for each in played]
    found = {each.folder.name: each.report.findings for each in played if each.report.findings}
    assert found == {}
    assert sum(each.kills for each in played) == KILLS
    # They were killed at work: calls were cut short, and what those were to send did not arrive.
    assert sum(one.cut for one in reports) >= KILLS // 12
    # A good share of what was done was done to sessions that another worker had.
    owned, foreign = sum(one.owned for one in reports), sum(one.foreign for one in reports)
    assert foreign >= max(KILLS // 3, owned // 10)
    # Each session sent to what is gone, and its turn ended as if nothing were.
    assert len(played) * plan.N_ROOTS * plan.N_DROPPED >= 100
    assert sum(one.dropped for one in reports) >= 100
    # Of the items that arrived, most left no trace to tell by that they had; and units were handed in again.
    items, reclaimed = sum(one.items for one in reports), sum(one.reclaimed for one in reports)
    assert reclaimed >= items // 2 > 0
    assert sum(one.again for one in reports) > KILLS


# ------------------------------------------------------------------------- the soak can fail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "kills", "rule", "what"),
    [
        # A kill between the two halves, and what was to happen does not.
        ("run_errands_after_the_unit", 8, "posted", "(ok) arrived 0 times"),
        # A kill between the two halves, and what has happened was not recorded.
        ("run_errands_before_the_unit", 16, "posted", "with the word of another run"),
        # An item that was settled and reclaimed comes again.
        ("run_again_what_landed", 2, "posted", "arrived 2 times"),
        # A turn that sends to what is gone never ends.
        ("refuse_when_a_target_is_gone", 2, "end", "t0 is parked"),
    ],
)
def test_the_soak_notices_a_store_that_does_not_keep_its_promise(
    tmp_path: Path, mutant: str, kills: int, rule: str, what: str
) -> None:
    found: list[str] = []
    for number in range(MOST_ROUNDS):
        for each in rounds(tmp_path / str(number), number, kills, mutant):
            found += [one.what for one in each.report.findings if one.rule == rule]
        if any(what in one for one in found):
            return
    raise AssertionError(f"{mutant} was not noticed: {found}")
