"""The journal of one turn, folded: what is known under each key.

Law 1. An outcome is recorded once. Recording it again changes nothing; recording another is refused.
Law 2. A claim stands only as `decide_claim` allows.
Law 3. `plan` changes nothing. What it returns is absorbed when it is durable, and not before.

A journal is folded when it is read: for recovery, to show it, in the conformance suite. While a turn is under way
nothing folds it, because only the owner of the session's generation can add a page, at the next position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, assert_never

import msgspec

from windlass.errors import (
    IdempotencyConflict,
    InvalidInput,
    LeaseLost,
    ReplayMismatch,
    StoreContended,
)
from windlass.journal.claim import (
    Answer,
    Busy,
    Decision,
    JournalRow,
    Mismatch,
    Run,
    Stale,
    TakeOver,
    decide_claim,
)
from windlass.journal.commands import DirectCallCommand, ModelCallCommand
from windlass.journal.diff import Difference, diff
from windlass.journal.entries import (
    Claimed,
    Entry,
    Recorded,
    Released,
    TurnStarted,
    digest_of,
)
from windlass.journal.keys import call_key
from windlass.journal.moments import DirectAnswered, ModelAnswered, usage_of
from windlass.journal.pages import JournalPage
from windlass.journal.usage import UsageLine, sum_usage

_OF_A_ROW = (Recorded, Claimed, Released)


class Plan(NamedTuple):
    """What a unit would change: rows by key, and the start record if it brings one."""

    rows: Mapping[str, JournalRow]
    started: TurnStarted | None
    recorded: int


class TurnJournal:
    """What is known of a turn, by key."""

    __slots__ = ("_rows", "recorded", "started")

    def __init__(self) -> None:
        self._rows: dict[str, JournalRow] = {}
        self.started: TurnStarted | None = None
        # How many outcomes there are: a takeover that finds no more than the last one did got nowhere.
        self.recorded = 0

    def row(self, key: str) -> JournalRow | None:
        """Return what is known under a key; a call's intent and result are one row."""
        return self._rows.get(call_key(key))

    def rows(self) -> tuple[JournalRow, ...]:
        """Return all rows, in the order in which they were first written."""
        return tuple(self._rows.values())

    def decide(self, claim: Claimed, *, generation: int) -> Decision:
        """Say what a claim may do now."""
        return decide_claim(self.row(claim.key), claim, generation=generation)

    def plan(self, entries: Iterable[Entry], *, generation: int) -> Plan:
        """Return what these entries would change.

        Raises:
            ReplayMismatch: another request is known under one of the keys.
            IdempotencyConflict: another outcome, or another start, is recorded already.
            StoreContended: this generation has claimed it before.
            LeaseLost: a newer generation has.
        """
        new: dict[str, JournalRow] = {}
        rows = self._rows
        started, recorded = self.started, self.recorded
        for entry in entries:
            if isinstance(entry, _OF_A_ROW):
                key = call_key(entry.key)
                before = new.get(key) or rows.get(key)
                if isinstance(entry, Recorded):
                    recorded += before is None or before.outcome is None
                    new[key] = (
                        _first_record(entry, key, generation)
                        if before is None
                        else _record_again(before, entry)
                    )
                elif isinstance(entry, Claimed):
                    new[key] = (
                        _first_claim(entry, key, generation)
                        if before is None
                        else _claim_again(before, entry, generation)
                    )
                elif before is not None:
                    new[key] = msgspec.structs.replace(before, reserved=None, reserved_for="")
            elif isinstance(entry, TurnStarted):
                started = _same_start(started, entry)
        return Plan(new, started, recorded)

    def absorb(self, plan: Plan) -> None:
        """Take over what was planned."""
        self._rows.update(plan.rows)
        self.started = plan.started
        self.recorded = plan.recorded

    def usage(self) -> tuple[UsageLine, ...]:
        """Return what the turn has used, by source and model; a reservation without outcome is lost."""
        lines: list[UsageLine] = []
        for row in self._rows.values():
            if isinstance(row.outcome, (ModelAnswered, DirectAnswered)):
                lines.append(_usage_line(row, row.outcome))
            if row.lost or row.reserved is not None:
                lines += lost_lines(row)
        return sum_usage(lines)


def count_recorded(pages: Iterable[JournalPage]) -> int:
    """Return how many outcomes the pages of a journal record, as `TurnJournal.recorded` would, without folding them."""
    entries = (entry for page in pages for entry in page.entries)
    return len({call_key(entry.key) for entry in entries if type(entry) is Recorded})


def _same_start(before: TurnStarted | None, entry: TurnStarted) -> TurnStarted:
    if before is not None and before != entry:
        raise IdempotencyConflict(
            "the turn has begun with another start record",
            field="started",
            wanted="the same record",
        )
    return entry


def _first_claim(entry: Claimed, key: str, generation: int) -> JournalRow:
    return JournalRow(
        key=key,
        digest=digest_of(entry),
        generation=generation,
        command=entry.command,
        contract=entry.contract,
        due_ms=entry.due_ms,
        reserved=entry.reserved,
        reserved_for=entry.reserved_for,
    )


def _first_record(entry: Recorded, key: str, generation: int) -> JournalRow:
    if entry.command is None:
        raise InvalidInput(
            f"{entry.key}: a record without a claim names its command", field="Recorded.command"
        )
    return JournalRow(
        key=key,
        digest=digest_of(entry),
        generation=generation,
        command=entry.command,
        outcome=entry.outcome,
        usage_source=entry.usage_source,
    )


def _claim_again(before: JournalRow, entry: Claimed, generation: int) -> JournalRow:
    match decide_claim(before, entry, generation=generation):
        case TakeOver() | Run():
            # What stood when it was first claimed stays: the due time, the contract. What the attempt before
            # may have spent is lost.
            lost, lost_for = before.lost, before.lost_for
            if before.reserved is not None:
                lost = (*lost, before.reserved)
                lost_for = (*lost_for, before.reserved_for)
            return msgspec.structs.replace(
                before,
                generation=generation,
                reserved=entry.reserved,
                reserved_for=entry.reserved_for,
                lost=lost,
                lost_for=lost_for,
            )
        case Answer():
            raise IdempotencyConflict(f"{entry.key}: is recorded already", field="key")
        case Busy():
            raise StoreContended(f"{entry.key}: is being run under this generation", field="key")
        case Stale(generation=newer):
            raise LeaseLost(f"{entry.key}: claimed by generation {newer}, this is {generation}")
        case Mismatch() as mismatch:
            raise _mismatch(entry, mismatch.diff)
        case other:
            assert_never(other)


def _record_again(before: JournalRow, entry: Recorded) -> JournalRow:
    if (digest_of(entry) or before.digest) != before.digest:
        raise _mismatch(entry, diff(before.command, entry.command) if entry.command else ())
    if before.outcome is None:
        return before.with_outcome(entry.outcome, entry.usage_source)
    if before.outcome != entry.outcome:
        raise IdempotencyConflict(f"{entry.key}: another outcome is recorded already", field="key")
    return before


def _mismatch(entry: Claimed | Recorded, places: tuple[Difference, ...]) -> ReplayMismatch:
    return ReplayMismatch(
        f"{entry.key}: the journal holds another request", key=entry.key, diff=places
    )


def _usage_line(row: JournalRow, answered: ModelAnswered | DirectAnswered) -> UsageLine:
    source, model = _asked_by(row)
    model = model if answered.sent is None else answered.sent.model
    return UsageLine(source=source, model=model, calls=1, usage=usage_of(answered))


def lost_lines(row: JournalRow) -> Iterator[UsageLine]:
    """Return a line for each attempt that left no outcome, at all that was reserved for it."""
    lost, lost_for = row.lost, row.lost_for
    if row.outcome is None and row.reserved is not None:
        lost, lost_for = (*lost, row.reserved), (*lost_for, row.reserved_for)
    for usage, reserved_for in zip(lost, lost_for, strict=True):
        source, model = _asked_by(row)
        yield UsageLine(source=source, model=reserved_for or model, calls=1, lost=1, usage=usage)


def _asked_by(row: JournalRow) -> tuple[str, str]:
    command = row.command
    if isinstance(command, DirectCallCommand):
        return command.usage_source, command.request.model
    assert isinstance(command, ModelCallCommand)  # noqa: S101 - nothing else is answered by a model
    return row.usage_source or "turn", command.request.model
