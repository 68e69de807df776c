"""`make test` runs every test once, in runs that two lanes share, and notices a run that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import suite

ROOT = Path(__file__).parents[2]


def files_of(run: suite.Run) -> Iterator[Path]:
    """The test files of a run, found as pytest finds them."""
    for path in run.paths:
        for file in path.rglob("test_*.py") if path.is_dir() else [path]:
            if not any(left_out in (file, *file.parents) for left_out in run.left_out):
                yield file


def test_every_test_file_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = Counter(file for run in suite.runs() for file in files_of(run))

    assert found == Counter(Path("tests").rglob("test_*.py"))


def test_every_run_has_a_path_that_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    assert [path for run in suite.runs() for path in run.paths if not path.exists()] == []


def test_a_new_file_and_a_new_folder_are_run_without_being_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "RUNS", (("slow/part",), ("slow",)))
    names = ("slow/part/test_a.py", "slow/test_new.py", "new/test_b.py", "new/deep/test_c.py")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    found = suite.runs(tmp_path)

    assert [sorted(str(f.relative_to(tmp_path)) for f in files_of(run)) for run in found] == [
        ["slow/part/test_a.py"],
        ["slow/test_new.py"],
        ["new/deep/test_c.py", "new/test_b.py"],
    ]


def test_only_the_kernel_and_the_journal_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    measured = [run.paths for run in suite.runs() if "coverage" in run.command()]

    assert measured == [(Path("tests/guards"), Path("tests/journal"), Path("tests/kernel"))]


def test_a_run_that_fails_is_shown_whole_and_fails_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The red proof: of the good run one line is shown, of the bad one its failure."""
    (tmp_path / "test_good.py").write_text("def test_it(): pass\n")
    (tmp_path / "test_bad.py").write_text("def test_it(): assert 1 == 2\n")
    found = [suite.Run(paths=(tmp_path / f"test_{name}.py",)) for name in ("good", "bad")]
    monkeypatch.setattr(suite, "runs", lambda: found)

    assert suite.main() == 1

    lines = capfd.readouterr().out.splitlines()
    assert any("test_good.py: 1 passed" in line for line in lines)
    assert any("assert 1 == 2" in line for line in lines)
    assert lines[-1] == f"failed: {tmp_path / 'test_bad.py'}"


def test_after_ctrl_c_no_other_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pressed = tmp_path / "pressed"

    def press_ctrl_c(_run: suite.Run) -> str:
        pressed.touch()
        raise KeyboardInterrupt

    # However busy the machine is, no run ends before it is pressed.
    waits = f"""
import os, time
while not os.path.exists({str(pressed)!r}):
    time.sleep(0.01)
print("ran")
"""
    found = [suite.Run(paths=(tmp_path,)) for _ in range(10)]
    monkeypatch.setattr(suite, "runs", lambda: found)
    monkeypatch.setattr(suite, "TELL_EVERY_S", 0.0)
    monkeypatch.setattr(suite.Run, "progress", press_ctrl_c)
    monkeypatch.setattr(suite.Run, "command", lambda _run: [sys.executable, "-c", waits])

    assert suite.main() == 130
    out = capfd.readouterr().out
    assert out.count("ran") < len(found)
    assert out.endswith("interrupted\n")


def test_a_soak_runs_random_and_crash_tests_deeper_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_random.py").write_text(
        "from hypothesis import given, strategies as st\n"
        "tried = []\n"
        "@given(st.integers())\n"
        "def test_a_property(n): tried.append(n)\n"
        "def test_a_claim(): assert False\n"
    )
    (tmp_path / "test_crash.py").write_text(
        "from tests.limits import times\ndef test_a_crash(): assert times(7) == 21\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly",
         "--hypothesis-show-statistics", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "WINDLASS_SOAK": "3"}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "2 passed, 1 deselected" in done.stdout
    assert "settings.max_examples=300" in done.stdout


def test_what_is_about_the_disk_is_on_the_disk() -> None:
    on_disk = {path.parts[1] for run in suite.runs() if run.is_about_disk for path in run.paths}
    assert on_disk == {"conformance", "durability", "perf", "stores"}
