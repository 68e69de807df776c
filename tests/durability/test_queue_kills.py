"""A worker is killed again and again while its sessions are given turns, items and cancels: the order holds.

What enters a session, what a turn pays for and what hooks see is written down outside the process. After each round the
store is compared with that; `tests.durability.queue.audit` has the rules, `tests.durability.queue.office` the script.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.durability.queue.audit import Report, audit
from tests.durability.queue.lives import rounds
from tests.durability.soak.lives import Nursery
from tests.limits import times

KILLS = times(80)
N_LANES = 2


def _soak(folder: Path, seed: int, kills: int, mutant: str = "") -> list[tuple[int, Report]]:
    return [
        (spent, asyncio.run(audit(place))) for place, spent in rounds(folder, seed, kills, mutant)
    ]


@pytest.mark.slow
@pytest.mark.timeout(times(300))
def test_what_is_given_enters_in_order_however_often_the_worker_is_killed(tmp_path: Path) -> None:
    def lane(seed: int) -> list[tuple[int, Report]]:
        return _soak(tmp_path / f"lane{seed}", seed, KILLS // N_LANES)

    with ThreadPoolExecutor(N_LANES) as pool:
        played = [each for lane in pool.map(lane, range(N_LANES)) for each in lane]
    assert [report.findings for _, report in played if report.findings] == []
    kills = sum(spent for spent, _ in played)
    assert kills == KILLS // N_LANES * N_LANES
    # A kill costs each of the three sessions the reply in flight at most; far fewer in all.
    assert sum(len(report.lost) for _, report in played) <= kills
    # They were killed in the middle of turns, and left in the middle of turns.
    assert sum(report.begun_again + len(report.lost) for _, report in played) > 0
    assert sum(report.left for _, report in played) >= kills // 10


@pytest.mark.slow
def test_two_processes_that_are_given_the_same_keep_one_order_and_pay_once(tmp_path: Path) -> None:
    """Each gives the whole script, under the same ids. Only in a session that is new to both may both buy a first reply."""
    for number in range(times(3)):
        place = tmp_path / str(number)
        place.mkdir()
        both = [
            Nursery(tmp_path / f"stderr{one}", "tests.durability.queue.nursery") for one in range(2)
        ]
        with both[0] as first, both[1] as second:
            for nursery in (first, second):
                nursery.start(str(place), "0")
            assert [nursery.ended() for nursery in (first, second)] == [0, 0]
        report = asyncio.run(audit(place))
        assert report.findings == []
        lost = [line for line in report.lost if not line.call.startswith("0")]
        assert lost == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "rules"),
    [
        ("turns_before_items", {"order"}),
        ("no_line", {"order", "bought", "hooks"}),
        ("no_places", {"order", "bought", "hooks"}),
        ("begin_after_leaving", {"leaving"}),
    ],
)
def test_the_audit_notices_a_worker_that_does_not_keep_the_order(
    tmp_path: Path, mutant: str, rules: set[str]
) -> None:
    found: set[str] = set()
    for place, _ in rounds(tmp_path, 3, 300, mutant):  # until it is found
        found |= {finding.rule for finding in asyncio.run(audit(place)).findings}
        if found:
            break
    assert found
    assert found <= rules
