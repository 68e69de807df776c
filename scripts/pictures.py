"""The pictures of the docs, made from real runs: a shell in a pseudo-terminal, a real kill -9, a real file.

What is drawn is what stood on the screen. Needs the extra `cli`, pexpect and a POSIX system.

Usage: python -m scripts.pictures [--out FOLDER]
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pexpect  # type: ignore[import-untyped]  # it has no types
from rich.console import Console
from rich.text import Text

from scripts.picture_coder import serving
from scripts.small_terminal import SmallTerminal

_COLUMNS, _ROWS = 92, 50
_PATIENCE_S = 10
_CHAT = "windlass chat -m support:support --session ada"
_CODE = "windlass chat --code --model ollama:rules --session cart"
_KILLED = "# kill -9 from another terminal"
_PRICE = "def net(gross: int) -> int:\n    return gross * 100 / 119\n"
_TESTS = """\
import unittest

from shop.price import net


class Net(unittest.TestCase):
    def test_even(self) -> None:
        self.assertEqual(net(119), 100)

    def test_odd(self) -> None:
        self.assertEqual(net(100), 84)

    def test_nothing(self) -> None:
        self.assertEqual(net(0), 0)
"""


class Shell:
    """A shell in a pseudo-terminal; what it shows is kept."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.terminal = SmallTerminal(_COLUMNS)
        own = str(Path(sys.executable).parent)
        env = {
            "PATH": f"{own}:/usr/bin:/bin",
            "PS1": "$ ",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "BASH_SILENCE_DEPRECATION_WARNING": "1",
            **more,
        }
        self._child = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile", "-i"],
            cwd=str(folder),
            env=env,
            encoding="utf-8",
            dimensions=(_ROWS, _COLUMNS),
            timeout=_PATIENCE_S,
        )

    def until(self, shown: Callable[[str], bool]) -> None:
        """Read until the screen is as wanted."""
        while not shown(self.terminal.text.rstrip()):
            try:
                self.terminal.feed(self._child.read_nonblocking(4096, timeout=_PATIENCE_S))
            except (pexpect.TIMEOUT, pexpect.EOF):
                raise SystemExit(f"the screen is not as wanted:\n{self.terminal.text}") from None

    def type(self, line: str) -> None:
        """Type a line."""
        self._child.sendline(line)

    def press_ctrl_d(self) -> None:
        """End the input."""
        self._child.sendeof()

    def kill_chat(self) -> None:
        """End the program that the shell runs, with kill -9, and say so."""
        group = os.tcgetpgrp(self._child.child_fd)
        os.killpg(group, signal.SIGKILL)
        self.until(lambda text: "Killed" in text and text.endswith("$"))
        self.type(_KILLED)
        self.until(lambda text: text.endswith(f"{_KILLED}\n$"))

    def close(self) -> None:
        """Leave."""
        self._child.close(force=True)


def chat_run(folder: Path) -> SmallTerminal:
    """Ask, approve, be killed in mid-sentence, come back."""
    shutil.copy(Path(__file__).with_name("picture_agent.py"), folder / "support.py")
    shell = Shell(folder)
    try:
        shell.until(lambda text: text.endswith("$"))
        shell.type(_CHAT)
        shell.until(lambda text: text.endswith("\n>"))
        shell.type("Order A-17 arrived broken, please help.")
        shell.until(lambda text: "[s]ession >" in text)
        shell.type("y")
        shell.until(lambda text: "Ada gets 9.00 euros" in text)
        shell.kill_chat()
        shell.type(_CHAT)
        shell.until(lambda text: text.count("calls ·") == 1 and text.endswith("\n>"))
    finally:
        shell.close()
    return shell.terminal


def code_run(folder: Path) -> SmallTerminal:
    """Ask for a change, be killed while its diff waits, come back, and allow it."""
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "price.py").write_text(_PRICE, encoding="utf-8")
    (folder / "test_price.py").write_text(_TESTS, encoding="utf-8")
    with serving() as address:
        shell = Shell(folder, OLLAMA_BASE_URL=address)
        try:
            shell.until(lambda text: text.endswith("$"))
            shell.type(_CODE)
            shell.until(lambda text: text.endswith("\n>"))
            shell.type("Prices should be whole cents.")
            shell.until(lambda text: "[s]ession >" in text)
            shell.kill_chat()
            shell.type(_CODE)
            shell.until(lambda text: text.count("[s]ession >") == 2)
            shell.type("y")
            shell.until(lambda text: text.count("[s]ession >") == 3)
            shell.type("y")
            shell.until(lambda text: text.count("calls ·") == 1 and text.endswith("\n>"))
        finally:
            shell.close()
    return shell.terminal


def draw(terminal: SmallTerminal, title: str) -> str:
    """Return what stands on the screen as SVG."""
    console = Console(
        record=True,
        width=_COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Text.from_ansi(terminal.ansi.rstrip()))
    # Without the fonts that rich would let a browser fetch: a picture fetches nothing.
    return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title=title), flags=re.DOTALL)


_RUNS = (("chat", "windlass chat", chat_run), ("code", "windlass chat --code", code_run))


def main() -> int:
    """Draw them all."""
    parser = argparse.ArgumentParser(prog="python -m scripts.pictures")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, title, run in _RUNS:
        with tempfile.TemporaryDirectory(prefix="windlass-pictures-") as folder:
            terminal = run(Path(folder))
        file = options.out / f"{name}.svg"
        file.write_text(draw(terminal, title), encoding="utf-8")
        print(file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
