"""A unit inside the writer's transaction: checked part by part, then written.

Nothing is written before everything that could refuse it was asked, but for the parts whose own rules need the
rows of the part before. What was remembered is changed last, so a refusal leaves it as it was. The journal is not
folded here: only the owner of the generation can add a page, at the next position, and what it says is checked when
it is read.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from windlass.journal import link_page
from windlass.ports.unit import Unit, UnitReceipt
from windlass.stores import rules
from windlass.stores.rules import check_fence
from windlass.stores.sqlite import errands, signals, turns, waits
from windlass.stores.sqlite.connection import first
from windlass.stores.sqlite.leases import Liveness, start_turn
from windlass.stores.sqlite.pages import INSERT_PAGE, Encoder, SplitPage, insert_page, use_blobs
from windlass.stores.sqlite.rows import Rows, TurnRow


def names_in(unit: Unit) -> tuple[str, ...]:
    """Return what a unit names besides its session and turn."""
    names = () if unit.accept is None else (unit.accept.agent, *unit.accept.takes)
    names = (*names, *errands.names_in(unit.errands))
    end = unit.commit
    if end is None:
        return names
    return (*names, *end.settle, *(() if end.agent is None else (end.agent,)))


def apply_unit(
    rows: Rows,
    unit: Unit,
    page: SplitPage | None,
    request: SplitPage | None,
    encoder: Encoder,
    liveness: Liveness,
) -> UnitReceipt:
    """Write a unit, of which `page` and `request` are the bytes; its errands, if it has any, come after it.

    Raises:
        WindlassError: it is refused; whatever it wrote is to be rolled back.
    """
    new = unit.accept
    accepted = None if new is None else turns.accept(rows, unit, new, request, encoder)
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
            told = errands.known(rows, unit, encoder) if unit.errands else ()
            committed = landed.committed
            return UnitReceipt(
                page=landed.page, accepted=accepted, committed=committed, errands=told
            )
    if unit.start is not None:
        start_turn(rows, turn, unit.start, unit, liveness)
    check_fence(session, turn, unit.generation)
    if page is not None:
        _add_page(rows, turn, unit, page)
    if unit.waits or unit.parks:
        _open_waits(rows, turn, unit, encoder)
    if accepted is None and unit.commit is None:
        return UnitReceipt(page=turn.pages)
    committed = None if unit.commit is None else turns.commit(rows, turn, unit, encoder)
    return UnitReceipt(page=turn.pages, accepted=accepted, committed=committed)


def apply_large(
    rows: Rows, unit: Unit, data: bytes, request: SplitPage | None, encoder: Encoder, *rest: Any
) -> UnitReceipt:
    """Write a unit as `apply_unit` does, of whose page only the bytes are there: it is too large for the loop."""
    return apply_unit(rows, unit, encoder.split_page(data, unit), request, encoder, *rest)


def apply_with_errands(rows: Rows, asked: errands.Asked, unit: Unit, *rest: Any) -> UnitReceipt:
    """Write a unit as `apply_unit` does, then run its errands. Most units have none and do not pass here."""
    page, _, encoder, _ = rest
    receipt = (apply_large if type(page) is bytes else apply_unit)(rows, unit, *rest)
    if receipt.errands:  # it landed before, and they with it
        return receipt
    return replace(receipt, errands=errands.run_of_unit(rows, unit, asked, encoder))


def _open_waits(rows: Rows, turn: TurnRow, unit: Unit, encoder: Encoder) -> None:
    for wait in unit.waits:
        is_new = waits.open_wait(rows, turn, wait, encoder)
        # A wait that ends with its unit would take a signal along that the next one is to get.
        if is_new and unit.commit is None:
            signals.opened(rows, turn, wait, encoder)
    if unit.parks:
        turns.set_state(rows, turn, rules.parked_state(turn))


def _landed(rows: Rows, turn: TurnRow, unit: Unit, page: SplitPage | None) -> UnitReceipt | None:
    """Return the receipt of a unit that was written before."""
    return rules.landed(turn, unit, lambda: page is not None and _has_page(rows, turn, unit, page))


def _has_page(rows: Rows, turn: TurnRow, unit: Unit, page: SplitPage) -> bool:
    query = "SELECT page FROM log WHERE session = ? AND strand = ? AND seq = ?"
    place = (turn.session.no, turn.strand, unit.position)
    found = first(rows.db, query, place)
    return found is not None and found[0] == page[0]


def _add_page(rows: Rows, turn: TurnRow, unit: Unit, page: SplitPage) -> None:
    position = unit.position
    if position != turn.pages:
        raise rules.misplaced(turn, unit)
    data, long_texts = page
    if turn.cancel is not None or b'"consumes"' in data:
        for key in rules.approvals(turn, unit):
            waits.consume(rows, turn, key)
    link = link_page(turn.link, data)  # type: ignore[arg-type]  # the tail is known
    row = (turn.session.no, turn.strand, position, link, data)
    if long_texts or unit.blobs:
        number = insert_page(rows.db, row, long_texts, rules.time_of(unit))
        use_blobs(rows.db, number, unit.blobs)
    else:
        rows.db.execute(INSERT_PAGE, row)
    if turn.state != "running":
        turns.set_running(rows, turn)
    turn.link, turn.pages = link, position + 1
