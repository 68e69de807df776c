"""Every hook, at every moment at which its process may die: recorded once, it never runs again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.hooks.acts import ACTS
from tests.plugins.hooks.playing import MIDDLE, Act, Played, Trial, disks, is_record, play

IDS = [act.name for act in ACTS]


def ended(trial: Trial) -> Played:
    assert trial.fate.error is None
    assert isinstance(trial.fate.result, Played)
    return trial.fate.result


def check_whole(act: Act, trial: Trial) -> None:
    """See that the hook has changed the turn as it is to."""
    found, ledger = ended(trial), trial.ledger
    assert found.said == [*act.said]
    assert found.outcome == act.outcome
    assert found.issues == [*act.issues]
    assert ledger.acts == ["acts"]
    assert ledger.bodies == [*act.bodies]
    if act.asked is not None:
        assert ledger.asked(act.asked_at) == [*act.asked]


@pytest.mark.parametrize("act", ACTS, ids=IDS)
async def test_a_hook_changes_the_turn_and_wherever_the_process_dies_it_is_run_again_only_unrecorded(
    act: Act, tmp_path: Path
) -> None:
    runs = []
    async with disks("memory", tmp_path) as disk:
        whole = await play(act, disk())
        check_whole(act, whole)
        for point in whole.seen:
            trial = await play(act, disk(), point)

            assert trial.seen[-1] == point
            assert trial.lives == 2
            assert ended(trial) == ended(whole), str(point)
            # Begun and not recorded: it runs again. Recorded, or not begun: it runs once.
            wanted = 2 if trial.is_in_the_middle(act) else 1
            assert len(trial.ledger.acts) == wanted, str(point)
            runs.append(wanted)
    # Before it, in it, and after it.
    assert (runs[0], max(runs), runs[-1]) == (1, 2, 1)


@pytest.mark.parametrize("act", ACTS, ids=IDS)
async def test_in_a_file_a_hook_runs_again_in_its_middle_and_not_once_it_is_recorded(
    act: Act, tmp_path: Path
) -> None:
    async with disks("sqlite", tmp_path) as disk:
        whole = await play(act, disk())
        check_whole(act, whole)
        middle = next(point for point in whole.seen if MIDDLE in point.what)
        trial = await play(act, disk(), middle)

        assert ended(trial) == ended(whole)
        assert len(trial.ledger.acts) == 2
        # By what it holds: how many units go to the file before it is up to how idle the loop is.
        trial = await play(act, disk(), "record")

        assert is_record(act, trial.seen[-1])
        assert ended(trial) == ended(whole)
        assert len(trial.ledger.acts) == 1
