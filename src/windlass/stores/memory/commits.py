"""Commits: the end of a turn. What can be refused is refused before the first row changes."""

from __future__ import annotations

from collections.abc import Callable

from windlass.errors import (
    HeadMoved,
    IdempotencyConflict,
    InvalidInput,
    TurnCancelled,
    WindlassBug,
)
from windlass.journal import HistoryPage
from windlass.journal.usage import sum_usage
from windlass.kernel.outcomes import Outcome, Stopped
from windlass.ports import CommitReceipt, NewItem, TurnCommit
from windlass.stores.memory import inbox
from windlass.stores.memory.rows import PageRow, SessionRow, Tables, TurnRow


def committed_before(turn: TurnRow, commit: TurnCommit) -> CommitReceipt:
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


def plan(
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
