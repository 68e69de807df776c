"""What changed, in the order in which it did, each under a number that is never given out again."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from operator import attrgetter
from typing import Any

from windlass import ports
from windlass.journal import JournalPage
from windlass.kernel import canonical
from windlass.stores.marks import read_mark, write_mark
from windlass.stores.memory.rows import Changes, SessionRow, Tables, ToldRow, TurnRow

_OF_JOURNAL = ("accepted", "page")
# How many changes vacuum leaves of those that stand in no journal and no history.
_KEPT = 10_000


def tell(
    tables: Tables,
    kind: ports.ChangeKind,
    changes: Changes,
    *,
    turn: TurnRow | None = None,
    session: SessionRow | None = None,
    **more: Any,
) -> None:
    """Note something that changed."""
    about = session if turn is None else turn.session
    changes.set(tables, tellings=tables.tellings + 1)
    told = ToldRow(tables.tellings, kind, session=about, turn=turn, **more)
    changes.append(tables.told, told)


def read(
    tables: Tables, store_id: str, mark: str | None, *, limit: int, pages: bool
) -> ports.Changes:
    """Return what changed behind a mark; of None, the mark of this moment."""
    now = tables.tellings
    if mark is None:
        return ports.Changes(mark=write_mark(store_id, now))
    (since,) = read_mark(mark, store_id, (now,))
    first = bisect_right(tables.told, since, key=attrgetter("no"))
    behind = (told for told in islice(tables.told, first, None) if _is_there(told))
    found = list(islice(behind, limit + 1))
    has_more = len(found) > limit
    told = found[:limit]
    read_up_to = told[-1].no if has_more and told else since if has_more else now
    return ports.Changes(
        mark=write_mark(store_id, read_up_to),
        changes=tuple(_change(row, pages=pages) for row in told),
        has_more=has_more,
    )


def reclaim(tables: Tables) -> None:
    """Forget what is gone, and old changes that stand in no journal and no history."""
    there = [told for told in tables.told if _is_there(told)]
    pages = [told for told in there if _is_page(told)]
    others = [told for told in there if not _is_page(told)][-_KEPT:]
    tables.told[:] = sorted((*pages, *others), key=attrgetter("no"))


def _is_page(told: ToldRow) -> bool:
    return told.kind in _OF_JOURNAL or told.kind == "ended"


def _is_there(told: ToldRow) -> bool:
    """Whether it is not of a session that was deleted, but for that itself, nor of a journal that was reclaimed."""
    if told.session is not None and told.session.deleted_ms is not None:
        return told.kind == "deleted"
    return told.turn is None or told.turn.request is not None or told.kind not in _OF_JOURNAL


def _change(told: ToldRow, *, pages: bool) -> ports.Change:
    session, turn = told.session, told.turn
    wait = None if turn is None or told.wait is None else turn.waits.get(told.wait)
    page = None
    if pages and turn is not None and told.kind == "page":
        page = canonical.read(turn.journal[told.position], JournalPage)
    return ports.Change(
        kind=told.kind,
        session_id="" if session is None else session.id,
        turn_id="" if turn is None else turn.id,
        position=told.position,
        page=page,
        wait=None if wait is None else wait.wait,
        worker_id=told.worker_id,
    )
