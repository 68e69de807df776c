"""Units: their parts take effect in order; one that is refused takes back those before it.

What was there before answers first, before any fence, because an answer may have been lost: the request of a
turn that is known, a page that has landed, the end of a turn that is done. Then come the start, the fence, whether
the turn is under way, the position, the cancel mark, approvals that are used up, waits, the commit, the errands.
"""

from __future__ import annotations

from msgspec.structs import replace

from windlass.journal import encode_page
from windlass.journal.usage import sum_usage
from windlass.ports import (
    CommitReceipt,
    TurnCommit,
    Unit,
    UnitReceipt,
    Wait,
    WaitView,
)
from windlass.stores import facts, rules
from windlass.stores.memory import errands, inbox, leases, news, signals, turns
from windlass.stores.memory.leases import Workers
from windlass.stores.memory.rows import Changes, PageRow, SessionRow, Tables, TurnRow


def apply(tables: Tables, workers: Workers, unit: Unit) -> UnitReceipt:
    """Write a unit, whole or not at all."""
    changes = Changes()
    try:
        receipt = _apply(tables, workers, unit, changes)
    except BaseException:
        changes.take_back()
        raise
    changes.keep()
    return receipt


def _apply(tables: Tables, workers: Workers, unit: Unit, changes: Changes) -> UnitReceipt:
    new = unit.accept
    accepted = None if new is None else turns.accept(tables, unit, new, changes)
    turn = tables.session(unit.session_id).turn(unit.turn_id)
    if unit.is_fenced:
        landed = rules.landed(turn, unit, lambda: _has_page(turn, unit))
        if landed is not None:
            told = errands.known(tables, unit) if unit.errands else ()
            return replace(landed, accepted=accepted, errands=told)
        if unit.start is not None:
            leases.begin(workers, turn, unit.start, unit, changes)
        rules.check_fence(turn.session, turn, unit.generation)
    if unit.entries:
        _write_page(turn, unit, changes)
        news.tell(tables, "page", changes, turn=turn, position=unit.position)
    turns.hold_blobs(tables, turn, unit.blobs, changes)
    for wait in unit.waits:
        is_new = _open_wait(tables, turn, wait, changes)
        # A wait that ends with its unit would take a signal along that the next one is to get.
        if is_new and unit.commit is None:
            signals.opened(tables, turn, wait, changes)
    if unit.parks:
        _park(tables, turn, changes)
    committed = None if unit.commit is None else _commit(tables, turn, unit, unit.commit, changes)
    told = errands.run_of_unit(tables, unit, changes) if unit.errands else ()
    return UnitReceipt(page=turn.pages, accepted=accepted, committed=committed, errands=told)


def _page(unit: Unit) -> bytes:
    return encode_page(unit.entries, unit.generation)


def _has_page(turn: TurnRow, unit: Unit) -> bool:
    return turn.journal[unit.position : unit.position + 1] == [_page(unit)]


def _write_page(turn: TurnRow, unit: Unit, changes: Changes) -> None:
    if unit.position != turn.pages:
        raise rules.misplaced(turn, unit)
    for key in rules.approvals(turn, unit):
        wait = turn.waits.get(key)
        changes.put(turn.waits, key, replace(rules.usable(wait), consumed=True))
    changes.append(turn.journal, _page(unit))
    if turn.state != "running":
        changes.set(turn, state="running", answered=False)


def _open_wait(tables: Tables, turn: TurnRow, wait: Wait, changes: Changes) -> bool:
    """Open a wait; return whether it is new."""
    owner = tables.waits.get(wait.key)
    if owner is not None:
        rules.check_same(owner.waits[wait.key].wait, wait, "Wait.key", field="Wait.key")
        return False
    rules.check_wait(turn, wait)
    changes.put(turn.waits, wait.key, WaitView(wait=wait, page=turn.pages))
    changes.put(tables.waits, wait.key, turn)
    news.tell(tables, "opened", changes, turn=turn, wait=wait.key)
    return True


def _park(tables: Tables, turn: TurnRow, changes: Changes) -> None:
    state = rules.parked_state(turn)
    if state == "parked" and turn.state != "parked":
        news.tell(tables, "parked", changes, turn=turn)
    changes.set(turn, state=state)


def _hand_over(session: SessionRow, agent: str, changes: Changes) -> None:
    """Give a session to another agent, with the turns that wait in it for the one that had it."""
    for queued in session.unfinished.values():
        if queued.state == "queued" and queued.agent == session.agent:
            changes.set(queued, agent=agent)
    changes.set(session, agent=agent)


def _commit(
    tables: Tables, turn: TurnRow, unit: Unit, end: TurnCommit, changes: Changes
) -> CommitReceipt:
    rules.check_end(turn, unit, end)
    session, page = turn.session, facts.history_page(turn, end)
    # History outlives the journal, so it holds on to all that the journal held on to.
    held = turn.blobs if end.blobs is None else end.blobs
    changes.append(session.pages, PageRow(page, tuple(held)))
    usage = sum_usage((*session.usage, *end.usage))
    changes.set(session, head=session.head + 1, usage=usage)
    if end.agent is not None:
        _hand_over(session, end.agent, changes)
    changes.set(turn, state="done", head=session.head, commit_digest=end.digest(), end=page)
    changes.at_last(lambda: session.unfinished.pop(turn.id))
    news.tell(tables, "ended", changes, turn=turn)
    inbox.settle(turn, end.settle, changes)
    for key, wait in turn.waits.items():
        if wait.state == "open":
            changes.put(turn.waits, key, replace(wait, state="superseded"))
            news.tell(tables, "answered", changes, turn=turn, wait=key)
    for item in end.follow_ups:  # behind the waits: a signal is not for the turn that has ended
        inbox.put(tables, session, item, changes, now_ms=end.now_ms)
    return facts.receipt_of(turn)
