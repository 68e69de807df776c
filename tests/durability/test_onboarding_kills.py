"""A process that sleeps three days, waits for signals and wakes a chat: killed at each of its writes, it ends the same."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.durability.onboarding_process import DIED
from tests.limits import HANGS_S

MODULE = "tests.durability.onboarding_process"


def life(folder: Path, dies_at: int = 0, when: str = "before") -> Any:  # noqa: ANN401 - JSON
    """Run the program once; return what it found, or None if it died."""
    done = subprocess.run(
        [sys.executable, "-m", MODULE, str(folder), str(dies_at), when],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    if done.returncode == DIED:
        return None
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


def check(folder: Path, found: Any) -> None:  # noqa: ANN401 - JSON
    """Check what the last life found, and what the steps did from outside."""
    steps = (folder / "ledger").read_text().split()
    value = found["value"]
    assert value["paid"] == [1, 2]
    assert value["slept_days"] == 3
    assert value["charged"] in ("charge", "unknown")
    assert steps.count("charge") == 1 or value["charged"] == "unknown"
    assert steps.count("charge") <= 1
    assert steps.count("mail") >= 1
    assert found["events"] == 1
    assert found["record"] == {"onboarded": value["charged"]}


def killed_at(folder: Path, dies_at: int, when: str) -> bool:
    """Kill one life at a write and let another one end it; return whether the first died."""
    folder.mkdir()
    died = life(folder, dies_at, when) is None
    check(folder, life(folder))
    return died


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_each_write_it_ends_the_same(tmp_path: Path, when: str) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    found = life(whole)
    check(whole, found)
    assert (whole / "ledger").read_text().split() == ["charge", "mail"]
    writes = range(1, found["writes"] + 1)

    with ThreadPoolExecutor(2) as lives:
        died = list(lives.map(lambda at: killed_at(tmp_path / str(at), at, when), writes))

    # A write more or less depends on when the worker looks; all but the last few are always there.
    assert sum(died) >= len(died) - 4


def test_a_charge_that_was_made_twice_is_seen(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("charge\nmail\ncharge\n")
    value = {"charged": "unknown", "paid": [1, 2], "slept_days": 3}

    with pytest.raises(AssertionError, match="count"):
        check(tmp_path, {"value": value, "events": 1, "record": {"onboarded": "unknown"}})
