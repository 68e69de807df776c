"""What a person types: one line, or several.

A line that ends with a backslash goes on in the next one; three double quotes begin a block that ends with three
more; what is pasted stays together where the terminal says what was pasted (bracketed paste).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from windlass.cli.keys import environment

BLOCK: Final = '"""'
_MARK: Final = "> "
_MORE: Final = "… "


@contextmanager
def prepared_terminal() -> Iterator[None]:
    """Let lines be edited, pasted lines stay together, and Ctrl-C leave no sign in what is drawn anew."""
    if not sys.stdin.isatty():
        yield
        return
    _use_readline()
    try:
        import termios  # noqa: PLC0415 - not there on every system
    except ImportError:
        yield
        return
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    quiet = [*before[:3], before[3] & ~termios.ECHOCTL, *before[4:]]
    termios.tcsetattr(file, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def _use_readline() -> None:
    try:
        import readline  # noqa: PLC0415 - not there on every system; lines can be read all the same
    except ImportError:
        return
    if environment().get("TERM", "dumb") != "dumb":
        readline.parse_and_bind("set enable-bracketed-paste on")
    readline.parse_and_bind("tab: self-insert")


def read_message(read_line: Callable[[str], str]) -> str:
    """Return what somebody says.

    Raises:
        EOFError: there is no more.
        KeyboardInterrupt: they thought better of it.
    """
    line = read_line(_MARK)
    if line.lstrip().startswith(BLOCK):
        return _block(line.lstrip().removeprefix(BLOCK), read_line)
    lines = []
    while line.endswith("\\"):
        lines.append(line[:-1])
        line = read_line(_MORE)
    return "\n".join([*lines, line])


def _block(first: str, read_line: Callable[[str], str]) -> str:
    lines = []
    line = first
    while not line.rstrip().endswith(BLOCK):
        lines.append(line)
        line = read_line(_MORE)
    lines.append(line.rstrip().removesuffix(BLOCK))
    return "\n".join(lines).strip("\n")


def terminal_line(mark: str, filled: str = "") -> str:
    """Read one line from the terminal, with `filled` in it to begin with."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")
    if not filled:
        return input(mark)
    try:
        import readline  # noqa: PLC0415 - see _use_readline
    except ImportError:
        return input(mark)
    readline.set_startup_hook(lambda: readline.insert_text(filled))
    try:
        return input(mark)
    finally:
        readline.set_startup_hook(None)
