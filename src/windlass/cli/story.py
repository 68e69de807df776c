"""A turn as a story: what each process added to its journal, in lines that people can read.

Law 1. A line is made of what the store holds, never of what a process says about itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from windlass.cli.timeline import Color
from windlass.journal import (
    CallReturned,
    Claimed,
    Command,
    Entry,
    JournalPage,
    ModelAnswered,
    ModelCallCommand,
    Recorded,
    ToolCallCommand,
    TurnStarted,
)
from windlass.journal.keys import call_key
from windlass.kernel import Json, ModelFailure, ModelReply, ToolCall, ToolOutcome
from windlass.kernel.tool_call import as_text
from windlass.ports import TurnView


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line: who did something, what it was asked, what came back, and how."""

    what: str
    asked: str = ""
    answered: str = ""
    how: str = ""
    color: Color | None = None


class Call(msgspec.Struct, kw_only=True):
    """A tool call as far as the journal knows it; `cut_off`: a process died in the middle of it."""

    name: str
    args: Mapping[str, Json]
    cut_off: bool = False
    outcome: ToolOutcome | None = None


class Story:
    """Follows a turn from process to process. Each time, it is shown the turn as it stands."""

    def __init__(self) -> None:
        self._pages = 0
        self._commands: dict[str, Command] = {}
        self._contracts: dict[str, str] = {}
        self._calls: dict[str, Call] = {}
        self._waits: dict[str, str] = {}
        self._replies = 0

    @property
    def calls(self) -> Sequence[Call]:
        """The calls, in the order in which they were asked for."""
        return tuple(self._calls.values())

    def recorded(self) -> str:
        """Say what is recorded so far, and so never asked for again."""
        done = [call.name for call in self.calls if call.outcome is not None]
        return ", ".join([f"{self._replies} replies", *done]) if self._replies else ""

    def lines(self, turn: TurnView, *, killed: bool) -> Iterator[Line]:
        """Tell what is new in the turn since it was last shown; `killed` is how the process ended."""
        for entry in self._new_entries(turn.pages):
            line = self._line(entry)
            if line is not None:
                yield line
        if killed:
            yield from self._cut_off()
        yield from self._waiting(turn)

    def _new_entries(self, pages: Sequence[JournalPage]) -> Iterator[Entry]:
        new = pages[self._pages :]
        self._pages = len(pages)
        for page in new:
            yield from page.entries

    def _line(self, entry: Entry) -> Line | None:
        if isinstance(entry, TurnStarted):
            self._contracts = {each.tool: each.effect for each in entry.contracts}
            return None
        if not isinstance(entry, (Claimed, Recorded)):
            return None
        key = call_key(entry.key)
        command = entry.command or self._commands.get(key)
        if command is None:
            return None
        self._commands[key] = command
        outcome = entry.outcome if isinstance(entry, Recorded) else None
        if isinstance(command, ModelCallCommand) and isinstance(outcome, ModelAnswered):
            return self._reply(command, outcome.result)
        if isinstance(command, ToolCallCommand) and isinstance(entry, Claimed):
            self._call(key, command)
        if isinstance(command, ToolCallCommand) and isinstance(outcome, CallReturned):
            return self._result(self._call(key, command), outcome.outcome)
        return None

    def _call(self, key: str, command: ToolCallCommand) -> Call:
        return self._calls.setdefault(key, Call(name=command.name, args=command.args))

    def _reply(self, command: ModelCallCommand, result: ModelReply | ModelFailure) -> Line:
        asked = f"{command.request.message_count} messages"
        if isinstance(result, ModelFailure):
            return Line(
                what="model", asked=asked, answered=result.message, how="failed", color="red"
            )
        self._replies += 1
        wanted = [
            f"{part.name}({_as_code(part.args)})"
            for part in result.parts
            if isinstance(part, ToolCall)
        ]
        answered = ", ".join(wanted) or "words, and no more calls"
        return Line(what="model", asked=asked, answered=answered, how="bought", color="cyan")

    def _result(self, call: Call, outcome: ToolOutcome) -> Line:
        call.outcome = outcome
        said = outcome.value if outcome.value is not None else f"({outcome.status})"
        how, color = self._how(call)
        return Line(
            what=call.name, asked=_as_code(call.args), answered=as_text(said), how=how, color=color
        )

    def _how(self, call: Call) -> tuple[str, Color | None]:
        contract = self._contracts.get(call.name, "once")
        if not call.cut_off:
            return f"{contract}: ran", None
        if call.outcome is not None and call.outcome.status == "unknown":
            return f"{contract}: not run again", "yellow"
        again = "again, same key" if contract == "keyed" else "ran again"
        return f"{contract}: {again}", "yellow"

    def _cut_off(self) -> Iterator[Line]:
        for call in self.calls:
            if call.outcome is None:
                call.cut_off = True
                yield Line(
                    what=call.name,
                    asked=_as_code(call.args),
                    answered="KILLED (signal 9)",
                    how=f"{self._contracts.get(call.name, 'once')}: no result",
                    color="red",
                )

    def _waiting(self, turn: TurnView) -> Iterator[Line]:
        for view in turn.waits:
            before = self._waits.get(view.wait.key)
            self._waits[view.wait.key] = view.state
            if before == view.state:
                continue
            by = view.answer.by if view.answer is not None else None
            yield Line(
                what="wait",
                asked=f"{view.wait.kind}: {view.wait.title}",
                answered=f"{view.state} by {by}" if by else view.state,
                how="stored, no process" if view.state == "open" else "from outside",
                color="magenta",
            )


def _as_code(args: Mapping[str, Json]) -> str:
    return ", ".join(map(repr, args.values()))
