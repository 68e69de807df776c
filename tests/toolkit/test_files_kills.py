"""A process is killed at every step of a write: each file is old or new, and the same call again makes all of it new, once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.toolkit.files_killed import BIG, UNOPENED

ROOT = Path(__file__).parents[2]
OLD = {"a.txt": "a\nb\n", "d.txt": "d\n"}
NEW: dict[str, dict[str, str | None]] = {
    "make": {"new/folder/c.txt": BIG},
    "replace": {"a.txt": BIG},
    "edit": {"a.txt": "a\nbb\n"},
    "patch": {"a.txt": "a\nB\n", "new/folder/c.txt": "c\n", "d.txt": None},
    "pair": {"a.txt": "a\nx\nb\n", "d.txt": "D\n"},
}


def lives(folder: Path, call: str, between: str) -> list[dict[str, Any]]:
    """Return what the program says of each of its lives."""
    command = [sys.executable, "-m", "tests.toolkit.files_killed", str(folder), call, between]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def after(call: str) -> dict[str, str]:
    changed: dict[str, str | None] = {**OLD, **NEW[call]}
    return {path: text for path, text in changed.items() if text is not None}


def is_old_or_new(left: dict[str, str], call: str) -> bool:
    paths = OLD.keys() | NEW[call].keys()
    return left.keys() <= paths and all(
        left.get(path) in (OLD.get(path), NEW[call].get(path, OLD.get(path))) for path in paths
    )


@pytest.mark.parametrize("call", ["make", "replace", "edit", "patch"])
def test_killed_at_any_step_a_call_is_done_once_when_it_runs_again(
    call: str, tmp_path: Path
) -> None:
    told = lives(tmp_path / "root", call, "nobody")

    assert len(told) > 40, "few steps were found to die at"
    for life in told:
        assert is_old_or_new(life["left"], call), life
        assert life["status"] == "ok", life
        assert life["then"] == after(call), life
        assert life["mode"] == "0o640", life
        assert life["halves"] == 0, life
    # All were met: nothing done yet, all of it done, and of a patch that changes three files one, and two of them.
    assert told[0]["left"] == OLD
    assert told[-1]["left"] == after(call)
    assert len({json.dumps(life["left"], sort_keys=True) for life in told}) == 1 + len(NEW[call])


@pytest.mark.parametrize("call", ["replace", "edit", "patch"])
def test_what_a_person_wrote_between_the_attempts_stays(call: str, tmp_path: Path) -> None:
    told = lives(tmp_path / "root", call, "person")

    for life in told:
        assert is_old_or_new(life["left"], call), life
        assert life["then"]["a.txt"] == "mine\n", life
        assert life["status"] == "tool_error", life
        # The other files of the call are as the crash left them: the model is told which those are.
        others = {path: text for path, text in life["then"].items() if path != "a.txt"}
        assert others == {path: text for path, text in life["left"].items() if path != "a.txt"}
    assert "a.txt: changed by someone else since this call began; left alone." in told[-1]["answer"]


@pytest.mark.parametrize("fault", ["full", "broken", "cancelled", "read_only", "linked"])
def test_an_attempt_that_fails_says_what_the_one_before_it_had_changed(
    fault: str, tmp_path: Path
) -> None:
    """A model that reads "no file was changed" makes the call anew, and what was inserted is there twice."""
    told = lives(tmp_path / "root", "pair", fault)

    for life in told:
        changed = [path for path, text in NEW["pair"].items() if life["left"][path] == text]
        assert life["then"]["a.txt"] == life["left"]["a.txt"] or life["status"] == "ok", life
        if life["status"] != "ok" and changed:
            known = [path for path in changed if fault != "linked" or path != "d.txt"]
            assert "was changed" not in life["answer"], life
            assert f"Changed before that: {', '.join(known)}." in life["answer"], life
        if life["status"] == "tool_uncertain":
            assert fault == "linked", life
            assert life["answer"].endswith(" Not known: d.txt."), life
        # Once nothing is in its way, the same call goes on to its end.
        assert (life["last"], life["finally"]) == ("ok", after("pair")), life
    # A kill between the two files was met, and the attempt after it failed.
    halfway = [life for life in told if life["left"] == {**OLD, "a.txt": "a\nx\nb\n"}]
    assert halfway
    assert all(life["status"] in ("tool_error", "tool_uncertain") for life in halfway)


@pytest.mark.parametrize("name", UNOPENED)
def test_an_attempt_that_cannot_look_at_what_the_one_before_it_did_does_not_know_it(
    name: str, tmp_path: Path
) -> None:
    told = lives(tmp_path / "root", "pair", f"unopened {name}")

    for life in told:
        assert life["status"] == "tool_uncertain", life
        assert "cannot be opened (Too many open files)" in life["answer"], life
        assert life["answer"].endswith(
            "An earlier attempt of this call may have changed files: read them and go on from there."
        ), life
        assert "was changed" not in life["answer"], life
        assert life["then"] == life["left"], life
        assert (life["last"], life["finally"]) == ("ok", after("pair")), life
