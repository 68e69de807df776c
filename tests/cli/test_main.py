"""The `windlass` command: its arguments, its help and its exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import windlass

COMMAND = [sys.executable, "-m", "windlass"]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, check=False)


def test_it_says_which_release_it_is() -> None:
    done = run("--version")

    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"windlass {windlass.__version__}\n",
        "",
    )


def test_the_installed_command_is_the_same_program() -> None:
    script = Path(sys.executable).with_name("windlass")

    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)

    assert done.stdout == f"windlass {windlass.__version__}\n"


def test_help_names_every_command_and_option() -> None:
    assert "demo" in run("--help").stdout
    options = set(re.findall(r"--[a-z-]+", run("demo", "--help").stdout))
    assert options == {"--plain", "--dir", "--help"}


@pytest.mark.parametrize(
    ("args", "usage", "complaint"),
    [
        pytest.param([], "usage: windlass ", "COMMAND", id="nothing"),
        pytest.param(["dance"], "usage: windlass ", "invalid choice: 'dance'", id="command"),
        pytest.param(["demo", "--colour"], "usage: windlass ", "--colour", id="option"),
        pytest.param(["demo", "now"], "usage: windlass ", "now", id="positional"),
        pytest.param(["demo", "--dir"], "usage: windlass demo ", "--dir", id="no-folder"),
    ],
)
def test_wrong_arguments_are_answered_with_usage_and_2(
    args: list[str], usage: str, complaint: str
) -> None:
    done = run(*args)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(usage)
    assert complaint in done.stderr


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x", encoding="utf-8")

    done = run("demo", "--dir", str(tmp_path))

    assert done.returncode == 2
    assert f"{tmp_path} is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")

    done = run("demo", "--dir", str(tmp_path / "file" / "below"))

    assert done.returncode == 2
    assert "Not a directory" in done.stderr
