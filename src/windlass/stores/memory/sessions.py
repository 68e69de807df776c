"""Sessions: how they look, how they share history, how they end, and what is reclaimed of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from windlass.errors import IdempotencyConflict
from windlass.guards.ids import check_id
from windlass.journal import HistoryPage
from windlass.kernel import canonical
from windlass.ports import (
    DeleteReport,
    ImportedSession,
    SessionKind,
    SessionSummary,
    SessionView,
    TurnSummary,
    TurnView,
    VacuumReport,
)
from windlass.ports.inbox import blobs_in
from windlass.stores import facts, rules
from windlass.stores.memory import news
from windlass.stores.memory.leases import Workers
from windlass.stores.memory.rows import Changes, ItemRow, PageRow, SessionRow, Tables, TurnRow


def view(session: SessionRow, *, history: bool, frame: bool = False) -> SessionView:
    """Return a session as it stands; of its history nothing, the last frame, or all."""
    pages: list[HistoryPage] = []
    for page in _newest_first(session, session.head) if history else ():
        pages.append(page)
        if frame and page.is_beginning:
            break
    return facts.session_view(
        session,
        pages[::-1],
        active=session.active_id,
        queued=session.queued,
        waiting=len(session.pending),
        usage=session.usage,
        parent=_id_of(session.parent),
        started_by=_id_of(session.started_by),
        root=_id_of(session.root),
    )


def _id_of(session: SessionRow | None) -> str | None:
    return None if session is None else session.id


def _newest_first(session: SessionRow, count: int) -> Iterator[HistoryPage]:
    """Return the first `count` pages of a session, the inherited ones last."""
    for at in range(count - session.inherited - 1, -1, -1):
        yield session.pages[at].page
    if session.parent is not None:
        yield from _newest_first(session.parent, min(count, session.inherited))


def part_of_history(
    session: SessionRow, *, before: int | None, limit: int | None, frame: bool
) -> tuple[HistoryPage, ...]:
    """Return the last pages before one, oldest first; of a frame those from the last beginning on."""
    last = session.head if before is None else min(before - 1, session.head)
    pages: list[HistoryPage] = []
    for page in islice(_newest_first(session, last), limit):
        pages.append(page)
        if frame and page.is_beginning:
            break
    return tuple(reversed(pages))


def view_turn(turn: TurnRow, since: int = 0) -> TurnView:
    """Return a turn as it stands, with its journal from a page on."""
    return facts.turn_view(
        turn,
        request=turn.request,
        pages=turn.read_pages()[since:],
        waits=tuple(turn.waits.values()),
        end=turn.end,
        since=since,
    )


def summary(session: SessionRow) -> SessionSummary:
    """Return a session's line in a list."""
    return SessionSummary(
        session_id=session.id,
        agent=session.agent,
        created_ms=session.created_ms,
        head=session.head,
        active=session.active_id,
        kind=session.kind,
        started_by=_id_of(session.started_by),
        root=_id_of(session.root),
        label=session.label,
    )


def turn_summary(turn: TurnRow) -> TurnSummary:
    """Return a turn's line in a list."""
    session = turn.session
    return TurnSummary(
        no=turn.no,
        session_id=session.id,
        turn_id=turn.id,
        agent=turn.agent,
        state=turn.state,
        by=turn.asked_by,
        cancel=turn.cancel,
        owner=session.owner if session.active == turn.no else None,
        ended_ms=None if turn.end is None else turn.end.committed_ms,
    )


def fork(
    tables: Tables,
    session_id: str,
    new_id: str,
    *,
    at: int | None,
    now_ms: int,
    own: PageRow | None = None,
) -> SessionRow:
    """Begin a session that shares the first `at` turns of another; `own` is the page that it adds to them."""
    check_id(new_id, field="new_id")
    parent = tables.session(session_id)
    head = rules.fork_head(parent, at)
    if new_id in tables.sessions:
        tables.session(new_id)
        raise IdempotencyConflict(f"session {new_id}: exists already", field="new_id")
    forked = SessionRow(
        new_id, agent=parent.agent, created_ms=now_ms, head=head, parent=parent, parent_head=head
    )
    if own is not None:
        tables.check_blobs(own.blobs)
        forked.pages.append(own)
        forked.head += 1
    tables.sessions[new_id] = forked
    return forked


def import_session(tables: Tables, session: ImportedSession) -> SessionRow:
    """Make a session with the history that it had in another store."""
    if session.session_id in tables.sessions:
        known = tables.session(session.session_id)
        pages = [turn.page for turn in session.turns]
        is_same = known.parent is None and pages == [row.page for row in known.pages]
        if is_same and known.agent == session.agent:
            return known
        said = f"session {session.session_id}: exists already"
        raise IdempotencyConflict(said, field="session_id")
    for turn in session.turns:
        tables.check_blobs(turn.blobs)
    made = tables.sessions[session.session_id] = SessionRow(
        session.session_id,
        agent=session.agent,
        created_ms=session.created_ms,
        head=len(session.turns),
        arrivals=len(session.turns),
    )
    for head, turn in enumerate(session.turns, 1):
        made.pages.append(PageRow(turn.page, turn.blobs))
        if turn.request_digest is None:
            continue
        tables.accepted += 1
        made.turns[turn.page.turn_id] = TurnRow(
            session=made,
            no=tables.accepted,
            id=turn.page.turn_id,
            agent=session.agent,
            request=None,
            digest=turn.request_digest,
            submitter=None,
            asked_by=None,
            arrived=head,
            state="done",
            strand=head,
            end=turn.page,
            head=head,
            commit_digest=canonical.digest(turn.page),
        )
    return made


def delete(tables: Tables, session_id: str, *, now_ms: int) -> DeleteReport:
    """Remove a session and what it began; pages that a fork of one of them shows stay for that fork."""
    tree = rules.tree_of(tables.session(session_id), partial(_started, tables))
    for session in tree:
        if session.unfinished:
            raise rules.has_unfinished_turn(session)
    return _delete(tables, tree, now_ms)


def _started(tables: Tables, session: SessionRow) -> list[SessionRow]:
    return [row for row in tables.sessions.values() if row.started_by is session]


def _delete(tables: Tables, gone: Sequence[SessionRow], now_ms: int) -> DeleteReport:
    """Remove sessions that nothing is unfinished in."""
    held = set(references(tables))
    pages = sum(_remove(tables, session, now_ms) for session in gone)
    alone = held.difference(references(tables))
    for digest in alone:
        del tables.blobs[digest]
    for session in gone:
        news.tell(tables, "deleted", Changes(), session=session)
    news.reclaim(tables)
    return DeleteReport(session_id=gone[-1].id, pages=pages, bodies=len(alone))


def _remove(tables: Tables, session: SessionRow, now_ms: int) -> int:
    """Remove what one session holds; return how many pages that were."""
    # What was asked, and the journals; what was said is counted where it is trimmed.
    pages = sum(turn.pages + (turn.request is not None) for turn in session.turns.values())
    for turn in session.turns.values():
        _drop_journal(tables, turn)
    session.turns.clear()
    session.items.clear()
    session.open_items.clear()
    session.usage, session.owner, session.deleted_ms = (), None, now_ms
    tombstone: SessionRow | None = session
    while tombstone is not None:
        if tombstone.deleted_ms is not None:
            pages += _trim(tables, tombstone)
        tombstone = tombstone.parent
    return pages


def _trim(tables: Tables, tombstone: SessionRow) -> int:
    kept = max(_shown(tables, tombstone) - tombstone.inherited, 0)
    removed = len(tombstone.pages[kept:])
    del tombstone.pages[kept:]
    return removed


def _shown(tables: Tables, session: SessionRow) -> int:
    """Return how many of a session's pages are shown by it or by a fork of it."""
    if session.deleted_ms is None:
        return session.head
    forks = (row for row in tables.sessions.values() if row.parent is session)
    return max((min(fork.inherited, _shown(tables, fork)) for fork in forks), default=0)


# Bytes may have been put and the unit that refers to them not handed in yet.
BLOB_GRACE_MS = 24 * 60 * 60 * 1000


def vacuum(
    tables: Tables,
    workers: Workers,
    *,
    now_ms: int,
    retention_ms: int,
    keep_ms: Mapping[SessionKind, int],
) -> VacuumReport:
    """Reclaim what can no longer be asked for."""
    rules.check_kept(keep_ms)
    before_ms = now_ms - retention_ms
    journals = waits = items = 0
    for session in tables.live_sessions():
        items += _drop_items(session, before_ms)
        for turn in session.turns.values():
            if turn.request is not None and _ended_before(turn, before_ms):
                waits += _drop_journal(tables, turn)
                journals += 1
    old = _drop_old(tables, now_ms, keep_ms)
    report = VacuumReport(
        sessions=old.sessions,
        journals=journals,
        waits=waits,
        items=items,
        bodies=old.bodies + _drop_blobs(tables, now_ms - BLOB_GRACE_MS),
        workers=_drop_workers(tables, workers),
    )
    news.reclaim(tables)
    return report


def _drop_old(tables: Tables, now_ms: int, keep_ms: Mapping[SessionKind, int]) -> VacuumReport:
    """Delete sessions that ended longer ago than their kind is kept, the deepest first."""
    n_sessions = bodies = 0
    while old := [row for row in tables.live_sessions() if _is_old(tables, row, now_ms, keep_ms)]:
        n_sessions += len(old)
        bodies += _delete(tables, old, now_ms).bodies
    return VacuumReport(sessions=n_sessions, bodies=bodies)


def _is_old(
    tables: Tables, session: SessionRow, now_ms: int, keep_ms: Mapping[SessionKind, int]
) -> bool:
    if session.kind not in keep_ms or session.unfinished or session.pending:
        return False
    before_ms = now_ms - keep_ms[session.kind]
    if not all(_ended_before(turn, before_ms) for turn in session.turns.values()):
        return False
    begun_in = session.started_in if session.kind == "child" else None
    if begun_in is not None and begun_in.request is not None:
        return False  # the journal of the turn that began it speaks of it
    return len(rules.tree_of(session, partial(_started, tables))) == 1


def _drop_journal(tables: Tables, turn: TurnRow) -> int:
    n_waits = len(turn.waits)
    for key in turn.waits:
        del tables.waits[key]
    turn.waits.clear()
    turn.journal.clear()
    turn.blobs.clear()
    turn.request = None
    return n_waits


def _drop_items(session: SessionRow, before_ms: int) -> int:
    ended = [name for name, row in session.items.items() if _has_ended(session, row, before_ms)]
    for name in ended:
        del session.items[name]
    return len(ended)


def _has_ended(session: SessionRow, row: ItemRow, before_ms: int) -> bool:
    item = row.item
    if item.state == "withdrawn":
        return row.enqueued_ms < before_ms
    if item.state != "settled" or item.turn_id is None:
        return False
    return _ended_before(session.turns[item.turn_id], before_ms)


def _ended_before(turn: TurnRow, before_ms: int) -> bool:
    return turn.end is not None and turn.end.committed_ms < before_ms


def _drop_blobs(tables: Tables, before_ms: int) -> int:
    referred = set(references(tables))
    unused = [
        digest
        for digest, blob in tables.blobs.items()
        if digest not in referred and blob.put_ms < before_ms
    ]
    for digest in unused:
        del tables.blobs[digest]
    return len(unused)


def _drop_workers(tables: Tables, workers: Workers) -> int:
    dead = workers.drop_dead()
    for session in tables.live_sessions():
        if session.owner in dead:
            session.owner = None
    for worker_id in dead:
        news.tell(tables, "left", Changes(), worker_id=worker_id)
    return len(dead)


def references(tables: Tables) -> Iterator[str]:
    """Return the digests that journals, history and what waits in an inbox refer to."""
    for session in tables.sessions.values():
        for turn in session.turns.values():
            yield from turn.blobs
        for page in session.pages:
            yield from page.blobs
        for row in session.items.values():
            if row.item.state in ("pending", "taken"):
                yield from blobs_in(row.item.content)
