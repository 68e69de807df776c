"""Units: their parts take effect in order; one that is refused takes back those before it.

What was there before answers first, before any fence, because an answer may have been lost: the request of a
turn that is known, a page that has landed, the end of a turn that is done. Then come the start, the fence, whether
the turn is under way, the position, the cancel mark, approvals that are used up, waits, the commit.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.errors import (
    HeadMoved,
    IdempotencyConflict,
    InvalidInput,
    TurnCancelled,
    WindlassBug,
)
from windlass.journal import Claimed, HistoryPage, check_place, encode_page
from windlass.journal.usage import sum_usage
from windlass.kernel.outcomes import Outcome, Stopped
from windlass.ports import (
    CommitReceipt,
    NewItem,
    NewTurn,
    TurnCommit,
    TurnReceipt,
    Unit,
    UnitReceipt,
    Wait,
)
from windlass.stores.memory import inbox, leases
from windlass.stores.memory.leases import Workers
from windlass.stores.memory.rows import Changes, PageRow, SessionRow, Tables, TurnRow, WaitRow


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
    accepted = _accept(tables, unit, unit.accept, changes) if unit.accept is not None else None
    session = tables.session(unit.session_id)
    turn = session.turn(unit.turn_id)
    try:
        landed = None if _is_of_another(session, unit) else _landed(turn, unit)
    except (HeadMoved, IdempotencyConflict):
        # Of an older generation it is news enough that the session is lost.
        if unit.generation < session.generation:
            leases.check_generation(session, unit.generation)
        raise
    if landed is not None:
        return msgspec.structs.replace(landed, accepted=accepted)
    leases.start(workers, session, turn, unit, changes)
    if unit.is_fenced:
        leases.check_fence(session, unit.generation)
        leases.check_active(session, turn)
    if unit.entries:
        _write_page(turn, unit, changes)
    _hold_blobs(tables, turn, unit.blobs, changes)
    for wait in unit.waits:
        _open_wait(tables, session, turn, wait, changes)
    if unit.parks:
        # A cancelled turn has something to do, too: it is to end.
        is_ready = turn.answered or turn.cancel is not None
        changes.set(turn, state="ready" if is_ready else "parked")
    if unit.commit is None:
        return UnitReceipt(page=len(turn.pages), accepted=accepted)
    if unit.parks:
        raise InvalidInput("Unit.parks: a turn that commits does not park", field="Unit.parks")
    change = _plan_commit(tables, session, turn, unit.commit)
    changes.keep()
    return UnitReceipt(page=len(turn.pages), accepted=accepted, committed=change())


def _accept(tables: Tables, unit: Unit, new: NewTurn, changes: Changes) -> TurnReceipt:
    check_place(unit.session_id, unit.turn_id)
    request_digest = new.request.digest()
    if unit.session_id not in tables.sessions:
        made = SessionRow(unit.session_id, agent=new.agent, created_ms=new.now_ms)
        changes.add(tables.sessions, unit.session_id, made)
    session = tables.session(unit.session_id)
    turn = session.turns.get(unit.turn_id)
    is_known = turn is not None
    if turn is None:
        changes.set(session, arrivals=session.arrivals + 1)
        changes.set(tables, accepted=tables.accepted + 1)
        turn = TurnRow(
            turn_id=unit.turn_id,
            agent=new.agent,
            request=new.request,
            request_digest=request_digest,
            submitter=new.submitter,
            by=new.by,
            accepted=tables.accepted,
            arrived=session.arrivals,
        )
        changes.add(session.turns, unit.turn_id, turn)
        changes.add(session.queue, unit.turn_id, None)
        inbox.enter(session, unit.turn_id, new.takes, changes)
    elif turn.request_digest != request_digest:
        raise IdempotencyConflict(
            f"turn {unit.turn_id}: is known with another request", field="request"
        )
    return TurnReceipt(
        session_id=unit.session_id, turn_id=unit.turn_id, state=turn.state, known=is_known
    )


def _is_of_another(session: SessionRow, unit: Unit) -> bool:
    """Whether a beginning like this one can only have been another worker's.

    Two workers that begin a turn in the same moment may write the same bytes; they are not the same unit.
    """
    return unit.start is not None and unit.commit is None and session.owner != unit.start.worker_id


def _landed(turn: TurnRow, unit: Unit) -> UnitReceipt | None:
    """Return the receipt of a unit that was written before; handed in again, it lands once."""
    if unit.commit is not None:
        # One that commits and whose turn is not done did not land, whatever page is there.
        if turn.state != "done":
            return None
        committed = _committed_before(turn, unit.commit)
        return UnitReceipt(page=len(turn.pages), committed=committed)
    is_there = unit.entries and unit.position < len(turn.pages)
    if is_there and turn.pages[unit.position] == _page(unit):
        return UnitReceipt(page=unit.position + 1)
    if unit.is_fenced and turn.state == "done":
        raise HeadMoved(f"turn {turn.turn_id}: is done")
    return None


def _page(unit: Unit) -> bytes:
    return encode_page(unit.entries, unit.generation)


def _write_page(turn: TurnRow, unit: Unit, changes: Changes) -> None:
    _check_position(turn, unit)
    for entry in unit.entries:
        if type(entry) is Claimed:
            if turn.cancel is not None:
                raise TurnCancelled(f"turn {unit.turn_id}: was cancelled; {entry.key} is not begun")
            if entry.consumes is not None:
                _consume(turn, entry.consumes, changes)
    changes.append(turn.pages, _page(unit))
    if turn.state != "running":
        changes.set(turn, state="running", answered=False)


def _check_position(turn: TurnRow, unit: Unit) -> None:
    found = len(turn.pages)
    if unit.position < found:
        raise IdempotencyConflict(f"{unit.operation_id}: another page is there", field="position")
    if unit.position > found:
        raise HeadMoved(
            f"{unit.operation_id}: the turn has {found} pages", found=unit.position, wanted=found
        )


def _hold_blobs(tables: Tables, turn: TurnRow, digests: tuple[str, ...], changes: Changes) -> None:
    for digest in digests:
        if digest not in tables.blobs:
            raise InvalidInput("Unit.blobs: found a digest of no blob here", field="Unit.blobs")
        if digest not in turn.blobs:
            changes.add(turn.blobs, digest, None)


def _consume(turn: TurnRow, key: str, changes: Changes) -> None:
    row = turn.waits.get(key)
    if row is None:
        raise InvalidInput("Claimed.consumes: the turn has no such wait", field="Claimed.consumes")
    if row.state != "answered" or row.consumed:
        found = "is used up" if row.consumed else f"is {row.state}"
        raise IdempotencyConflict(
            f"Claimed.consumes: the wait {found}, wanted an answer that is not used",
            field="Claimed.consumes",
        )
    changes.set(row, consumed=True)


def _open_wait(
    tables: Tables, session: SessionRow, turn: TurnRow, wait: Wait, changes: Changes
) -> None:
    if wait.key in tables.waits:
        _, owner = tables.waits[wait.key]
        if owner.waits[wait.key].wait != wait:
            raise IdempotencyConflict("wait: its key is known with other content", field="key")
        return
    if (wait.session_id, wait.turn_id) != (session.session_id, turn.turn_id):
        raise InvalidInput("Unit.waits: found a wait of another turn", field="Unit.waits")
    changes.set(tables, opened=tables.opened + 1)
    changes.add(turn.waits, wait.key, WaitRow(wait, opened=tables.opened))
    changes.add(tables.waits, wait.key, (session, turn))


def _committed_before(turn: TurnRow, commit: TurnCommit) -> CommitReceipt:
    """Return the receipt of a turn that is done, if this is what it was committed with.

    Raises:
        IdempotencyConflict: it was other content.
    """
    if turn.receipt is None:
        raise WindlassBug(f"turn {turn.turn_id}: is done without a receipt")
    if turn.receipt.digest != commit.digest():
        raise IdempotencyConflict(
            f"turn {turn.turn_id}: was committed with other content", field="commit"
        )
    return turn.receipt


def _plan_commit(
    tables: Tables, session: SessionRow, turn: TurnRow, commit: TurnCommit
) -> Callable[[], CommitReceipt]:
    """Check a commit; what is returned then does it."""
    if turn.cancel is not None and not _is_cancelled(commit.outcome):
        raise TurnCancelled(f"turn {turn.turn_id}: was cancelled, it can only end so")
    if commit.expected_head != session.head:
        raise HeadMoved(
            f"session {session.session_id}: its head is {session.head}, "
            f"the commit expected {commit.expected_head}",
            found=session.head,
            wanted=commit.expected_head,
        )
    for item_id in commit.settle:
        item = session.items.get(item_id)
        if item is None or item.state != "taken" or item.turn_id != turn.turn_id:
            raise InvalidInput(
                f"TurnCommit.settle: turn {turn.turn_id} has not taken {item_id}",
                field="TurnCommit.settle",
            )
    _check_follow_ups(session, commit.follow_ups)
    digest = commit.digest()

    def change() -> CommitReceipt:
        receipt = _commit(session, turn, commit, digest)
        for item in commit.follow_ups:
            inbox.put(tables, session, item, now_ms=commit.now_ms)
        return receipt

    return change


def _is_cancelled(outcome: Outcome) -> bool:
    return isinstance(outcome, Stopped) and outcome.reason == "cancelled"


def _check_follow_ups(session: SessionRow, follow_ups: tuple[NewItem, ...]) -> None:
    known = {item_id: row.item for item_id, row in session.items.items()} if follow_ups else {}
    for item in follow_ups:
        if known.setdefault(item.item_id, item).digest() != item.digest():
            raise IdempotencyConflict(
                f"item {item.item_id}: is known with other content",
                field="TurnCommit.follow_ups",
            )


def _commit(session: SessionRow, turn: TurnRow, commit: TurnCommit, digest: str) -> CommitReceipt:
    usage = commit.usage
    page = HistoryPage(
        format=HistoryPage.FORMAT,
        turn_id=turn.turn_id,
        nodes=tuple(commit.nodes),
        outcome=commit.outcome,
        usage=usage,
        events=tuple(commit.events),
        committed_ms=commit.now_ms,
        prefix=commit.prefix,
    )
    # History outlives the journal, so it holds on to all that the journal held on to.
    held = turn.blobs if commit.blobs is None else commit.blobs
    session.pages.append(PageRow(page, tuple(held)))
    session.head += 1
    session.usage = sum_usage((*session.usage, *usage))
    session.active = None
    receipt = CommitReceipt(
        session_id=session.session_id, turn_id=turn.turn_id, head=session.head, digest=digest
    )
    turn.state, turn.outcome, turn.receipt = "done", commit.outcome, receipt
    turn.committed_ms = commit.now_ms
    inbox.settle(session, turn.turn_id, commit.settle)
    for wait in turn.waits.values():
        if wait.state == "open":
            wait.state = "superseded"
    return receipt
