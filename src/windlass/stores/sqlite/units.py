"""A unit inside the writer's transaction: checked part by part, then written.

Nothing is written before everything that could refuse it was asked, but for the parts whose own rules need the
rows of the part before. What was remembered is changed last, so a refusal leaves it as it was. The journal is not
folded here: only the owner of the generation can add a page, at the next position, and what it says is checked when
it is read.
"""

from __future__ import annotations

from windlass.errors import HeadMoved, IdempotencyConflict, TurnCancelled
from windlass.journal import Claimed, link_page
from windlass.ports.unit import TurnReceipt, Unit, UnitReceipt
from windlass.stores.sqlite import turns, waits
from windlass.stores.sqlite.connection import first
from windlass.stores.sqlite.leases import Liveness, check_fence, lease_lost, start_turn
from windlass.stores.sqlite.pages import INSERT_PAGE, Encoder, SplitPage, insert_page, use_blobs
from windlass.stores.sqlite.rows import Rows, SessionRow, TurnRow


def names_in(unit: Unit) -> tuple[str, ...]:
    """Return what a unit names besides its session and turn."""
    names = () if unit.accept is None else (unit.accept.agent, *unit.accept.takes)
    return names if unit.commit is None else (*names, *unit.commit.settle)


def apply_unit(
    rows: Rows,
    unit: Unit,
    page: SplitPage | None,
    request: SplitPage | None,
    encoder: Encoder,
    liveness: Liveness,
) -> UnitReceipt:
    """Write a unit, of which `page` and `request` are the bytes.

    Raises:
        WindlassError: it is refused; whatever it wrote is to be rolled back.
    """
    accepted = None if unit.accept is None else _accept(rows, unit, request, encoder)
    session = rows.sessions.get(unit.session_id)
    if session is None or session.seen != rows.version:
        session = rows.session(unit.session_id)
    turn = session.turns.get(unit.turn_id) or rows.turn(session, unit.turn_id)
    if turn.link is None:
        rows.find_tail(turn)
    if page is None and not unit.is_fenced:
        return UnitReceipt(page=turn.pages, accepted=accepted)
    if turn.state == "done" or (page is not None and unit.position < turn.pages):
        landed = _landed(rows, turn, unit, page)
        if landed is not None:
            return UnitReceipt(page=landed.page, accepted=accepted, committed=landed.committed)
    if unit.start is not None:
        start_turn(rows, turn, unit.start, unit.generation, liveness)
    check_fence(session, turn, unit.generation)
    if page is not None:
        _add_page(rows, turn, unit, page)
    if unit.waits or unit.parks:
        _open_waits(rows, turn, unit, encoder)
    if accepted is None and unit.commit is None:
        return UnitReceipt(page=turn.pages)
    committed = None if unit.commit is None else turns.commit(rows, turn, unit, encoder)
    return UnitReceipt(page=turn.pages, accepted=accepted, committed=committed)


def _accept(
    rows: Rows, unit: Unit, request: SplitPage | None, encoder: Encoder
) -> TurnReceipt | None:
    earlier: UnitReceipt | None = rows.earlier
    assert unit.accept is not None  # noqa: S101 - the caller looked
    assert request is not None  # noqa: S101 - it is encoded with the acceptance
    accepted = turns.accept(rows, unit, unit.accept, request, encoder)
    return earlier.accepted if accepted.known and earlier is not None else accepted


def _open_waits(rows: Rows, turn: TurnRow, unit: Unit, encoder: Encoder) -> None:
    for wait in unit.waits:
        waits.open_wait(rows, turn, wait, encoder)
    if unit.parks:
        turns.park(rows, turn)


def _landed(rows: Rows, turn: TurnRow, unit: Unit, page: SplitPage | None) -> UnitReceipt | None:
    """Return the receipt of a unit that was written before; handed in again, it lands once."""
    if _is_of_another(turn.session, unit):
        return None
    if turn.state == "done":
        return _landed_before_the_end(rows, turn, unit, page)
    # One that also commits did not land, or the turn would be done.
    if unit.commit is None and page is not None and _has_page(rows, turn, unit, page):
        return UnitReceipt(page=unit.position + 1)
    return None


def _is_of_another(session: SessionRow, unit: Unit) -> bool:
    """Whether a beginning like this one can only have been another worker's.

    Two workers that begin a turn in the same moment may write the same bytes; they are not the same unit.
    """
    return unit.start is not None and unit.commit is None and session.owner != unit.start.worker_id


def _landed_before_the_end(
    rows: Rows, turn: TurnRow, unit: Unit, page: SplitPage | None
) -> UnitReceipt:
    if unit.commit is not None:
        receipt = turns.receipt_of(turn)
        if receipt.digest == unit.commit.digest():
            return UnitReceipt(page=turn.pages, committed=receipt)
    elif page is not None and _has_page(rows, turn, unit, page):
        return UnitReceipt(page=unit.position + 1)
    if unit.generation < turn.session.generation:
        raise lease_lost(turn.session, unit.generation)
    if unit.commit is not None:
        raise IdempotencyConflict(f"turn {turn.id}: was committed with other content")
    raise HeadMoved(f"turn {turn.id}: has ended", field="turn_id")


def _has_page(rows: Rows, turn: TurnRow, unit: Unit, page: SplitPage) -> bool:
    query = "SELECT page FROM log WHERE session = ? AND strand = ? AND seq = ?"
    place = (turn.session.no, turn.strand, unit.position)
    found = first(rows.db, query, place)
    return found is not None and found[0] == page[0]


def _add_page(rows: Rows, turn: TurnRow, unit: Unit, page: SplitPage) -> None:
    position = unit.position
    if position != turn.pages:
        raise _misplaced(turn, unit)
    data, long_texts = page
    if turn.cancel is not None or b'"consumes"' in data:
        _check_claims(rows, turn, unit)
    link = link_page(turn.link, data)  # type: ignore[arg-type]  # the tail is known
    row = (turn.session.no, turn.strand, position, link, data)
    if long_texts or unit.blobs:
        number = insert_page(rows.db, row, long_texts, turns.when(unit))
        use_blobs(rows.db, number, unit.blobs)
    else:
        rows.db.execute(INSERT_PAGE, row)
    if turn.state != "running":
        turns.set_running(rows, turn)
    turn.link, turn.pages = link, position + 1


def _check_claims(rows: Rows, turn: TurnRow, unit: Unit) -> None:
    for entry in unit.entries:
        if type(entry) is Claimed:
            if turn.cancel is not None:
                raise TurnCancelled(f"turn {turn.id}: was cancelled; {entry.key} is not begun")
            if entry.consumes is not None:
                waits.consume(rows, turn, entry.consumes)


def _misplaced(turn: TurnRow, unit: Unit) -> IdempotencyConflict | HeadMoved:
    if unit.position < turn.pages:
        return IdempotencyConflict(
            f"unit {unit.operation_id}: another unit was written at this position", field="position"
        )
    return HeadMoved(
        f"turn {turn.id}: has {turn.pages} pages, this one is for position {unit.position}",
        field="position",
        found=turn.pages,
        wanted=unit.position,
    )
