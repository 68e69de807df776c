"""What a write is called when it is told where a process died."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.journal import (
    CallDecided,
    CallPresented,
    CallReturned,
    CheckpointGiven,
    Claimed,
    DirectAnswered,
    DriveBegan,
    DriveEnded,
    Emitted,
    Entry,
    EnvironmentBuilt,
    EventAwaited,
    ModelAnswered,
    Recorded,
    Released,
    ReplyHooked,
    ToolCallCommand,
    TurnFinalized,
    TurnStarted,
    call_key,
    read_command,
)
from windlass.ports import Unit

WRITES = {
    "join": "a worker joins",
    "leave": "the worker leaves",
    "release": "a session is released",
    "take_over": "a turn is taken over",
    "accept": "a turn is accepted",
    "request_cancel": "a wish to cancel",
    "fork": "a fork",
    "delete_session": "a session is deleted",
    "enqueue": "an item enters the inbox",
    "take_inbox": "the inbox is emptied",
    "withdraw": "an item is withdrawn",
    "resolve_wait": "a wait is answered",
    "put_blob": "bytes are kept",
    "vacuum": "a vacuum",
}
"""The writes of a store besides units, and how they are told."""

_OUTCOMES = {
    DirectAnswered: "a reply to a tool",
    CallDecided: "a decision",
    CheckpointGiven: "input that came meanwhile",
    EnvironmentBuilt: "tools that were looked up",
    EventAwaited: "an answer that came",
    ReplyHooked: "what plugins made of a reply",
    CallPresented: "what plugins made of a result",
    TurnFinalized: "what plugins leave behind",
}


_ENTRIES: dict[type[Entry], str] = {
    TurnStarted: "its start",
    Released: "a reservation that is released",
    DriveBegan: "a drive begins",
    DriveEnded: "a drive ends",
    Emitted: "something emitted",
}


class WriteNames:
    """Names units by what they hold. Remembers calls by their keys: a result names only the key."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}

    def of(self, unit: Unit) -> str:
        """Return what a unit holds, in words."""
        return ", ".join(self._parts(unit))

    def _parts(self, unit: Unit) -> Iterator[str]:
        if unit.accept is not None:
            yield "the turn is accepted"
        for entry in unit.entries:
            yield self._entry(entry)
        for wait in unit.waits:
            yield f"a wait ({wait.kind})"
        if unit.parks:
            yield "the turn parks"
        if unit.commit is not None:
            yield "the turn's end"

    def _entry(self, entry: Entry) -> str:
        if not isinstance(entry, (Claimed, Recorded)):
            return _ENTRIES[type(entry)]
        command = read_command(entry.command)
        if isinstance(command, ToolCallCommand):
            self._calls[call_key(entry.key)] = f"{command.name} ({command.call_id})"
        call = self._calls.get(call_key(entry.key), "a tool")
        if isinstance(entry, Claimed):
            if entry.reserved is not None:
                return "a reservation"
            is_call = isinstance(command, ToolCallCommand)
            return f"intent of {call}" if is_call else "a result that comes later"
        return self._outcome(entry, call)

    def _outcome(self, entry: Recorded, call: str) -> str:
        if isinstance(entry.outcome, ModelAnswered):
            iteration = entry.key.split("/")[3]
            return f"reply {int(iteration) + 1}"
        if isinstance(entry.outcome, CallReturned):
            return f"result of {call}"
        return _OUTCOMES.get(type(entry.outcome), "an outcome")
