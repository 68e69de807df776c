"""Errands, as every store runs them: what a unit does to other sessions, inside its own transaction.

Law 1. Errands run in the order in which their sessions are locked; those of one session run as they were told.
Law 2. An errand that cannot be run is undone and dropped, and its receipt has the reason. It refuses no unit: a refused
    unit takes its lane down, and what other sessions hold is no fault of that lane.
Law 3. A turn that was to be accepted and was not is told to the turn that asked for it, which may wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeAlias, assert_never

from windlass.errors import CallerError, GuardError, InvalidInput, LimitExceeded, ReplayError
from windlass.ports import CancelReceipt, Unit, Wait, WaitAnswer, WaitReceipt
from windlass.ports.unit import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    ErrandReceipt,
    MoveSession,
    PostItem,
    lock_order,
    target_of,
)
from windlass.stores import rules

Status: TypeAlias = Literal["done", "known", "dropped"]

# What a target may answer: it is gone, it knows the id otherwise, it has no room, it is damaged.
DROPS = (CallerError, GuardError, ReplayError)
_LATE = {
    "already": "has another answer",
    "expired": "was over before this answer",
    "superseded": "ended without an answer",
}


class ErrandRows(Protocol):
    """What a store does to its rows for the errands of one transaction."""

    def undone_if_dropped(self, session_id: str | None) -> AbstractContextManager[None]:
        """Undo what is done inside, to a session, if it raises."""
        ...

    def wait(self, key: str) -> Wait | None:
        """Return the wait of a key."""
        ...

    def owner(self, session_id: str) -> str | None:
        """Return the worker that has a session."""
        ...

    def accept(self, errand: AcceptTurn, number: int) -> bool:
        """Accept the turn of an errand, which is the one of that number; return whether it was known."""
        ...

    def post(self, errand: PostItem) -> bool:
        """Put an item into an inbox; return whether it was known."""
        ...

    def answer(self, errand: AnswerWait) -> tuple[WaitReceipt, bool]:
        """Answer a wait; return what became of it, and whether this very answer stood before."""
        ...

    def cancel(self, errand: CancelTurn) -> CancelReceipt:
        """Ask for a turn of a living session to end."""
        ...

    def move(self, errand: MoveSession) -> bool:
        """Let a process belong to another session; return whether it did before."""
        ...

    def reject(self, key: str, answer: WaitAnswer) -> None:
        """Answer a wait of the unit's own turn, if it is open."""
        ...


def run(
    rows: ErrandRows, errands: Sequence[Errand], earlier: Sequence[ErrandReceipt] = ()
) -> tuple[ErrandReceipt, ...]:
    """Run errands and return their receipts, in the order in which they were told.

    `earlier` is what an attempt answered whose COMMIT failed: what is known now, that attempt has run.
    """
    targets = [_target(rows, errand) for errand in errands]
    places = {name: at for at, name in enumerate(lock_order(name for name in targets if name))}
    receipts: dict[int, ErrandReceipt] = {}
    for number in sorted(range(len(errands)), key=lambda one: places.get(targets[one] or "", -1)):
        receipt = _run_one(rows, errands[number], number, targets[number])
        is_earlier = receipt.status == "known" and number < len(earlier)
        receipts[number] = earlier[number] if is_earlier else receipt
    return tuple(receipts[number] for number in range(len(errands)))


def known(rows: ErrandRows, errands: Sequence[Errand]) -> tuple[ErrandReceipt, ...]:
    """Return the receipts of errands that were run with a unit that landed before."""
    return tuple(_receipt(rows, errand, "known") for errand in errands)


def check_alone(errands: Sequence[Errand]) -> None:
    """Refuse errands that need the tree or the turn of a unit, for a caller that has none.

    Raises:
        InvalidInput: one names a limit of a tree that it does not join, or a wait to be rejected.
    """
    for errand in _acceptances(errands):
        if errand.most is not None and errand.parent is None:
            raise InvalidInput.at("AcceptTurn.most", "one without a unit", "none, or a parent")
        if errand.rejects is not None:
            raise InvalidInput.at("AcceptTurn.rejects", "one without a unit", "none")


def check_rejects(rows: ErrandRows, unit: Unit) -> None:
    """Refuse errands that would reject waits of another turn than the unit's.

    Raises:
        InvalidInput: the unit's turn has no such wait.
    """
    opened = {wait.key for wait in unit.waits}
    for errand in _acceptances(unit.errands):
        if errand.rejects is None or errand.rejects in opened:
            continue
        wait = rows.wait(errand.rejects)
        if wait is None or (wait.session_id, wait.turn_id) != (unit.session_id, unit.turn_id):
            field = "AcceptTurn.rejects"
            raise InvalidInput(f"{field}: the unit's turn has no such wait", field=field)


def is_known_elsewhere(errand: AcceptTurn, digests: Iterable[str]) -> bool:
    """Whether a turn is known in another session; `digests` are those of the requests that its id has there.

    Raises:
        IdempotencyConflict: it is known with another request.
    """
    found, wanted = tuple(digests), errand.turn.request.digest()
    for digest in found:
        rules.check_same(digest, wanted, f"turn {errand.turn_id}", field="turn_id")
    return bool(found)


def check_room(others: int, most: int | None) -> None:
    """Refuse one session more in a tree where so many others have unfinished turns. A model may read why.

    Raises:
        LimitExceeded: as many have as may have.
    """
    if most is not None and others >= most:
        found, wanted = f"{others} others of its tree with unfinished turns", f"fewer than {most}"
        raise LimitExceeded.at("session", found, wanted)


def _acceptances(errands: Sequence[Errand]) -> Iterator[AcceptTurn]:
    return (errand for errand in errands if isinstance(errand, AcceptTurn))


def _target(rows: ErrandRows, errand: Errand) -> str | None:
    def session_of(key: str) -> str | None:
        wait = _wait(rows, key)
        return None if wait is None else wait.session_id

    return target_of(errand, session_of)


def _wait(rows: ErrandRows, key: str) -> Wait | None:
    """Return a wait of another turn; one that is damaged is as good as gone."""
    try:
        return rows.wait(key)
    except DROPS:
        return None


def _owner(rows: ErrandRows, session_id: str) -> str | None:
    try:
        return rows.owner(session_id)
    except DROPS:
        return None


def _run_one(
    rows: ErrandRows, errand: Errand, number: int, session_id: str | None
) -> ErrandReceipt:
    code = ""
    try:
        with rows.undone_if_dropped(session_id):
            status, reason = _act(rows, errand, number)
    except DROPS as refusal:
        status, reason, code = "dropped", str(refusal), refusal.code
    if status == "dropped" and isinstance(errand, AcceptTurn) and errand.rejects is not None:
        told = WaitAnswer(status="rejected", value=reason, now_ms=errand.turn.now_ms)
        rows.reject(errand.rejects, told)
    return _receipt(rows, errand, status, reason, code)


def _act(rows: ErrandRows, errand: Errand, number: int) -> tuple[Status, str]:
    match errand:
        case AcceptTurn():
            return ("known" if rows.accept(errand, number) else "done"), ""
        case PostItem():
            return ("known" if rows.post(errand) else "done"), ""
        case MoveSession():
            return ("known" if rows.move(errand) else "done"), ""
        case AnswerWait():
            return _answered(*rows.answer(errand))
        case CancelTurn():
            return _cancelled(errand, rows.cancel(errand))
        case _:
            assert_never(errand)


def _answered(receipt: WaitReceipt, is_same: bool) -> tuple[Status, str]:  # noqa: FBT001 - what the rows say
    if receipt.status == "accepted":
        return "done", ""
    # The key is a secret and stands in no message.
    return ("known", "") if is_same else ("dropped", f"wait: {_LATE[receipt.status]}")


def _cancelled(errand: CancelTurn, receipt: CancelReceipt) -> tuple[Status, str]:
    match receipt.status:
        case "requested":
            return "done", ""
        case "already":
            return "known", ""
        case "finished":
            return "dropped", f"turn {errand.turn_id}: has ended"
        case _:
            return "dropped", f"turn {errand.turn_id}: the session has no turn of this id"


def _receipt(
    rows: ErrandRows, errand: Errand, status: Status, reason: str = "", code: str = ""
) -> ErrandReceipt:
    place = _wait(rows, errand.key) if isinstance(errand, AnswerWait) else errand
    if place is None:
        return ErrandReceipt(status=status, reason=reason, code=code)
    return ErrandReceipt(
        status=status,
        session_id=place.session_id,
        turn_id="" if isinstance(place, (PostItem, MoveSession)) else place.turn_id,
        owner=_owner(rows, place.session_id),
        reason=reason,
        code=code,
    )
