"""A store that tells before and after each write that the process may die here, and what the write is called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from windlass import journal
from windlass.errors import StoreUnavailable
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    MoveSession,
    PostItem,
    Store,
    Ticket,
    Unit,
    UnitReceipt,
)
from windlass.testing.crashing.crash_point import Fuse

WRITES = {
    "join": "a worker joins",
    "leave": "the worker leaves",
    "release": "a session is released",
    "take_over": "a turn is taken over",
    "claim": "turns are claimed",
    "run_errands": "errands are run",
    "accept": "a turn is accepted",
    "request_cancel": "a request to cancel",
    "fork": "a fork",
    "import_session": "a session is imported",
    "delete_session": "a session is deleted",
    "enqueue": "an item enters the inbox",
    "take_inbox": "the inbox is emptied",
    "withdraw": "an item is withdrawn",
    "resolve_wait": "a wait is answered",
    "put_blob": "bytes are kept",
    "vacuum": "a vacuum",
}
"""The writes of a store besides units, and what each is called in a crash point."""

_OUTCOMES = {
    journal.DirectAnswered: "a reply to a tool",
    journal.CallDecided: "a decision",
    journal.CheckpointGiven: "input that came meanwhile",
    journal.EnvironmentBuilt: "tools that were looked up",
    journal.EventAwaited: "an answer that came",
    journal.ReplyHooked: "what plugins made of a reply",
    journal.CallPresented: "what plugins made of a result",
    journal.TurnFinalized: "what plugins leave behind",
    journal.CodeRan: "the end of the function",
    journal.Slept: "the end of a sleep",
    journal.ProcessAnswered: "an operation of the process",
}


_LATER = "a result that comes later"
_CLAIMS: dict[type[Any], str] = {
    journal.RunCodeCommand: "the beginning of the function",
    journal.SleepCommand: "the beginning of a sleep",
}


_ENTRIES: dict[type[journal.Entry], str] = {
    journal.TurnStarted: "its start",
    journal.Released: "a reservation that is released",
    journal.Emitted: "something emitted",
}


_ERRANDS: dict[type[Errand], str] = {
    AcceptTurn: "a turn for another session",
    PostItem: "an item for another session",
    AnswerWait: "an answer for another turn",
    CancelTurn: "a cancel for another turn",
    MoveSession: "a process for another session",
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
            if not isinstance(entry, (journal.DriveBegan, journal.DriveEnded)):
                yield self._entry(entry)
        for wait in unit.waits:
            yield f"a wait ({wait.kind})"
        if unit.parks:
            yield "the turn parks"
        if unit.commit is not None:
            yield "the turn's end"
        for errand in unit.errands:
            yield _ERRANDS[type(errand)]

    def _entry(self, entry: journal.Entry) -> str:
        if not isinstance(entry, (journal.Claimed, journal.Recorded)):
            return _ENTRIES[type(entry)]
        command = journal.read_command(entry.command)
        if isinstance(command, journal.ToolCallCommand):
            self._calls[journal.call_key(entry.key)] = f"{command.name} ({command.call_id})"
        call = self._calls.get(journal.call_key(entry.key), "a tool")
        if isinstance(entry, journal.Claimed):
            if entry.reserved is not None:
                return "a reservation"
            is_call = isinstance(command, journal.ToolCallCommand)
            return f"intent of {call}" if is_call else _CLAIMS.get(type(command), _LATER)
        return self._outcome(entry, call)

    def _outcome(self, entry: journal.Recorded, call: str) -> str:
        if isinstance(entry.outcome, journal.ModelAnswered):
            iteration = entry.key.split("/")[3]
            return f"reply {int(iteration) + 1}"
        if isinstance(entry.outcome, journal.CallReturned):
            return f"result of {call}"
        return _OUTCOMES.get(type(entry.outcome), "an outcome")


class CrashingStore:
    """Stands before a store during one life. Once that life is over, nothing more is written by it."""

    def __init__(self, store: Store, fuse: Fuse, names: WriteNames) -> None:
        self._store = store
        self._fuse = fuse
        self._names = names
        self._writes = 0
        self.workers: list[str] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a store has
        found = getattr(self._store, name)
        return partial(self._write, name, found) if name in WRITES else found

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        """Submit a unit, with a crash point before it and one after it is settled."""
        number, what = self._next(), self._names.of(unit)
        self._fuse.reach(f"before write {number}", what)
        ticket = self._store.submit(unit, after=after)

        def settled() -> None:
            if ticket.refusal is None and not self._fuse.is_burnt:
                self._fuse.reach(f"after write {number}", what)

        if ticket.is_settled:
            settled()
        else:
            # The first callback is called first, so nothing acts on the write before the process dies.
            ticket.when_settled(settled)
        return ticket

    async def _write(
        self, name: str, write: Callable[..., Awaitable[Any]], *args: object, **options: object
    ) -> Any:  # noqa: ANN401 - what the store answers
        number = self._next()
        self._fuse.reach(f"before write {number}", WRITES[name])
        answer = await write(*args, **options)
        if name == "join":
            self.workers.append(answer)
        self._fuse.reach(f"after write {number}", WRITES[name])
        return answer

    def _next(self) -> int:
        if self._fuse.is_burnt:
            raise StoreUnavailable("the process is dead: nothing more is written")
        self._writes += 1
        return self._writes
