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
from windlass.kernel import Json, ModelFailure, ModelReply, ToolCall, ToolOutcome
from windlass.kernel.tool_call import as_text
from windlass.ports import TurnView

COLUMNS = 100
_WIDTHS = (8, 30, 37, 22)
_HEADS = ("what", "asked", "came back", "how")

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


class Story:
    """Follows a turn from process to process: after each, it gets the turn as stored and tells what is new."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._cut_off: set[str] = set()
        self._replies = 0
        self._done: list[str] = []

    def lines(
        self, turn: TurnView, *, resumed: bool = False, killed: bool = False
    ) -> Iterator[Line]:
        """Yield what is new in the turn. A process that `resumed` it repeats nothing; one that was `killed` left calls."""
        if resumed and self._replies:
            recorded = ", ".join([f"{self._replies} replies", *self._done])
            yield Line("journal", "earlier requests", recorded, "recorded, not repeated", "dim")
        folded = turn.journal()
        declared = () if folded.started is None else folded.started.contracts
        contracts = {each.tool: each.effect for each in declared}
        for row in folded.rows():
            if row.key in self._told:
                continue
            match row.command, row.outcome:
                case journal.ModelCallCommand() as asked, journal.ModelAnswered(result=result):
                    yield self._reply(asked, result)
                case journal.ToolCallCommand() as call, journal.CallReturned(outcome=outcome):
                    contract = contracts.get(call.name, "once")
                    yield self._result(call, outcome, contract, cut_off=row.key in self._cut_off)
                case journal.ToolCallCommand() as call, None if killed:
                    self._cut_off.add(row.key)
                    how = f"{contracts.get(call.name, 'once')}: no result"
                    yield Line(call.name, _as_code(call.args), "KILLED (signal 9)", how, "red")
                    continue
                case _:
                    continue
            self._told.add(row.key)
        yield from self._waiting(turn)

    def _reply(self, command: journal.ModelCallCommand, result: ModelReply | ModelFailure) -> Line:
        asked = f"{command.request.message_count} messages"
        if isinstance(result, ModelFailure):
            return Line("model", asked, result.message, "failed", "red")
        self._replies += 1
        calls = [part for part in result.parts if isinstance(part, ToolCall)]
        wanted = ", ".join(f"{call.name}({_as_code(call.args)})" for call in calls)
        return Line("model", asked, wanted or "text, and no more calls", "called", "cyan")

    def _result(
        self, call: journal.ToolCallCommand, outcome: ToolOutcome, contract: str, *, cut_off: bool
    ) -> Line:
        self._done.append(call.name)
        said = as_text(outcome.value if outcome.value is not None else f"({outcome.status})")
        how = "ran"
        if cut_off and outcome.status == "unknown":
            how = "not run again"
        elif cut_off:
            how = "again, same key" if contract == "keyed" else "ran again"
        color: Color | None = "yellow" if cut_off else None
        return Line(call.name, _as_code(call.args), said, f"{contract}: {how}", color)

    def _waiting(self, turn: TurnView) -> Iterator[Line]:
        for view in turn.waits:
            if (known := f"{view.wait.key} {view.state}") in self._told:
                continue
            self._told.add(known)
            by = view.answer.by if view.answer is not None else None
            asked = f"{view.wait.kind}: {view.wait.title}"
            answered = f"{view.state} by {by}" if by else view.state
            how = "stored, no process" if view.state == "open" else "from outside"
            yield Line("wait", asked, answered, how, "magenta")


def _as_code(args: Mapping[str, Json]) -> str:
    return ", ".join(map(repr, args.values()))


# ---------------------------------------------------------------------- the terminal


class Table:
    """A table that grows line by line on a stream, 100 columns wide at most.

    It has colors and signs where the stream, NO_COLOR and the user want them.
    """

    def __init__(self, stream: TextIO, *, plain: bool = False) -> None:
        # A setting of terminals, not of windlass: see no-color.org.
        is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"  # noqa: TID251
        is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
        self._stream = stream
        self._has_color = not plain and is_wanted and stream.isatty()
        self._dots, self._cross, self._dash = "...", "x ", "-"
        if is_utf8 and not plain:
            self._dots, self._cross, self._dash = "…", "✗ ", "─"

    def say(self, text: str = "", color: Color | None = None) -> None:
        """Write a line beside the table, at once."""
        painted = f"\x1b[{_CODES[color]}m{text}\x1b[0m" if color and self._has_color else text
        self._stream.write(painted + "\n")
        self._stream.flush()

    def tell(self, label: str, text: str, color: Color | None = None) -> None:
        """Write text beside a label, on as many lines as it needs."""
        for at, line in enumerate(textwrap.wrap(text, COLUMNS - 11)):
            self.say(f"{label if at == 0 else '':<10} {line}", color)

    def head(self) -> None:
        """Write the head of the table."""
        self._row(*_HEADS, color="bold")
        self._row(*(self._dash * width for width in _WIDTHS), color="dim")

    def line(self, line: Line) -> None:
        """Write a line of the table; failures are marked."""
        mark = self._cross if line.color == "red" else ""
        self._row(line.what, line.asked, mark + line.answered, line.how, color=line.color)

    def cut(self, text: str, width: int) -> str:
        """Return `text` in at most `width` characters, marked where it was cut."""
        return text if len(text) <= width else text[: width - len(self._dots)] + self._dots

    def _row(self, *cells: str, color: Color | None) -> None:
        placed = zip(cells, _WIDTHS, strict=True)
        line = " ".join(self.cut(cell, width).ljust(width) for cell, width in placed)
        self.say(line.rstrip(), color)
