"""The suite itself: what it lists, and that it tells a store that breaks a law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.conformance.harnesses import MemoryHarness
from windlass.errors import InvalidInput, WindlassError
from windlass.ports import (
    Changes,
    ClaimedTurn,
    DeleteReport,
    Due,
    Ticket,
    TurnSummary,
    Unit,
    UnitReceipt,
    WaitAnswer,
    WaitReceipt,
)
from windlass.stores.memory import MemoryStore
from windlass.stores.memory.rows import Changes as RowChanges
from windlass.stores.memory.rows import SessionRow, TurnRow
from windlass.testing import conformance
from windlass.testing.conformance import noticing


def test_every_claim_is_listed_once() -> None:
    names = [conformance.name_of(check) for check in conformance.CHECKS]

    assert len(names) == len(set(names))
    assert len(names) > 150


async def test_all_claims_can_be_put_at_once() -> None:
    held = await conformance.run(MemoryHarness())

    assert len(held) == sum(not check.crashes for check in conformance.CHECKS)


class Unfenced(MemoryStore):
    """Lets a worker write whose lease was lost."""

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        session = self._tables.sessions.get(unit.session_id)
        if session is not None and session.owner is not None:
            session.generation = unit.generation or session.generation
        return super().submit(unit, after=after)


class Forgetful(MemoryStore):
    """Lets a later answer stand for an earlier one."""

    async def resolve_wait(self, key: str, answer: WaitAnswer) -> WaitReceipt:
        turn = self._tables.waits.get(key)
        if turn is not None:
            turn.waits[key] = msgspec.structs.replace(turn.waits[key], state="open")
        return await super().resolve_wait(key, answer)


class HardOfHearing(MemoryStore):
    """Tells nothing of answers."""

    async def changes(self, mark: str | None, **wanted: Any) -> Changes:
        found = await super().changes(mark, **wanted)
        told = tuple(one for one in found.changes if one.kind != "answered")
        return msgspec.structs.replace(found, changes=told)


class Hasty(MemoryStore):
    """Goes on from now, whatever it has not told yet."""

    async def changes(self, mark: str | None, **wanted: Any) -> Changes:
        found = await super().changes(mark, **wanted)
        now = await super().changes(None)
        return msgspec.structs.replace(found, mark=now.mark)


class Repeating(MemoryStore):
    """Gives numbers out again that what was deleted had."""

    async def delete_session(self, session_id: str, *, now_ms: int) -> DeleteReport:
        report = await super().delete_session(session_id, now_ms=now_ms)
        told = self._tables.told
        told.pop()  # that it was deleted
        self._tables.tellings = told[-1].no if told else 0
        return report


class Trusting(MemoryStore):
    """Takes every mark for one of its own."""

    async def changes(self, mark: str | None, **wanted: Any) -> Changes:
        own = (await super().changes(None)).mark.partition(".")[0]
        known = None if mark is None else f"{own}.{str(mark).rpartition('.')[2]}"
        return await super().changes(known, **wanted)


class Mute(MemoryStore):
    """Has a bell that does not ring for answers."""

    async def resolve_wait(self, key: str, answer: WaitAnswer) -> WaitReceipt:
        before = self._writes
        receipt = await super().resolve_wait(key, answer)
        self._writes = before
        return receipt


class Insistent(MemoryStore):
    """Has a bell that cannot be left."""

    def watch(self, tell: Callable[[], None]) -> Callable[[], None]:
        super().watch(tell)
        return lambda: None


class Generous(MemoryStore):
    """Gives turns to whoever asks, also those that a live worker has."""

    async def claim(self, worker_id: str, **wanted: Any) -> tuple[ClaimedTurn, ...]:
        for session in self._tables.sessions.values():
            session.owner = None
        return await super().claim(worker_id, **wanted)


class Undecided(MemoryStore):
    """Gives turns without taking them."""

    async def claim(self, worker_id: str, **wanted: Any) -> tuple[ClaimedTurn, ...]:
        claimed = await super().claim(worker_id, **wanted)
        for one in claimed:
            turn = self._tables.sessions[one.lease.session_id].turns[one.lease.turn_id]
            turn.state, turn.session.owner = "queued", None
        return claimed


class Circling(MemoryStore):
    """Begins each page of a list of turns at the newest."""

    async def list_turns(self, **wanted: Any) -> tuple[TurnSummary, ...]:
        return await super().list_turns(**{**wanted, "before": None})


class Closed(MemoryStore):
    """Lets nothing enter a turn that waits, whatever it waits for."""

    async def due(self, now_ms: int, **wanted: Any) -> Due:
        found = await super().due(now_ms, **wanted)
        sessions = self._tables.sessions
        entered = [
            one
            for one in found.inboxes
            if (turn := sessions[one.session_id].next_turn) is None or turn.state != "parked"
        ]
        return msgspec.structs.replace(found, inboxes=tuple(entered))


def turns_first(session: SessionRow, turn: TurnRow) -> bool:
    """Say that a turn comes next although an earlier item waits."""
    return session.next_turn is turn


def strictly(session: SessionRow, turn: TurnRow, _changes: RowChanges) -> None:
    """Put a turn behind all that arrived, whatever it came with."""
    turn.arrived = session.arrivals = session.arrivals + 1
    session.unfinished[turn.id] = turn


@pytest.mark.parametrize(
    ("name", "fault", "claims"),
    [
        (
            "comes_next",
            turns_first,
            {
                "lining up: turns_and_items_enter_in_the_order_of_their_arrival",
                "lining up: a_turn_behind_an_item_is_neither_due_nor_given_nor_begun",
                "lining up: an_item_that_its_turn_did_not_use_waits_in_its_old_place",
            },
        ),
        (
            "line_up",
            strictly,
            {
                "lining up: a_turn_that_begins_with_an_item_has_its_place",
                "lining up: a_turn_that_begins_with_several_items_has_the_place_of_the_first",
                "lining up: a_turn_that_is_accepted_as_it_begins_goes_before_what_has_not_begun",
            },
        ),
    ],
)
async def test_a_store_with_two_orders_is_told(
    name: str,
    fault: Callable[..., object],
    claims: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SessionRow, name, fault)
    checks = {conformance.name_of(check): check for check in conformance.CHECKS}
    for claim in claims:
        with pytest.raises((AssertionError, WindlassError)):
            await checks[claim].run(MemoryHarness())


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        (Unfenced, "taking over: a_takeover_fences_the_worker_before_out"),
        (Forgetful, "waiting: the_first_answer_stands_for_ever"),
    ],
)
async def test_a_store_that_breaks_a_law_is_told_which(
    broken: type[MemoryStore], claim: str
) -> None:
    class Harness(MemoryHarness):
        async def make(self) -> MemoryStore:
            return broken()

    with pytest.raises(ExceptionGroup) as failed:
        await conformance.run(Harness())

    notes = {note for error in failed.value.exceptions for note in error.__notes__}
    assert claim in notes


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        (HardOfHearing, "noticing: a_turn_is_told_from_its_acceptance_to_its_end"),
        (Hasty, "noticing: whoever_asks_on_misses_nothing_and_hears_nothing_twice"),
        (Repeating, "noticing: what_is_deleted_is_told_as_such_and_hides_nothing"),
        (Trusting, "noticing: a_mark_of_another_store_is_refused"),
        (Trusting, "noticing: a_mark_that_is_none_is_refused"),
        (Insistent, "noticing: a_bell_that_was_left_rings_no_more"),
        (Generous, "claiming turns: a_worker_is_not_given_what_it_drives_itself"),
        (Generous, "claiming turns: a_queued_turn_is_left_to_the_live_worker_that_has_its_session"),
        (Closed, "driving: an_item_for_now_wakes_a_turn_that_waits_for_children_or_a_time_alone"),
        (Mute, "noticing: a_bell_rings_for_everything_that_is_written"),
        (Undecided, "claiming turns: nobody_is_given_what_another_has"),
        (Circling, "listing: paging_through_turns_shows_each_once"),
    ],
)
async def test_the_claim_about_a_law_catches_a_store_that_breaks_it(
    broken: type[MemoryStore], claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noticing, "_HANGS_S", 0.5)

    class Harness(MemoryHarness):
        async def make(self) -> MemoryStore:
            return broken()

    (check,) = (check for check in conformance.CHECKS if conformance.name_of(check) == claim)

    with pytest.raises((AssertionError, TimeoutError, InvalidInput)):
        await check.run(Harness())
