"""kill -9 of windlass in the middle of a command: the command is ended, its outcome is unknown, it never runs again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.toolkit.shell_scene import UP, Scene

START = [sys.executable, "-m", "tests.toolkit.shell_process"]


@pytest.mark.parametrize(
    "waits",
    [
        "sleep 1000",
        "trap '' TERM HUP INT; setsid nohup sleep 1001 & sleep 1000",
        "while :; do echo output; done",
    ],
    ids=["plain", "deaf", "printing"],
)
def test_a_killed_windlass_leaves_no_process_and_the_command_is_not_run_again(
    tmp_path: Path, waits: str
) -> None:
    scene = Scene(tmp_path)
    command = f"export SCENE={scene.token}; echo ran >>ran; exec 9>pipe; setsid sleep 1002 & {UP}; {waits}"
    with subprocess.Popen([*START, str(tmp_path), command], stdout=subprocess.DEVNULL) as first:
        scene.wait_until_up()
        first.kill()
        assert first.wait(HANGS_S) == -signal.SIGKILL
    scene.wait_until_gone()

    assert scene.alive() == []
    for _ in range(2):  # what is over stays over
        later = subprocess.run(
            [*START, str(tmp_path), command],
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
        assert later.returncode == 0, later.stderr
        assert later.stdout.splitlines()[0] == "unknown"
        assert "not known" in later.stdout
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_a_keeper_that_was_stopped_goes_on_when_windlass_is_killed(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    command = f"export SCENE={scene.token}; exec 9>pipe; setsid sleep 1002 & kill -STOP $PPID; {UP}; sleep 1000"
    with subprocess.Popen([*START, str(tmp_path), command], stdout=subprocess.DEVNULL) as first:
        scene.wait_until_up()
        first.kill()
    scene.wait_until_gone()

    assert scene.alive() == []


def test_a_forked_child_that_holds_the_pipes_of_a_killed_windlass_keeps_no_command_alive(
    tmp_path: Path,
) -> None:
    """The end of the pipe never comes; the keeper sees that it has another parent."""
    scene = Scene(tmp_path)
    until_forked = "while [ ! -e forked ]; do sleep 0.01; done"
    command = (
        f"export SCENE={scene.token}; echo ran >>ran; exec 9>pipe; {until_forked}; {UP}; sleep 1000"
    )
    with subprocess.Popen(
        [*START, str(tmp_path), command, "fork"], stdout=subprocess.DEVNULL
    ) as first:
        scene.wait_until_up()
        first.kill()
    child = int((tmp_path / "forked").read_text())
    try:
        scene.wait_until_gone()
        assert len(scene.alive()) == 1  # the child, which has the command among its arguments
    finally:
        os.kill(child, signal.SIGKILL)
