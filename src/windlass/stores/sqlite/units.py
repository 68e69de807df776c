"""A unit inside the writer's transaction: checked part by part, then written.

Nothing is written before everything that could refuse it was asked, but for the parts whose own rules need the
rows of the part before. What was remembered is changed last, so a refusal leaves it as it was.
"""

from __future__ import annotations

from typing import NamedTuple

from windlass.errors import HeadMoved, IdempotencyConflict, LeaseLost, TurnCancelled
from windlass.journal import Claimed, Plan, link_page
from windlass.ports.unit import CommitReceipt, TurnReceipt, Unit, UnitReceipt
from windlass.stores.sqlite import turns, waits
from windlass.stores.sqlite.doorman import Doorman
from windlass.stores.sqlite.leases import Liveness, start_turn
from windlass.stores.sqlite.pages import SplitPage, insert_page, use_blobs
from windlass.stores.sqlite.query import first
from windlass.stores.sqlite.rows import Rows, SessionRow, TurnRow


class WrittenUnit(NamedTuple):
    """A unit with its bytes, made before the transaction so that encoding holds nobody up."""

    unit: Unit
    page: SplitPage | None
    request: SplitPage | None
    doorman: Doorman


def encode_unit(unit: Unit, doorman: Doorman) -> WrittenUnit:
    """Encode what a unit brings."""
    page = request = None
    if unit.entries:
        page = doorman.journal_page(unit)
    if unit.accept is not None:
        request = doorman.page(
            turns.RequestPage(format=turns.RequestPage.FORMAT, request=unit.accept.request)
        )
    return WrittenUnit(unit, page, request, doorman)


def names_in(unit: Unit) -> tuple[str, ...]:
    """Return what a unit names besides its session and turn."""
    names = () if unit.accept is None else (unit.accept.agent, *unit.accept.takes)
    return names if unit.commit is None else (*names, *unit.commit.settle)


def apply_unit(
    rows: Rows, written: WrittenUnit, liveness: Liveness, earlier: UnitReceipt | None = None
) -> UnitReceipt:
    """Write a unit; `earlier` is what an attempt answered that may have landed.

    Raises:
        WindlassError: it is refused; whatever it wrote is to be rolled back.
    """
    unit = written.unit
    accepted: TurnReceipt | None = None
    if unit.accept is not None:
        assert written.request is not None  # noqa: S101 - encode_unit makes both or none
        accepted = turns.accept(rows, unit, unit.accept, written.request, written.doorman)
        if accepted.known and earlier is not None:
            accepted = earlier.accepted
    session = rows.session(unit.session_id)
    turn = rows.turn(session, unit.turn_id)
    if not unit.is_fenced:
        return UnitReceipt(page=_count(rows, turn), accepted=accepted)
    landed = _landed(rows, turn, written)
    if landed is not None:
        return UnitReceipt(page=landed.page, accepted=accepted, committed=landed.committed)
    if unit.start is not None:
        start_turn(rows, turn, unit.start, unit.generation, liveness)
    check_fence(session, turn, unit.generation)
    if written.page is not None:
        _add_page(rows, turn, unit, written.page)
    for wait in unit.waits:
        waits.open_wait(rows, turn, wait, written.doorman)
    if unit.parks:
        turns.park(rows, turn)
    committed: CommitReceipt | None = None
    if unit.commit is not None:
        committed = turns.commit(rows, turn, unit, written.doorman)
    else:
        rows.journal(turn)
    return UnitReceipt(page=turn.pages, accepted=accepted, committed=committed)


def _count(rows: Rows, turn: TurnRow) -> int:
    """Return how many pages a turn's journal has, without reading them."""
    if turn.strand is None:
        return 0
    count = "SELECT count(*) FROM log WHERE session = ? AND strand = ?"
    return int(first(rows.db, count, (turn.session.no, turn.strand))[0])


def _landed(rows: Rows, turn: TurnRow, written: WrittenUnit) -> UnitReceipt | None:
    """Return the receipt of a unit that was written before; handed in again, it lands once."""
    unit = written.unit
    if _is_of_another(turn.session, unit):
        return None
    if turn.state == "done":
        return _landed_before_the_end(rows, turn, written)
    if written.page is None or turn.strand is None:
        return None
    rows.journal(turn)
    if unit.position >= turn.pages:
        return None
    # One that also commits did not land, or the turn would be done.
    if unit.commit is None and _has_page(rows, turn, unit, written.page):
        return UnitReceipt(page=unit.position + 1)
    return None


def _is_of_another(session: SessionRow, unit: Unit) -> bool:
    """Whether a beginning like this one can only have been another worker's.

    Two workers that begin a turn in the same moment may write the same bytes; they are not the same unit.
    """
    return unit.start is not None and unit.commit is None and session.owner != unit.start.worker_id


def _landed_before_the_end(rows: Rows, turn: TurnRow, written: WrittenUnit) -> UnitReceipt:
    unit = written.unit
    if unit.commit is not None:
        receipt = turns.receipt_of(turn)
        if receipt.digest == unit.commit.digest():
            return UnitReceipt(page=_count(rows, turn), committed=receipt)
    elif written.page is not None and _has_page(rows, turn, unit, written.page):
        return UnitReceipt(page=unit.position + 1)
    if unit.generation < turn.session.generation:
        raise _lease_lost(turn.session, unit.generation)
    if unit.commit is not None:
        raise IdempotencyConflict(f"turn {turn.id}: was committed with other content")
    raise HeadMoved(f"turn {turn.id}: has ended", field="turn_id")


def _has_page(rows: Rows, turn: TurnRow, unit: Unit, page: SplitPage) -> bool:
    query = "SELECT page FROM log WHERE session = ? AND strand = ? AND seq = ?"
    place = (turn.session.no, turn.strand, unit.position)
    found = first(rows.db, query, place)
    return found is not None and found[0] == page.data


def check_fence(session: SessionRow, turn: TurnRow, generation: int) -> None:
    """Refuse whoever is not the session's owner, or not at its turn."""
    if session.generation != generation or session.owner is None:
        raise _lease_lost(session, generation)
    if session.active != turn.no:
        raise HeadMoved(f"turn {turn.id}: is not the one that the session is at", field="turn_id")


def _lease_lost(session: SessionRow, generation: int) -> LeaseLost:
    return LeaseLost(
        f"session {session.id}: is at generation {session.generation}, this worker had {generation}",
        field="generation",
        found=session.generation,
        wanted=generation,
    )


def _add_page(rows: Rows, turn: TurnRow, unit: Unit, page: SplitPage) -> None:
    journal = rows.journal(turn)
    if unit.position < turn.pages:
        raise IdempotencyConflict(
            f"unit {unit.operation_id}: another unit was written at this position", field="position"
        )
    if unit.position > turn.pages:
        raise HeadMoved(
            f"turn {turn.id}: has {turn.pages} pages, this one is for position {unit.position}",
            field="position",
            found=turn.pages,
            wanted=unit.position,
        )
    claims = [entry for entry in unit.entries if isinstance(entry, Claimed)]
    if claims and turn.cancel is not None:
        raise TurnCancelled(f"turn {turn.id}: was cancelled; {claims[0].key} is not begun")
    plan = journal.plan(unit.entries, generation=unit.generation)
    for claim in claims:
        if claim.consumes is not None:
            waits.consume(rows, turn, claim.consumes)
    link = link_page(turn.link, page.data)
    place = (turn.session.no, turn.strand, unit.position)
    number = insert_page(rows.db, place, link, page, turns.when(unit) if page.bodies else 0)
    if unit.blobs:
        use_blobs(rows.db, number, unit.blobs)
    if turn.state != "running":
        turns.set_running(rows, turn)
    _remember(turn, plan, link)


def _remember(turn: TurnRow, plan: Plan, link: bytes) -> None:
    assert turn.journal is not None  # noqa: S101 - the plan was made from it
    turn.journal.absorb(plan)
    turn.link = link
    turn.pages += 1
