"""Asked in one process, answered in a second, finished in a third; the first was killed, and a week passed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.limits import HANGS_S

PROCESS = Path(__file__).with_name("asking_process.py")
TODAY_MS = 1_700_000_000_000
SIX_DAYS_MS = 6 * 86_400_000


def play(step: str, folder: Path, now_ms: int) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, PROCESS, step, folder / "a.db", str(now_ms), folder / "log"],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert ended.returncode in (0, 9), ended.stderr
    return ended.returncode, ended.stdout


def test_asked_today_process_gone_answered_after_six_days_by_another_finished_by_a_third(
    tmp_path: Path,
) -> None:
    code, key = play("ask", tmp_path, TODAY_MS)
    assert code == 9  # gone, without a word
    assert play("answer", tmp_path, TODAY_MS + SIX_DAYS_MS) == (0, f"{key} accepted")
    assert not (tmp_path / "log").exists()
    assert play("finish", tmp_path, TODAY_MS + SIX_DAYS_MS) == (0, "Done.")
    assert play("finish", tmp_path, TODAY_MS + SIX_DAYS_MS) == (0, "Done.")

    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["paid 5"]
