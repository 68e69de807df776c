"""Standard streams as shells leave them: closed, full, cut off, in another encoding; and a folder that is gone."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.started import COMMAND, clean_environment, windlass
from tests.limits import HANGS_S


def shell(line: str, folder: Path, said: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which $W is the command."""
    return subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env=clean_environment(W=" ".join(COMMAND), WINDLASS_MODEL="demo", **env),
        input=said,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    done = windlass("run", "hello", "--session", "s", "--model", "demo", cwd=tmp_path)
    assert done.returncode == 0
    return tmp_path


@pytest.mark.parametrize("command", ["--help", "sessions", "sessions --json", "models", "run hi"])
def test_a_closed_output_is_no_defect(command: str, folder: Path) -> None:
    done = shell(f"$W {command} >&-", folder)

    assert (done.returncode, done.stdout) == (0, "")
    assert "defect" not in done.stderr


@pytest.mark.parametrize(("command", "code"), [("run", 2), ("chat", 0), ("chat --json", 0)])
def test_a_closed_input_is_an_empty_one(command: str, code: int, folder: Path) -> None:
    done = shell(f"$W {command} <&-", folder)

    assert done.returncode == code
    assert "defect" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["--help", "sessions", "sessions --json", "chat --help"])
def test_a_full_disk_behind_the_output_is_said_and_ends_with_74(
    command: str, unbuffered: str, folder: Path
) -> None:
    done = shell(f"$W {command} >/dev/full", folder, PYTHONUNBUFFERED=unbuffered)

    assert done.returncode == 74
    assert done.stderr == "windlass: standard output: No space left on device\n"


@pytest.mark.parametrize("command", ["sessions", "models", "doctor", "chat --help", "--help"])
def test_a_reader_that_went_away_ends_it_with_141(command: str, folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*COMMAND, *command.split()],
            cwd=folder,
            env=clean_environment(),
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=HANGS_S,
        )
    finally:
        os.close(write)

    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("command", ["sessions", "run hi", "doctor", "bench", "waits --json"])
def test_a_folder_that_is_gone_is_a_line_and_2(command: str, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()

    done = shell(f"cd gone && rmdir ../gone && $W {command}", tmp_path)

    assert done.returncode == 2
    assert "No such file or directory" in done.stderr
    assert "defect" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_loses_nothing_in_another_encoding(encoding: str, tmp_path: Path) -> None:
    said = "héllo € 😀"
    env = clean_environment(PYTHONIOENCODING=encoding, WINDLASS_MODEL="demo")

    done = windlass("run", said, "--json", cwd=tmp_path, env=env)

    assert done.stdout.isascii()
    assert said in json.loads(done.stdout)["text"]
