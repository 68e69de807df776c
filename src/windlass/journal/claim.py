"""May this run? One pure function for everybody who reads a journal.

    row                 the same digest                 another digest
    absent              Run                             Run
    recorded            Answer                          Mismatch
    claimed, newer      Stale                           Mismatch
    claimed, same       Busy                            Mismatch
    claimed, older      TakeOver, by kind (HOW below)   Mismatch

A recorded outcome answers every generation; only a claim without an outcome depends on who made it.
`how_to_resume` is the one table for such a claim.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from windlass.journal.commands import Command, Contract, ProcessCommand
from windlass.journal.diff import Difference, diff
from windlass.journal.entries import Claimed, digest_of
from windlass.journal.keys import EffectKind, key_place
from windlass.journal.moments import RecordedMoment
from windlass.kernel import Usage, Value

How: TypeAlias = Literal[
    "again",  # nothing outside depends on the first attempt, or the world will not mind a second
    "recompute",  # it has no effect outside at all
    "on_its_records",  # code runs again, answered by what its calls recorded
    "first_due",  # a sleep goes on to the due time that it was first given
    "same_wait",  # the wait is there already, perhaps answered
    "same_id",  # the process is there already under its id
    "same_key",  # the world can tell a repeat by the idempotency key
    "unknown",  # it may have acted: never again, the outcome is unknown
    "reconcile",  # ask the tool whether it acted
]

# What to do with a claim that an earlier worker left without an outcome. Tools are not in it: they have
# their contract; nor are process operations, of which only a start makes something.
HOW: dict[EffectKind, How] = {
    "model_call": "again",
    "model_hooks": "recompute",
    "direct_call": "again",
    "tool_hooks": "recompute",
    "run_code": "on_its_records",
    "checkpoint": "recompute",
    "sync_environment": "recompute",
    "finalize": "recompute",
    "sleep": "first_due",
    "await_event": "same_wait",
}
HOW_BY_CONTRACT: dict[Contract, How] = {
    "pure": "again",
    "idempotent": "again",
    "keyed": "same_key",
    "once": "unknown",
    "reconcile": "reconcile",
}
RUNS_AGAIN: frozenset[Contract] = frozenset({"pure", "idempotent", "keyed"})
"""The contracts of tools whose body may run twice."""


class JournalRow(Value, kw_only=True):
    """What the journal knows under one key: claimed, or recorded."""

    key: str
    digest: str
    generation: int
    command: Command | None = None
    contract: Contract | None = None
    due_ms: int | None = None
    reserved: Usage | None = None
    lost: tuple[Usage, ...] = ()
    outcome: RecordedMoment | None = None
    usage_source: str = ""
    reserved_for: str = ""
    lost_for: tuple[str, ...] = ()

    @property
    def is_recorded(self) -> bool:
        """Whether there is an outcome, which then stands for ever."""
        return self.outcome is not None

    def with_outcome(self, outcome: RecordedMoment, usage_source: str = "") -> JournalRow:
        """Return this row with the outcome that ends it."""
        return msgspec.structs.replace(self, outcome=outcome, usage_source=usage_source)


class Run(Value, kw_only=True):
    """Nothing is known of it: run it."""


class Answer(Value, kw_only=True):
    """It is recorded: this is what came back, and it is never run again."""

    outcome: RecordedMoment


class Mismatch(Value, kw_only=True):
    """The journal holds another request under this key: nothing runs, a person decides."""

    recorded: str
    found: str
    diff: tuple[Difference, ...] = ()


class Busy(Value, kw_only=True):
    """This very generation has claimed it and is at it."""


class Stale(Value, kw_only=True):
    """A newer generation has claimed it: the caller has lost the session."""

    generation: int


class TakeOver(Value, kw_only=True):
    """An earlier worker claimed it and left no outcome: resume as `how` says."""

    how: How
    due_ms: int | None = None


Decision: TypeAlias = Run | Answer | Mismatch | Busy | Stale | TakeOver

_RUN = Run()
_BUSY = Busy()
# The same thing was asked for, by or because of something else.
_OTHER_INVOCATION = Difference(path="$.invocation", change="changed")


def decide_claim(row: JournalRow | None, request: Claimed, *, generation: int) -> Decision:
    """Say what a claim may do, given what the journal holds under its key."""
    if row is None:
        return _RUN
    found = digest_of(request)
    if row.digest != found:
        return Mismatch(
            recorded=row.digest,
            found=found,
            diff=diff(row.command, request.command) or (_OTHER_INVOCATION,),
        )
    if row.outcome is not None:
        return Answer(outcome=row.outcome)
    if row.generation == generation:
        return _BUSY
    if row.generation > generation:
        return Stale(generation=row.generation)
    return TakeOver(how=how_to_resume(row, request.key), due_ms=row.due_ms)


def how_to_resume(row: JournalRow, key: str) -> How:
    """Say what to do about a row that an earlier worker claimed under this key and left without an outcome.

    The contract that stood when the intent was written governs it, whatever the code says now.
    """
    kind, moment = key_place(key)
    if kind == "tool_call":
        if moment in ("decide", "presented", "asked"):
            return "recompute"
        return HOW_BY_CONTRACT[row.contract or "once"]
    if kind == "process":
        command = row.command
        starts = isinstance(command, ProcessCommand) and command.operation == "start"
        return "same_id" if starts else "again"
    return HOW[kind]
