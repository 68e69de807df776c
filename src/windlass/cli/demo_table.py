"""The demo's table: what each process added to the journal, one line for each thing, on a terminal.

Law 1. A line is made of what the store holds, never of what a process says about itself.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping
from typing import Literal, TextIO

import msgspec

from windlass import journal
from windlass.journal.keys import call_key
from windlass.kernel import Json, ModelFailure, ModelReply, ToolCall, ToolOutcome
from windlass.kernel.tool_call import as_text
from windlass.ports import TurnView

COLUMNS = 100
_WIDTHS = (8, 30, 37, 22)
_HEADS = ("what", "asked", "came back", "how")
_GAP = " "

_CODES = {
    "bold": "1", "dim": "2", "red": "1;31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36",
}  # fmt: skip
Color = Literal["bold", "dim", "red", "green", "yellow", "magenta", "cyan"]


class Line(msgspec.Struct, frozen=True):
    """One line: what did something, what it was asked, what came back, and how."""

    what: str
    asked: str = ""
    answered: str = ""
    how: str = ""
    color: Color | None = None


class Call(msgspec.Struct, kw_only=True):
    """A tool call as the journal has it; `cut_off`: a process died in the middle of it."""

    name: str
    args: Mapping[str, Json]
    cut_off: bool = False
    outcome: ToolOutcome | None = None


class Story:
    """Follows a turn from process to process: after each, it gets the turn as stored and tells what is new."""

    def __init__(self) -> None:
        self._pages = 0
        self._commands: dict[str, journal.Command] = {}
        self._contracts: dict[str, str] = {}
        self._calls: dict[str, Call] = {}
        self._waits: dict[str, str] = {}
        self._replies = 0

    def recorded(self) -> str:
        """Say what is recorded so far, and so is never run again."""
        done = [call.name for call in self._calls.values() if call.outcome is not None]
        return ", ".join([f"{self._replies} replies", *done]) if self._replies else ""

    def lines(self, turn: TurnView, *, killed: bool) -> Iterator[Line]:
        """Yield what is new in the turn; `killed` says how the process ended."""
        new = turn.pages[self._pages :]
        self._pages = len(turn.pages)
        for entry in (entry for page in new for entry in page.entries):
            line = self._line(entry)
            if line is not None:
                yield line
        if killed:
            yield from self._cut_off()
        yield from self._waiting(turn)

    def _line(self, entry: journal.Entry) -> Line | None:
        if isinstance(entry, journal.TurnStarted):
            self._contracts = {each.tool: each.effect for each in entry.contracts}
            return None
        if not isinstance(entry, journal.Claimed | journal.Recorded):
            return None
        key = call_key(entry.key)
        command = entry.command or self._commands.get(key)
        if command is None:
            return None
        self._commands[key] = command
        outcome = entry.outcome if isinstance(entry, journal.Recorded) else None
        if isinstance(command, journal.ModelCallCommand) and isinstance(
            outcome, journal.ModelAnswered
        ):
            return self._reply(command, outcome.result)
        if isinstance(command, journal.ToolCallCommand) and isinstance(entry, journal.Claimed):
            self._call(key, command)
        if isinstance(command, journal.ToolCallCommand) and isinstance(
            outcome, journal.CallReturned
        ):
            return self._result(self._call(key, command), outcome.outcome)
        return None

    def _call(self, key: str, command: journal.ToolCallCommand) -> Call:
        return self._calls.setdefault(key, Call(name=command.name, args=command.args))

    def _reply(self, command: journal.ModelCallCommand, result: ModelReply | ModelFailure) -> Line:
        asked = f"{command.request.message_count} messages"
        if isinstance(result, ModelFailure):
            return Line("model", asked, result.message, "failed", "red")
        self._replies += 1
        wanted = [
            f"{part.name}({_as_code(part.args)})"
            for part in result.parts
            if isinstance(part, ToolCall)
        ]
        answered = ", ".join(wanted) or "text, and no more calls"
        return Line("model", asked, answered, "called", "cyan")

    def _result(self, call: Call, outcome: ToolOutcome) -> Line:
        call.outcome = outcome
        said = outcome.value if outcome.value is not None else f"({outcome.status})"
        how, color = self._how(call)
        return Line(call.name, _as_code(call.args), as_text(said), how, color)

    def _how(self, call: Call) -> tuple[str, Color | None]:
        contract = self._contracts.get(call.name, "once")
        if not call.cut_off:
            return f"{contract}: ran", None
        if call.outcome is not None and call.outcome.status == "unknown":
            return f"{contract}: not run again", "yellow"
        again = "again, same key" if contract == "keyed" else "ran again"
        return f"{contract}: {again}", "yellow"

    def _cut_off(self) -> Iterator[Line]:
        for call in self._calls.values():
            if call.outcome is None:
                call.cut_off = True
                how = f"{self._contracts.get(call.name, 'once')}: no result"
                yield Line(call.name, _as_code(call.args), "KILLED (signal 9)", how, "red")

    def _waiting(self, turn: TurnView) -> Iterator[Line]:
        for view in turn.waits:
            before = self._waits.get(view.wait.key)
            self._waits[view.wait.key] = view.state
            if before == view.state:
                continue
            by = view.answer.by if view.answer is not None else None
            asked = f"{view.wait.kind}: {view.wait.title}"
            answered = f"{view.state} by {by}" if by else view.state
            how = "stored, no process" if view.state == "open" else "from outside"
            yield Line("wait", asked, answered, how, "magenta")


def _as_code(args: Mapping[str, Json]) -> str:
    return ", ".join(map(repr, args.values()))


# ---------------------------------------------------------------------- the terminal


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """What the terminal can show."""

    color: bool
    unicode: bool

    @classmethod
    def of(cls, stream: TextIO, *, plain: bool) -> Style:
        """Decide by the stream, NO_COLOR and what the user asked for."""
        # A setting of terminals, not of windlass: see no-color.org.
        is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"  # noqa: TID251
        is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
        return cls(color=not plain and is_wanted and stream.isatty(), unicode=not plain and is_utf8)

    def paint(self, text: str, color: Color | None) -> str:
        """Return `text` in a color, if colors may be shown."""
        if color is None or not self.color:
            return text
        return f"\x1b[{_CODES[color]}m{text}\x1b[0m"

    def rule(self) -> str:
        """Return a line under a head."""
        dash = "─" if self.unicode else "-"
        return self.paint(_GAP.join(dash * width for width in _WIDTHS), "dim")

    def sign(self, sign: str, plain: str) -> str:
        """Return a sign, or its ASCII form where only ASCII can be shown."""
        return sign if self.unicode else plain

    def cut(self, text: str, width: int) -> str:
        """Return `text` in at most `width` characters, marked where it was cut."""
        dots = self.sign("…", "...")
        return text if len(text) <= width else text[: width - len(dots)] + dots


class Table:
    """A table that grows line by line on a stream, 100 columns wide at most."""

    def __init__(self, stream: TextIO, style: Style) -> None:
        self.style = style
        self._stream = stream

    def say(self, text: str = "", color: Color | None = None) -> None:
        """Write a line beside the table, at once."""
        self._stream.write(self.style.paint(text, color) + "\n")
        self._stream.flush()

    def tell(self, label: str, text: str, color: Color | None = None) -> None:
        """Write text beside a label, on as many lines as it needs."""
        lines = textwrap.wrap(text, COLUMNS - 11)
        for at, line in enumerate(lines):
            self.say(f"{label if at == 0 else '':<10} {line}", color)

    def head(self) -> None:
        """Write the head of the table."""
        self.say(self._line(_HEADS), "bold")
        self.say(self.style.rule())

    def row(self, *cells: str, color: Color | None = None) -> None:
        """Write one line of the table."""
        self.say(self._line(cells), color)

    def _line(self, cells: tuple[str, ...]) -> str:
        placed = [
            self.style.cut(cell, width).ljust(width)
            for cell, width in zip(cells, _WIDTHS, strict=True)
        ]
        return _GAP.join(placed).rstrip()
