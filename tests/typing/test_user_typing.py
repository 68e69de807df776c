"""The public types, as two strict type checkers see them in a user's program: right uses pass, wrong ones are named by line."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GOOD = "good_user.py"
BAD = "bad_user.py"
MARK = "  # error: "


def marked() -> set[int]:
    lines = (HERE / BAD).read_text(encoding="utf-8").splitlines()
    return {at for at, line in enumerate(lines, 1) if MARK in line}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of a user's, with nothing of this project in it but what is installed."""
    folder = tmp_path_factory.mktemp("user")
    for name in (GOOD, BAD):
        text = (HERE / name).read_text(encoding="utf-8")
        # What spares the file from the project's own checks is not spared here.
        text = text.replace("# mypy: ignore-errors", "#", 1)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "standard", "reportUnusedExpression": false, "reportUnusedVariable": false,'
        ' "reportUnusedCoroutine": false}',
        encoding="utf-8",
    )
    return folder


def mypy(folder: Path) -> str:
    command = (sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder), GOOD, BAD)
    return said(command, folder)


def pyright(folder: Path) -> str:
    return said((sys.executable, "-m", "pyright", "--pythonpath", sys.executable), folder)


def said(command: tuple[str, ...], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr  # there are errors, as there should be
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_strict_checker_takes_the_right_uses_and_names_each_wrong_one(
    checker: Callable[[Path], str], folder: Path
) -> None:
    out = checker(folder)

    found = re.findall(r"(\w+\.py):(\d+)(?::\d+)?(?: -|:) error", out)
    assert [line for name, line in found if name == GOOD] == [], out
    reported = {int(line) for name, line in found if name == BAD}
    assert sorted(marked() - reported) == [], f"not reported:\n{out}"
    assert sorted(reported - marked()) == [], out


async def test_the_right_program_is_also_built_and_its_tools_are_still_functions() -> None:
    names = runpy.run_path(str(HERE / GOOD))

    assert sorted(tool.spec.name for tool in names["support"].toolbox) == [
        "add", "count", "echo", "finish", "look_up", "note", "progress", "refund", "ship",
    ]  # fmt: skip
    # 3 and 4 of add, 1 order, 12 characters of "corner o1 5 ", 1 term
    assert await names["by_hand"]() == 21


def test_wrong_uses_are_marked() -> None:
    assert len(marked()) > 60
