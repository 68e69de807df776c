"""Errands inside the writer's transaction: each in a savepoint of its own, which a dropped one rolls back.

Law. What the writer remembers of a session is forgotten with the errand that is rolled back there; and of all sessions
if the errands fail as a whole, because the unit that they are refused with names only its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelReceipt,
    CancelTurn,
    Errand,
    ErrandReceipt,
    MoveSession,
    PostItem,
    Unit,
    UnitReceipt,
    Wait,
    WaitAnswer,
    WaitReceipt,
)
from windlass.stores import errands, rules
from windlass.stores.sqlite import inbox, turns, waits
from windlass.stores.sqlite.connection import first
from windlass.stores.sqlite.pages import Encoder, SplitPage
from windlass.stores.sqlite.rows import IS_UNFINISHED, Rows, SessionRow

Asked: TypeAlias = tuple[SplitPage | None, ...]
"""The bytes of what is asked of the turns that errands accept, by the number of the errand."""

_AT_WORK = (
    "SELECT count(*) FROM sessions WHERE root = ? AND no <> ? AND deleted_ms IS NULL"  # noqa: S608 - a constant
    f" AND {IS_UNFINISHED}"
)
_MOVE = "UPDATE sessions SET started_by = ?, started_in = NULL WHERE no = ?"
_NEW_ROOT = (
    "WITH RECURSIVE moved (no) AS (SELECT ? UNION"
    " SELECT sessions.no FROM moved JOIN sessions ON sessions.started_by = moved.no)"
    " UPDATE sessions SET root = ? WHERE no IN moved"
)


def names_in(told: Sequence[Errand]) -> Iterator[str]:
    """Return what errands name. The key of a wait is a secret of its own, and is looked up, not written."""
    for errand in told:
        match errand:
            case AcceptTurn():
                turn = errand.turn
                yield from (errand.session_id, errand.turn_id, turn.agent, *turn.takes)
                yield from errand.known_in
                if errand.parent is not None:
                    yield errand.parent
            case MoveSession():
                yield from (errand.session_id, errand.to)
            case PostItem():
                yield from (errand.session_id, errand.item.item_id)
            case CancelTurn():
                yield from (errand.session_id, errand.turn_id)
            case AnswerWait():
                pass


def encode(told: Sequence[Errand], encoder: Encoder) -> Asked:
    """Return what is asked of the turns that errands accept, as it is stored."""
    return tuple(
        encoder.request_page(errand.turn) if isinstance(errand, AcceptTurn) else None
        for errand in told
    )


def run_alone(
    rows: Rows, told: Sequence[Errand], asked: Asked, encoder: Encoder, now_ms: int
) -> tuple[ErrandReceipt, ...]:
    """Run errands for a caller that has no turn."""
    earlier: tuple[ErrandReceipt, ...] | None = rows.earlier
    return errands.run(SqliteErrands(rows, encoder, asked, now_ms), told, earlier or ())


def run_of_unit(
    rows: Rows, unit: Unit, asked: Asked, encoder: Encoder
) -> tuple[ErrandReceipt, ...]:
    """Run the errands of a unit whose other parts have taken effect."""
    earlier: UnitReceipt | None = rows.earlier
    place, is_end = (unit.session_id, unit.turn_id), unit.commit is not None
    mine = SqliteErrands(rows, encoder, asked, rules.time_of(unit), place, is_end=is_end)
    try:
        errands.check_rejects(mine, unit)
        return errands.run(mine, unit.errands, () if earlier is None else earlier.errands)
    except BaseException:
        rows.forget()
        raise


def known(rows: Rows, unit: Unit, encoder: Encoder) -> tuple[ErrandReceipt, ...]:
    """Return the receipts of the errands of a unit that landed before, or what an earlier attempt answered."""
    earlier: UnitReceipt | None = rows.earlier
    if earlier is not None:
        return earlier.errands
    return errands.known(SqliteErrands(rows, encoder), unit.errands)


class SqliteErrands:
    """The rows as errands change them; `starter` are session and turn of their unit, `is_end`: it ends that turn."""

    def __init__(
        self,
        rows: Rows,
        encoder: Encoder,
        asked: Asked = (),
        now_ms: int = 0,
        starter: tuple[str, str] | None = None,
        *,
        is_end: bool = False,
    ) -> None:
        self._rows = rows
        self._encoder = encoder
        self._asked = asked
        self._now_ms = now_ms
        self._starter = starter
        self._is_end = is_end
        self._waits: dict[str, Wait] = {}

    @contextmanager
    def undone_if_dropped(self, session_id: str | None) -> Iterator[None]:
        """Do what is inside in a savepoint. After a fault of the disk none is left: the transaction went with it."""
        rows = self._rows
        rows.db.execute("SAVEPOINT errand")
        try:
            yield
        except errands.DROPS:
            rows.db.execute("ROLLBACK TO errand")
            rows.db.execute("RELEASE errand")
            if session_id is not None:  # else it found nothing to act on
                rows.forget_session(session_id)
            raise
        rows.db.execute("RELEASE errand")

    def wait(self, key: str) -> Wait | None:
        """Return the wait of a key."""
        if key not in self._waits:
            view = waits.find(self._rows.db, key)
            if view is None:
                return None
            self._waits[key] = view.wait
        return self._waits[key]

    def owner(self, session_id: str) -> str | None:
        """Return the worker that has a session."""
        session = self._rows.find_session(session_id)
        return None if session is None else session.owner

    def accept(self, errand: AcceptTurn, number: int) -> bool:
        """Accept the turn of an errand; return whether it was known."""

        def check_room(target: SessionRow | None) -> None:
            if errand.most is not None:
                root = self._place_of(errand).root
                errands.check_room(self._at_work_beside(target, root), errand.most)

        if self._is_known_elsewhere(errand):
            return True
        unit = Unit.accepting(errand.session_id, errand.turn_id, errand.turn)
        request = self._asked[number]
        assert request is not None  # noqa: S101 - it is encoded with the errand
        arrived = None
        if self._is_end and self._starter is not None and self._starter[0] == errand.session_id:
            arrived = self._rows.turn(
                self._rows.session(errand.session_id), self._starter[1]
            ).arrived
        begun = turns.Begun(lambda: self._place_of(errand), check_room, arrived)
        return turns.admit(self._rows, unit, errand.turn, request, self._encoder, begun).known

    def _is_known_elsewhere(self, errand: AcceptTurn) -> bool:
        found = (self._rows.find_session(name) for name in errand.known_in)
        living = [one for one in found if one is not None and one.deleted_ms is None]
        known = (self._rows.find_turn(session, errand.turn_id) for session in living)
        return errands.is_known_elsewhere(
            errand, (turn.digest for turn in known if turn is not None)
        )

    def _place_of(self, errand: AcceptTurn) -> turns.TreePlace:
        """Return where a session that the errand makes belongs, as the tree is now."""
        rows, above, turn_no = self._rows, None, None
        if errand.parent is not None:
            above = rows.session(errand.parent)
        elif self._starter is not None and not errand.at_top:
            session_id, turn_id = self._starter
            above = rows.session(session_id)
            turn_no = rows.turn(above, turn_id).no
        label = self._encoder.words(errand.label or "") or None
        if above is None:
            return turns.TreePlace(errand.kind, label=label)
        root = above.no if above.root is None else above.root
        return turns.TreePlace(errand.kind, above.no, turn_no, root, label)

    def _at_work_beside(self, target: SessionRow | None, root: int | None) -> int:
        """Return how many other sessions of a tree have unfinished turns."""
        target_no = 0 if target is None else target.no
        return int(first(self._rows.db, _AT_WORK, (root, target_no))[0])

    def post(self, errand: PostItem) -> bool:
        """Put an item into an inbox; return whether it was known."""
        session = self._rows.session(errand.session_id)
        now_ms = errand.now_ms or self._now_ms
        return inbox.enqueue(self._rows, session, errand.item, self._encoder, now_ms).known

    def answer(self, errand: AnswerWait) -> tuple[WaitReceipt, bool]:
        """Answer a wait; return what became of it, and whether this very answer stood before."""
        view = rules.found_wait(waits.find(self._rows.db, errand.key))
        rules.check_answers(view.wait, errand.answer, is_errand=True)
        return waits.settle(self._rows, view, errand.answer, self._encoder)

    def cancel(self, errand: CancelTurn) -> CancelReceipt:
        """Ask for a turn of a living session to end."""
        turn = self._rows.find_turn(self._rows.session(errand.session_id), errand.turn_id)
        return turns.cancel(self._rows, turn, self._encoder.words(errand.reason))

    def move(self, errand: MoveSession) -> bool:
        """Let a process belong to another session, with all below it; return whether it did before."""
        rows = self._rows
        session, to = rows.session(errand.session_id), rows.session(errand.to)
        rules.check_moves(session, to, self._starter_of)
        if session.started_by == to.no:
            return True
        rows.db.execute(_MOVE, (to.no, session.no))
        rows.db.execute(_NEW_ROOT, (session.no, to.no if to.root is None else to.root))
        rows.forget()  # any of them may be below it
        return False

    def _starter_of(self, session: SessionRow) -> SessionRow | None:
        query = "SELECT id FROM sessions WHERE no = ?"
        found = first(self._rows.db, query, (session.started_by,))
        return None if found is None else self._rows.find_session(found[0])

    def reject(self, key: str, answer: WaitAnswer) -> None:
        """Answer a wait of the unit's own turn, if it is open."""
        view = rules.found_wait(waits.find(self._rows.db, key))
        waits.settle(self._rows, view, answer, self._encoder)
