"""A journal in rows: what was asked, what came back, and which process wrote it down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.cli.wording import call_line, count, one_line, result_line, safe, short_key
from windlass.journal import (
    AwaitEventCommand,
    CallDecided,
    CallReturned,
    Claimed,
    DriveBegan,
    DriveEnded,
    Emitted,
    Entry,
    EventAwaited,
    ModelAnswered,
    ModelCallCommand,
    Recorded,
    Released,
    ToolCallCommand,
    TurnStarted,
    key_place,
)
from windlass.kernel import ModelReply
from windlass.kernel.messages import ToolCall
from windlass.kernel.value import snake_case
from windlass.ports import TurnView


class JournalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One entry; `unit` is the commit that it became durable with."""

    unit: int
    generation: int
    entry: str
    key: str = ""
    asked: str = ""
    answered: str = ""

    @property
    def effect(self) -> str:
        """The kind of effect that its key names."""
        return key_place(self.key)[0] if self.key else ""

    def record(self) -> dict[str, Any]:
        """Return it for programs."""
        found: dict[str, Any] = msgspec.structs.asdict(self)
        return found


def journal_rows(turn: TurnView, since: int = 0) -> Iterator[JournalRow]:
    """Yield the entries of a turn's journal, from unit number `since` on."""
    for unit, page in enumerate(turn.pages):
        if unit < since:
            continue
        for entry in page.entries:
            yield _row(entry, unit, page.generation)


def _row(entry: Entry, unit: int, generation: int) -> JournalRow:
    if isinstance(entry, TurnStarted):
        asked = f"agent {entry.agent}, model {entry.model}, {count(len(entry.contracts), 'tool')}"
        return JournalRow(unit=unit, generation=generation, entry="started", asked=asked)
    if isinstance(entry, DriveBegan):
        asked = safe(f"worker {entry.worker} {entry.place}".rstrip())
        return JournalRow(unit=unit, generation=generation, entry="drive", asked=asked)
    if isinstance(entry, DriveEnded):
        return JournalRow(unit=unit, generation=generation, entry="drive", answered=entry.why)
    name = type(entry).__name__.lower()
    if isinstance(entry, (Released, Emitted)):
        return JournalRow(unit=unit, generation=generation, entry=name, key=entry.key)
    return JournalRow(
        unit=unit,
        generation=generation,
        entry=name,
        key=entry.key,
        asked=_asked(entry),
        answered=_answered(entry) if isinstance(entry, Recorded) else "",
    )


def _asked(entry: Claimed | Recorded) -> str:
    command = entry.command
    if isinstance(command, ToolCallCommand):
        contract = f"{entry.contract}: " if isinstance(entry, Claimed) and entry.contract else ""
        return f"{contract}{call_line(command.name, command.args, 120)}"
    if isinstance(command, ModelCallCommand):
        return count(command.request.message_count, "message")
    if isinstance(command, AwaitEventCommand):
        return f"wait {short_key(command.wait_key)}"
    return "" if command is None else _words(type(command).__name__.removesuffix("Command"))


def _answered(entry: Recorded) -> str:
    outcome = entry.outcome
    if isinstance(outcome, CallReturned):
        return f"{outcome.outcome.status}: {result_line(outcome.outcome, 120)}"
    if isinstance(outcome, ModelAnswered):
        reply = outcome.result
        if not isinstance(reply, ModelReply):
            return f"failed: {one_line(reply.message, 120)}"
        calls = [
            call_line(part.name, part.args or {}, 80)
            for part in reply.parts
            if isinstance(part, ToolCall)
        ]
        return one_line(" ".join(filter(None, [reply.text, *calls])), 120)
    if isinstance(outcome, CallDecided):
        return one_line(f"{outcome.verdict}: {outcome.reason}".removesuffix(": "), 120)
    if isinstance(outcome, EventAwaited):
        return safe(f"{outcome.status} by {outcome.by}" if outcome.by else outcome.status)
    return _words(type(outcome).__name__)


def _words(name: str) -> str:
    return snake_case(name).replace("_", " ")
