"""A folder in which commands run, and what the tests see of their processes: through /proc, and through a pipe.

A command that ran `exec 9>pipe` hands its end of the pipe to all that it starts: when the pipe ends, they are gone.
"""

from __future__ import annotations

import os
import re
import secrets
import select
from pathlib import Path
from typing import Any

from tests.limits import HANGS_S
from windlass.ports.tool import ToolContext
from windlass.toolkit import shell

# How a command says that all it started is up: its last act before it waits.
UP = "echo up >&9"


class Scene:
    """A folder with a pipe, and a token that the environment and the arguments of processes carry."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = f"scene-{secrets.token_hex(8)}"
        os.mkfifo(folder / "pipe")
        self._pipe: int | None = None

    async def run(self, command: str, *, seconds: float | None = None, **options: Any) -> str:
        """Run a command with a tool of its own, and return what the model reads, its seconds as T."""
        runner = shell(self.folder, env={"SCENE": self.token}, **options)
        args = {"command": command} if seconds is None else {"command": command, "timeout": seconds}
        said = await runner.run(ToolContext(deps=None), runner.check(args))
        assert isinstance(said, str)
        return without_seconds(said)

    def wait_until_up(self) -> None:
        """Wait for a line in the pipe."""
        self._pipe = os.open(self.folder / "pipe", os.O_RDONLY)
        assert os.read(self._pipe, 3) == b"up\n"

    def wait_until_gone(self) -> None:
        """Wait until no process holds the pipe."""
        assert self._pipe is not None
        while True:
            ready, _, _ = select.select((self._pipe,), (), (), HANGS_S)
            assert ready, "some process holds the pipe"
            if not os.read(self._pipe, 100):
                break
        os.close(self._pipe)

    def alive(self) -> list[str]:
        """Return the command lines of all processes that carry the token."""
        return [line for line, _ in self._carriers()]

    def states(self) -> list[str]:
        """Return their states, as letters: T is stopped."""
        return [state for _, state in self._carriers()]

    def _carriers(self) -> list[tuple[str, str]]:
        return [(line, state) for line, state in _everybody() if self.token in line]


def without_seconds(said: str) -> str:
    return re.sub(r"\d+\.\d s(?=[]:])", "T s", said)


def _everybody() -> list[tuple[str, str]]:
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            told = (process / "cmdline").read_bytes() + b" " + (process / "environ").read_bytes()
        except OSError:
            continue
        if state not in "ZX":
            lines.append((told.replace(b"\0", b" ").decode(errors="replace"), state))
    return lines
