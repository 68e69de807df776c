"""The command as people start it: a process of its own, and a pseudo-terminal for the conversation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]  # it has no types

import windlass as package
from scripts.small_terminal import SmallTerminal
from tests.limits import HANGS_S

COMMAND = [sys.executable, "-m", "windlass"]
AGENTS = Path(__file__).parent / "agents"
COLUMNS, ROWS = 100, 40
_PRESSED_AGAIN_S = 3.0
_LOOK_S = 0.05
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


def take_sigint() -> None:
    """Let a child be interrupted although this run ignores SIGINT, as under nohup: children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def clean_environment(**more: str) -> dict[str, str]:
    """An environment without settings and keys, with the agents of the tests to be found.

    What is imported here is imported there: a tree that is not installed is tested as it is.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    folders = (str(AGENTS), str(Path(package.__file__).parents[1]))
    return {**kept, "PYTHONPATH": os.pathsep.join(folders), "PYTHONUTF8": "1", **more}


def windlass(
    *args: str, cwd: Path, env: dict[str, str] | None = None, said: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *args],
        cwd=cwd,
        env=clean_environment() if env is None else env,
        input=said,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )


def values(done: subprocess.CompletedProcess[str]) -> list[Any]:
    """What a command with --json printed."""
    return [json.loads(line) for line in done.stdout.splitlines()]


class Chat:
    """`windlass chat` in a pseudo-terminal, and what stands on its screen."""

    def __init__(self, folder: Path, *args: str, **env: str) -> None:
        self.terminal = SmallTerminal(COLUMNS)
        self.raw = ""
        self._child = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], "chat", *args],
            cwd=str(folder),
            env=clean_environment(TERM="xterm-256color", **env),
            encoding="utf-8",
            dimensions=(ROWS, COLUMNS),
            timeout=HANGS_S,
            preexec_fn=take_sigint,
        )
        # Lines are typed when they are asked for; nothing has to be waited for before.
        self._child.delaybeforesend = None

    @property
    def screen(self) -> str:
        return self.terminal.text

    def until(self, text: str, *, count: int = 1) -> None:
        """Wait until a text stands on the screen so often."""
        deadline = time.monotonic() + HANGS_S
        while self.screen.count(text) < count:
            assert time.monotonic() < deadline, f"no {text!r} on the screen:\n{self.screen}"
            self._read()

    def until_there(self, is_there: Callable[[], bool]) -> None:
        """Wait until something is the case outside of the terminal, and read what the process writes meanwhile."""
        deadline = time.monotonic() + HANGS_S
        while not is_there():
            assert time.monotonic() < deadline, f"it does not come; on the screen:\n{self.screen}"
            self._read_for(_LOOK_S)

    def until_asked(self) -> None:
        """Wait for an empty prompt on the last line."""
        deadline = time.monotonic() + HANGS_S
        while self.screen.rstrip("\n").rpartition("\n")[2] != ">":
            assert time.monotonic() < deadline, f"no prompt on the screen:\n{self.screen}"
            self._read()

    def say(self, text: str) -> None:
        self.until_asked()
        self._child.sendline(text)

    def type(self, text: str) -> None:
        self._child.send(text)

    def answer(self, text: str) -> None:
        """Type a line at a question."""
        self._child.sendline(text)

    def press_ctrl_c(self) -> None:
        self._child.sendintr()

    def leave_with_ctrl_c(self) -> int | None:
        """Press it at the prompt until the process ends; return its exit code.

        Python does not see one that comes between the prompt's appearance and the wait for a key. Then a person
        presses again, and so do we.
        """
        deadline = time.monotonic() + HANGS_S
        is_there = True
        while is_there:
            assert time.monotonic() < deadline, f"it does not end:\n{self.screen}"
            self.until_asked()
            self.press_ctrl_c()
            is_there = self._read_for(_PRESSED_AGAIN_S)
        return self.end()

    def press_ctrl_d(self) -> None:
        self._child.sendeof()

    def kill(self) -> None:
        """kill -9."""
        os.kill(self._child.pid, signal.SIGKILL)
        self.end()

    def end(self) -> int | None:
        """Wait for the process; return its exit code, None if a signal ended it."""
        deadline = time.monotonic() + HANGS_S
        while self._read():
            assert time.monotonic() < deadline, f"it does not end:\n{self.screen}"
        self._child.wait()  # closing alone does not wait long enough for a busy machine
        self._child.close()
        status: int | None = self._child.exitstatus
        return status

    def close(self) -> None:
        if not self._child.closed and self._child.isalive():
            self.kill()

    def _read_for(self, seconds: float) -> bool:
        """Read until it asks again or time is up; return whether the process is still there."""
        asked = self.screen.count("\n>")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.screen.count("\n>") == asked:
            if not self._read():
                return False
        return True

    def _read(self) -> bool:
        try:
            text = self._child.read_nonblocking(4096, timeout=0.05)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += text
        self.terminal.feed(text)
        return True


Begin = Callable[..., Chat]
"""Begins a conversation with these arguments and this environment."""


def lines(folder: Path, name: str) -> list[str]:
    """Return what an agent of the tests wrote into a file."""
    file = folder / name
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
