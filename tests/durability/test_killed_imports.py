"""An import that is killed at any of its disk calls left the session whole, or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.durability.killed_import import NONE, WHOLE
from tests.limits import HANGS_S

ROOT = Path(__file__).parents[2]


def test_an_import_killed_at_any_disk_call_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.durability.killed_import", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    *killed, last = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]

    assert last == (0, WHOLE)
    assert {ended for ended, _ in killed} == {-signal.SIGKILL}
    assert {found for _, found in killed} == {NONE, WHOLE}
    # It lands at one call, and is there after every kill behind that.
    kinds = [found for _, found in killed]
    assert kinds == [NONE] * kinds.count(NONE) + [WHOLE] * kinds.count(WHOLE)
    assert kinds.count(NONE) > 20
