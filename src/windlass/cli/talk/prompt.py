"""What a person types: a message of one or several lines, or the answer to a question.

A line that ends with a backslash continues on the next one; three double quotes start a block that ends with three
more; pasted lines stay together where the terminal supports bracketed paste.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal

import msgspec
from rich.console import Console, ConsoleOptions
from rich.panel import Panel
from rich.text import Text

from windlass.cli.arguments import read_arguments
from windlass.cli.keys import clean, environment
from windlass.cli.questions import (
    answer_to,
    folded,
    risk_of,
    wait_args,
    whole_call,
    whole_question,
)
from windlass.cli.talk.screen import Screen
from windlass.cli.terminal import exact, short_key
from windlass.errors import InvalidInput, WindlassError
from windlass.guards.text import visible
from windlass.kernel import canonical
from windlass.ports import Wait

BLOCK: Final = '"""'
_MARK: Final = "> "
_MORE: Final = "… "
_CHOICES: Final = "[y]es  [n]o  [e]dit  [s]ession > "
_ANSWER: Final = "answer > "
_CHOICES_HELP: Final = (
    "  y allows it · n REASON denies it · e edits the arguments first\n"
    "  s allows this tool in this session from now on · Ctrl-D leaves the question open"
)
ReadLine = Callable[[str, str], str]


@contextmanager
def prepared_terminal() -> Iterator[None]:
    """Turn on line editing and bracketed paste, and do not echo Ctrl-C into the live region."""
    if not sys.stdin.isatty():
        yield
        return
    _use_readline()
    try:
        import termios  # noqa: PLC0415 - not on every system
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
        import readline  # noqa: PLC0415 - not on every system; lines can be read without it
    except ImportError:
        return
    if environment().get("TERM", "dumb") != "dumb":
        readline.parse_and_bind("set enable-bracketed-paste on")
    readline.parse_and_bind("tab: self-insert")


def forget_typed_ahead() -> None:
    """Drop what was typed before a question is shown: it cannot be the answer to it."""
    try:
        import termios  # noqa: PLC0415 - not on every system
    except ImportError:
        return
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def read_message(read_line: Callable[[str], str]) -> str:
    """Return the next message.

    Raises:
        EOFError: the input has ended.
        KeyboardInterrupt: the user pressed Ctrl-C.
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
    """Read one line from the terminal; the user may edit `filled`, the text to start from."""
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


# ---------------------------------------------------------------------- an approval


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The user's decision, or what they say; `later` leaves the question open."""

    kind: Literal["yes", "no", "said", "later"]
    edit: dict[str, Any] | None = None
    remember: Literal["once", "session"] = "once"
    reason: str = ""
    value: Any = None


def ask(screen: Screen, wait: Wait, read_line: ReadLine) -> Answer:
    """Show an approval with its arguments and read the user's decision."""
    screen.print(_panel(wait, screen.width))
    while True:
        try:
            word, _, rest = read_line(_CHOICES, "").strip().partition(" ")
            answer = _answer(word.lower(), rest.strip(), wait, read_line)
        except (EOFError, KeyboardInterrupt):
            return Answer(kind="later")
        except WindlassError as error:
            screen.say(f"  {error}", "yellow")
            continue
        if answer is not None:
            return answer
        screen.say(_CHOICES_HELP)


def ask_question(screen: Screen, wait: Wait, read_line: ReadLine) -> Answer:
    """Show a question and read what a person says to it."""
    screen.print(
        Panel(
            _Folded(whole_question(wait), at_words=True),
            title=Text("A question for you", "bold cyan"),
            title_align="left",
            subtitle=Text(f"key {short_key(wait.key)}… · Ctrl-D answers later", style="dim"),
            subtitle_align="left",
            border_style="cyan",
        )
    )
    while True:
        try:
            said = read_line(_ANSWER, "").strip()
        except (EOFError, KeyboardInterrupt):
            return Answer(kind="later")
        try:
            if said:
                return Answer(kind="said", value=answer_to(wait, said))
        except WindlassError as error:
            screen.say(f"  {error}", "yellow")


def _answer(word: str, rest: str, wait: Wait, read_line: ReadLine) -> Answer | None:
    if word in ("n", "no"):
        return Answer(kind="no", reason=rest)
    if rest:  # "yes, but …" allows nothing
        return None
    if word in ("y", "yes"):
        return Answer(kind="yes")
    if word in ("s", "session"):
        return Answer(kind="yes", remember="session")
    if word in ("e", "edit"):
        return Answer(kind="yes", edit=_edited(wait_args(wait) or {}, read_line))
    return None


def _edited(args: Mapping[str, Any], read_line: ReadLine) -> dict[str, Any]:
    """Let the user edit arguments.

    Raises:
        InvalidInput: there is a key in them, or what the user wrote is not a JSON object.
    """
    written = canonical.encode(args).decode()
    if clean(written) != written:
        # What is shown in place of the key would run.
        told = "n REASON tells the model what to do instead, y runs them as they are"
        raise InvalidInput(
            f"edit: the arguments hold a key that is not shown; {told}", field="edit"
        )
    return read_arguments("edit", read_line("arguments > ", visible(written)))


class _Folded:
    """What a panel asks, folded to the room that there is."""

    def __init__(self, shown: Text, *, at_words: bool = False) -> None:
        self._shown = shown
        self._at_words = at_words

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield folded(self._shown, options.max_width, at_words=self._at_words)


def _panel(wait: Wait, width: int) -> Panel:
    shown, risk = whole_call(wait), risk_of(wait)
    title = exact(wait.title or "May this run?", "bold yellow")
    if len(title) > width:
        # A border is cut to the width of the terminal; what a person decides by is not.
        shown, title = Text.assemble(title, "\n\n", shown), Text("May this run?", "bold yellow")
    return Panel(
        _Folded(shown),
        title=title,
        title_align="left",
        subtitle=Text(f"key {short_key(wait.key)}…{risk and f' · risk {risk}'}", style="dim"),
        subtitle_align="left",
        border_style="yellow",
    )
