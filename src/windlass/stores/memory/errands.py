"""Errands on the rows in memory: each in changes of its own, which a dropped one takes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter

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
    Wait,
    WaitAnswer,
    WaitReceipt,
)
from windlass.stores import errands, rules
from windlass.stores.memory import inbox, turns, waits
from windlass.stores.memory.rows import Changes, SessionRow, Tables, TurnRow


def run_alone(tables: Tables, told: Sequence[Errand], *, now_ms: int) -> tuple[ErrandReceipt, ...]:
    """Run errands for a caller that has no turn."""
    errands.check_alone(told)
    changes = Changes()
    try:
        receipts = errands.run(MemoryErrands(tables, changes, now_ms=now_ms), told)
    except BaseException:
        changes.take_back()
        raise
    changes.keep()
    return receipts


def run_of_unit(tables: Tables, unit: Unit, changes: Changes) -> tuple[ErrandReceipt, ...]:
    """Run the errands of a unit whose other parts have taken effect."""
    starter = tables.session(unit.session_id).turn(unit.turn_id)
    rows = MemoryErrands(
        tables,
        changes,
        now_ms=rules.time_of(unit),
        starter=starter,
        is_end=unit.commit is not None,
    )
    errands.check_rejects(rows, unit)
    return errands.run(rows, unit.errands)


def known(tables: Tables, unit: Unit) -> tuple[ErrandReceipt, ...]:
    """Return the receipts of the errands of a unit that landed before."""
    return errands.known(MemoryErrands(tables, Changes()), unit.errands)


class MemoryErrands:
    """The rows as errands change them; `starter` is the turn of their unit, and `is_end` whether it ends with it."""

    def __init__(
        self,
        tables: Tables,
        changes: Changes,
        *,
        now_ms: int = 0,
        starter: TurnRow | None = None,
        is_end: bool = False,
    ) -> None:
        self._tables = tables
        self._changes = changes
        self._now_ms = now_ms
        self._starter = starter
        self._is_end = is_end

    @contextmanager
    def undone_if_dropped(self, session_id: str | None) -> Iterator[None]:  # noqa: ARG002 - the others' rows are not remembered
        """Do what is inside in changes of its own."""
        outer, self._changes = self._changes, Changes()
        try:
            yield
        except BaseException:
            self._changes.take_back()
            raise
        else:
            outer.adopt(self._changes)
        finally:
            self._changes = outer

    def wait(self, key: str) -> Wait | None:
        """Return the wait of a key."""
        turn = self._tables.waits.get(key)
        return None if turn is None else turn.waits[key].wait

    def owner(self, session_id: str) -> str | None:
        """Return the worker that has a session."""
        session = self._tables.sessions.get(session_id)
        return None if session is None else session.owner

    def accept(self, errand: AcceptTurn, number: int) -> bool:  # noqa: ARG002 - nothing was made ready for it
        """Accept the turn of an errand; return whether it was known."""

        def check_room(target: SessionRow | None) -> None:
            if errand.most is not None:
                root = self._place_of(errand).root
                errands.check_room(self._at_work_beside(target, root), errand.most)

        if self._is_known_elsewhere(errand):
            return True
        starter, arrived = self._starter, None
        if self._is_end and starter is not None and starter.session.id == errand.session_id:
            arrived = starter.arrived
        begun = turns.Begun(errand, lambda: self._place_of(errand), check_room, arrived)
        unit = Unit.accepting(errand.session_id, errand.turn_id, errand.turn)
        receipt = turns.accept(self._tables, unit, errand.turn, self._changes, begun=begun)
        turn = self._tables.session(errand.session_id).turn(errand.turn_id)
        if not receipt.known:
            turns.hold_blobs(self._tables, turn, unit.blobs, self._changes)
        return receipt.known

    def _is_known_elsewhere(self, errand: AcceptTurn) -> bool:
        found = (self._tables.sessions.get(name) for name in errand.known_in)
        living = [one for one in found if one is not None and one.deleted_ms is None]
        known = (session.turns.get(errand.turn_id) for session in living)
        return errands.is_known_elsewhere(
            errand, (turn.digest for turn in known if turn is not None)
        )

    def _place_of(self, errand: AcceptTurn) -> turns.TreePlace:
        """Return where a session that the errand makes belongs, as the tree is now."""
        if errand.parent is not None:
            parent = self._tables.session(errand.parent)
            return turns.TreePlace(parent, None, parent.root or parent)
        if self._starter is None or errand.at_top:
            return turns.TreePlace()
        session = self._starter.session
        return turns.TreePlace(session, self._starter, session.root or session)

    def _at_work_beside(self, target: SessionRow | None, root: SessionRow | None) -> int:
        """Return how many other sessions of a tree have unfinished turns."""
        return sum(
            any(turn.state != "done" for turn in session.unfinished.values())
            for session in self._tables.sessions.values()
            if session.root is not None and session.root is root and session is not target
        )

    def post(self, errand: PostItem) -> bool:
        """Put an item into an inbox; return whether it was known."""
        session = self._tables.session(errand.session_id)
        now_ms = errand.now_ms or self._now_ms
        return inbox.put(self._tables, session, errand.item, self._changes, now_ms=now_ms).known

    def answer(self, errand: AnswerWait) -> tuple[WaitReceipt, bool]:
        """Answer a wait; return what became of it, and whether this very answer stood before."""
        turn, view = waits.find(self._tables, errand.key)
        rules.check_answers(view.wait, errand.answer, is_errand=True)
        return waits.settle(self._tables, turn, view, errand.answer, self._changes)

    def cancel(self, errand: CancelTurn) -> CancelReceipt:
        """Ask for a turn of a living session to end."""
        turn = self._tables.session(errand.session_id).turns.get(errand.turn_id)
        return waits.cancel(self._tables, turn, errand.reason, self._changes)

    def move(self, errand: MoveSession) -> bool:
        """Let a process belong to another session, with all below it; return whether it did before."""
        session, to = self._tables.session(errand.session_id), self._tables.session(errand.to)
        rules.check_moves(session, to, attrgetter("started_by"))
        if session.started_by is to:
            return True
        self._changes.set(session, started_by=to, started_in=None)
        moved, root = [session], to.root or to
        for one in moved:  # it grows meanwhile
            self._changes.set(one, root=root)
            moved += [row for row in self._tables.sessions.values() if row.started_by is one]
        return False

    def reject(self, key: str, answer: WaitAnswer) -> None:
        """Answer a wait of the unit's own turn, if it is open."""
        turn, view = waits.find(self._tables, key)
        waits.settle(self._tables, turn, view, answer, self._changes)
