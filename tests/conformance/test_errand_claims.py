"""The claims about errands tell a store that breaks one: each with the fault that it was written against."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from tests.conformance.harnesses import MemoryHarness
from tests.conformance.locking import LockingStore, as_named
from windlass.errors import SessionDeleted, WindlassError
from windlass.ports import (
    AcceptTurn,
    DeleteReport,
    Errand,
    ErrandReceipt,
    InboxReceipt,
    NewItem,
    NewTurn,
    PostItem,
    Ticket,
    TurnReceipt,
    Unit,
    UnitReceipt,
    WaitAnswer,
    WaitReceipt,
)
from windlass.stores.memory import MemoryStore
from windlass.stores.memory.errands import run_alone
from windlass.stores.memory.store import Settled
from windlass.testing import conformance
from windlass.testing.conformance import sending

CHECKS = {conformance.name_of(check): check for check in conformance.CHECKS}
CROSSING = "sending: two_units_with_errands_into_each_other_land_however_often"
ERRANDS = ("sending", "repeating", "dropping", "starting", "guarding")


class Harness(MemoryHarness):
    def __init__(self, make: Callable[[], MemoryStore]) -> None:
        self._make = make

    async def make(self) -> MemoryStore:
        return self._make()


# --- the order of locks ----------------------------------------------------------------------------------------


async def test_a_store_that_locks_sessions_as_they_are_named_locks_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It is stuck after its first steps; what passes takes a fraction of this.
    monkeypatch.setattr(sending, "STUCK_S", 1.0)

    with pytest.raises(AssertionError, match="two units that wait for each other"):
        await CHECKS[CROSSING].run(Harness(lambda: LockingStore(as_named)))


@pytest.mark.parametrize(
    "check",
    [check for check in conformance.CHECKS if check.subject in ERRANDS and not check.crashes],
    ids=conformance.name_of,
)
async def test_a_store_that_locks_sessions_in_their_order_keeps_to(
    check: conformance.Check,
) -> None:
    assert await check.run(Harness(LockingStore))


# --- what else can be wrong ------------------------------------------------------------------------------------


class Changed(MemoryStore):
    """Has errands run with every unit that is handed in, changed or not."""

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        if not unit.errands:
            return super().submit(unit, after=after)
        return self.send(unit, after)

    def send(self, unit: Unit, after: Ticket[UnitReceipt] | None) -> Ticket[UnitReceipt]:
        raise NotImplementedError

    def run_now(self, errands: Sequence[Errand]) -> tuple[ErrandReceipt, ...]:
        bare = [
            msgspec.structs.replace(one, most=None, rejects=None)
            if isinstance(one, AcceptTurn)
            else one
            for one in errands
        ]
        return run_alone(self._tables, bare, now_ms=0)


class Eager(Changed):
    """Runs the errands of a unit before it looks at the unit."""

    def send(self, unit: Unit, after: Ticket[UnitReceipt] | None) -> Ticket[UnitReceipt]:
        self.run_now(unit.errands)
        return super(Changed, self).submit(unit, after=after)


class Repeating(Changed):
    """Runs errands again when their unit is handed in again."""

    def send(self, unit: Unit, after: Ticket[UnitReceipt] | None) -> Ticket[UnitReceipt]:
        ticket = super(Changed, self).submit(unit, after=after)
        if ticket.refusal is None:
            self.run_now(unit.errands)
        return ticket


class Strict(Changed):
    """Refuses a unit one of whose errands has no target."""

    def send(self, unit: Unit, after: Ticket[UnitReceipt] | None) -> Ticket[UnitReceipt]:
        for errand in unit.errands:
            if isinstance(errand, PostItem) and errand.session_id not in self._tables.sessions:
                return Settled(UnitReceipt(), SessionDeleted("the target is gone"))
        return super(Changed, self).submit(unit, after=after)


class Shuffled(Changed):
    """Answers in the order in which errands were run."""

    def send(self, unit: Unit, after: Ticket[UnitReceipt] | None) -> Ticket[UnitReceipt]:
        ticket = super(Changed, self).submit(unit, after=after)
        if not isinstance(ticket, Settled) or ticket.refusal is not None:
            return ticket
        receipt: UnitReceipt = ticket._receipt
        ordered = tuple(sorted(receipt.errands, key=lambda one: one.session_id))
        return Settled(msgspec.structs.replace(receipt, errands=ordered))


class Boundless(Changed):
    """Does not count the sessions of a tree."""

    def send(self, unit: Unit, after: Ticket[UnitReceipt] | None) -> Ticket[UnitReceipt]:
        errands = tuple(
            msgspec.structs.replace(one, most=None) if isinstance(one, AcceptTurn) else one
            for one in unit.errands
        )
        return super(Changed, self).submit(
            msgspec.structs.replace(unit, errands=errands), after=after
        )


class Shortsighted(MemoryStore):
    """Looks for a turn in the session of its errand alone."""

    async def run_errands(
        self, errands: Sequence[Errand], *, now_ms: int
    ) -> tuple[ErrandReceipt, ...]:
        alone = [
            msgspec.structs.replace(one, known_in=()) if isinstance(one, AcceptTurn) else one
            for one in errands
        ]
        return await super().run_errands(alone, now_ms=now_ms)


class Adopting(Changed):
    """Lets every session belong to the one that made it."""

    def send(self, unit: Unit, after: Ticket[UnitReceipt] | None) -> Ticket[UnitReceipt]:
        errands = tuple(
            msgspec.structs.replace(one, at_top=False) if isinstance(one, AcceptTurn) else one
            for one in unit.errands
        )
        return super(Changed, self).submit(
            msgspec.structs.replace(unit, errands=errands), after=after
        )


class Silent(Changed):
    """Does not tell a turn that what it asked for was not accepted."""

    def send(self, unit: Unit, after: Ticket[UnitReceipt] | None) -> Ticket[UnitReceipt]:
        errands = tuple(
            msgspec.structs.replace(one, rejects=None) if isinstance(one, AcceptTurn) else one
            for one in unit.errands
        )
        return super(Changed, self).submit(
            msgspec.structs.replace(unit, errands=errands), after=after
        )


class Orphaning(MemoryStore):
    """Deletes a session and leaves what it began."""

    async def delete_session(self, session_id: str, *, now_ms: int) -> DeleteReport:
        for session in self._tables.sessions.values():
            session.started_by = None
        return await super().delete_session(session_id, now_ms=now_ms)


class Devouring(MemoryStore):
    """Deletes chats that an errand made, with the session that sent it."""

    async def delete_session(self, session_id: str, *, now_ms: int) -> DeleteReport:
        for session in self._tables.sessions.values():
            if session.started_by is not None:
                session.kind = "child"
        return await super().delete_session(session_id, now_ms=now_ms)


class Open(MemoryStore):
    """Has no doors."""

    async def accept(self, session_id: str, turn_id: str, turn: NewTurn) -> TurnReceipt:
        told = AcceptTurn(session_id=session_id, turn_id=turn_id, turn=turn)
        session = self._tables.sessions.get(session_id)
        if session is None or session.kind == "chat":
            return await super().accept(session_id, turn_id, turn)
        await self.run_errands((told,), now_ms=0)
        return TurnReceipt(session_id=session_id, turn_id=turn_id, state="queued")

    async def enqueue(self, session_id: str, item: NewItem, *, now_ms: int = 0) -> InboxReceipt:
        await self.run_errands((PostItem(session_id=session_id, item=item),), now_ms=now_ms)
        return InboxReceipt(item_id=item.item_id, state="pending")

    async def resolve_wait(self, key: str, answer: WaitAnswer) -> WaitReceipt:
        turn = self._tables.waits[key]
        found = turn.waits[key]
        plain = msgspec.structs.replace(found.wait, kind="approval")
        turn.waits[key] = msgspec.structs.replace(found, wait=plain)
        try:
            return await super().resolve_wait(key, answer)
        finally:
            turn.waits[key] = msgspec.structs.replace(turn.waits[key], wait=found.wait)


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        (Eager, "sending: a_unit_that_is_refused_runs_no_errand"),
        (Eager, "sending: errands_come_after_the_end_of_their_turn"),
        (Repeating, "repeating: a_unit_that_landed_posts_nothing_that_was_settled_and_forgotten"),
        (Strict, "dropping: a_hundred_targets_that_are_gone_are_receipts_and_not_failures"),
        (Shuffled, "sending: receipts_stand_in_the_order_of_the_errands"),
        (Shortsighted, "repeating: a_turn_that_another_session_knows_is_not_accepted_again"),
        (Adopting, "starting: an_errand_may_make_a_session_that_belongs_to_no_other"),
        (Boundless, "starting: a_tree_has_no_more_sessions_at_work_than_are_allowed"),
        (Silent, "starting: a_turn_for_a_deleted_session_is_told_to_the_turn_that_waits"),
        (Orphaning, "starting: a_session_that_is_deleted_takes_along_what_it_began"),
        (Orphaning, "starting: a_tree_in_which_a_turn_is_unfinished_is_not_deleted"),
        (Devouring, "starting: a_session_that_is_deleted_takes_along_what_it_began"),
        (Open, "guarding: callers_begin_no_turn_where_only_errands_do"),
        (Open, "guarding: callers_put_no_item_where_only_errands_do"),
        (Open, "guarding: only_an_errand_answers_a_wait_for_a_child"),
        (Open, "guarding: only_its_time_answers_a_timer"),
    ],
)
async def test_a_store_that_breaks_a_law_of_errands_is_told(
    broken: type[MemoryStore], claim: str
) -> None:
    assert await CHECKS[claim].run(Harness(MemoryStore))

    with pytest.raises((AssertionError, WindlassError)):
        await CHECKS[claim].run(Harness(broken))
