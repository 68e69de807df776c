"""What imports cannot show, ruff bans by name: each ban is seen to bite, and to name another door."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def banned() -> dict[str, str]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    table = config["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    return {name: entry["msg"] for name, entry in table.items()}


def use(name: str) -> str:
    """One line that uses the name the way a program would."""
    module, _, member = name.partition(".")
    if module == "datetime":
        return f"import datetime; {name}()"
    return f"from {module} import {member}" if member else f"import {module}"


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What ruff says, line by line, about a library file that uses every banned name."""
    folder = tmp_path_factory.mktemp("project")
    planted = folder / "src" / "windlass" / "planted.py"
    planted.parent.mkdir(parents=True)
    planted.write_text("\n".join(use(name) for name in banned()) + "\n", encoding="utf-8")
    (folder / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=json", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        finding["location"]["row"]: finding["message"]
        for finding in json.loads(done.stdout)
        if finding["code"] == "TID251"
    }


@pytest.mark.parametrize(("line", "name"), list(enumerate(banned(), start=1)))
def test_a_banned_name_is_refused_with_the_right_door(
    line: int, name: str, complaints: dict[int, str]
) -> None:
    assert complaints[line] == f"`{name}` is banned: {banned()[name]}"


@pytest.mark.parametrize(
    "name",
    [
        "asyncio.create_task",
        "datetime.datetime.now",
        "json.dumps",
        "pickle",
        "random",
        "time.time",
        "urllib.request",
        "uuid.uuid4",
    ],
)
def test_the_name_is_on_the_list(name: str) -> None:
    assert name in banned()
