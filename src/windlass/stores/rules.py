"""The rules of the port that do not depend on where rows lie: what a store refuses, and what it answers.

Each store keeps rows of its own and asks here before it changes them, so that all refuse the same in the same words.
A rule reads the facts of rows; but for the count of takeovers it changes nothing.

Length: a rule for each thing that the port refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from windlass.errors import (
    Forbidden,
    HeadMoved,
    IdempotencyConflict,
    InvalidInput,
    LeaseLost,
    SessionDeleted,
    TurnCancelled,
    UnknownSession,
    WindlassError,
)
from windlass.guards.ids import check_id
from windlass.guards.secret import check_no_secret
from windlass.journal import Claimed, HistoryPage
from windlass.kernel.outcomes import Stopped
from windlass.kernel.value import Json
from windlass.ports import CancelReceipt, Wait, WaitAnswer, WaitReceipt, WaitView, WithdrawReceipt
from windlass.ports.inbox import ASKED, SIGNAL, InboxItem, NewItem, signal_in
from windlass.ports.unit import (
    CHAT,
    Lease,
    NewTurn,
    SessionKind,
    Start,
    TurnCommit,
    TurnState,
    Unit,
    UnitReceipt,
)
from windlass.stores.facts import ItemFacts, SessionFacts, TurnFacts, receipt_of

S = TypeVar("S", bound=SessionFacts)


def blob_digest(data: bytes) -> str:
    """Return what a blob is kept under. Takes long for a large one: then it is asked for in a thread.

    Raises:
        InvalidInput: there is a registered secret in it, and it cannot be cleaned and keep its digest.
    """
    check_no_secret(data, field="data", wanted="bytes without one")
    return sha256(data).hexdigest()


T = TypeVar("T", bound=TurnFacts)
ItemT = TypeVar("ItemT", bound=ItemFacts)
E = TypeVar("E", bound=WindlassError)


# ------------------------------------------------------------------ what is there


def living(session: S | None, session_id: str, *, field: str = "session_id") -> S:
    """Return a session that is there.

    Raises:
        UnknownSession, SessionDeleted: there is none, or no more.
    """
    if session is None:
        raise UnknownSession(f"session {session_id}: there is no session of this id", field=field)
    if session.deleted_ms is not None:
        raise SessionDeleted(f"session {session_id}: was deleted", field=field)
    return session


def existing(turn: T | None, turn_id: str) -> T:
    """Return a turn that is there.

    Raises:
        InvalidInput: its session has none of that id.
    """
    if turn is None:
        raise InvalidInput(f"turn {turn_id}: the session has no turn of this id", field="turn_id")
    return turn


def not_joined(worker_id: str, kind: type[E]) -> E:
    """Return the refusal of a worker that has not joined."""
    return kind(f"worker {worker_id[:40]}: has not joined this store", field="worker_id")


def check_same(found: object, wanted: object, what: str, *, field: str) -> None:
    """Refuse another content under a name that is known."""
    if found != wanted:
        raise IdempotencyConflict(f"{what}: was already given with other content", field=field)


def has_unfinished_turn(session: SessionFacts) -> HeadMoved:
    """Return the refusal to delete a session that is in use."""
    return HeadMoved(
        f"session {session.id}: has an unfinished turn; cancel it first", field="session_id"
    )


def tree_of(session: S, started: Callable[[S], Iterable[S]]) -> list[S]:
    """Return a session and what goes when it goes, the deepest first; `started` finds what a session began.

    A `chat` that an errand made stays: people talk there, and its id would never be used again.
    """
    found = [session]
    for one in found:  # it grows meanwhile
        below = (child for child in started(one) if child.kind != CHAT)
        found += [child for child in below if child.deleted_ms is None]
    return found[::-1]


def check_moves(session: S, to: S, starter: Callable[[S], S | None]) -> None:
    """Refuse to move a session that is not a process, or below itself; `starter` finds what began a session.

    Raises:
        InvalidInput: it cannot be there.
    """
    field = "MoveSession.session_id"
    if session.kind != "process":
        raise InvalidInput.at(field, f"a session of kind {session.kind}", "a process")
    above: S | None = to
    while above is not None:
        if above.id == session.id:
            raise InvalidInput.at("MoveSession.to", "the process or one below it", "another one")
        above = starter(above)


def check_kept(keep_ms: Mapping[SessionKind, int]) -> None:
    """Refuse times after which no session is deleted.

    Raises:
        InvalidInput: they name `chat`, or what is no kind or no time.
    """
    for kind, time_ms in keep_ms.items():
        if kind == CHAT or kind not in get_args(SessionKind):
            raise InvalidInput.at("keep_ms", repr(kind)[:40], "a kind of session other than chat")
        if type(time_ms) is not int or time_ms < 0:
            raise InvalidInput.at(f"keep_ms[{kind}]", repr(time_ms)[:40], "milliseconds from 0")


def fork_head(parent: SessionFacts, at: int | None) -> int:
    """Return how many turns of a session a fork shares."""
    head = parent.head if at is None else at
    if type(head) is not int or not 0 <= head <= parent.head:
        raise InvalidInput.at("at", repr(head), f"a turn of 0 to {parent.head}")
    return head


def check_forked(page: HistoryPage | None) -> None:
    """Refuse a page that a fork may not begin with: what another session's turn used is not the fork's."""
    if page is not None and (page.forked is None or page.usage):
        found = (
            "usage" if page.forked is not None else "a page that does not say where it comes from"
        )
        raise InvalidInput.at("page", found, "a part of a turn, named in `forked`, without usage")


# ------------------------------------------------------------------ doors


def check_begins(session: SessionFacts, turn: NewTurn, *, is_known: bool) -> None:
    """Refuse a turn from outside in a session where only errands begin turns; one that is known may be asked for.

    A worker begins a turn there with an item of the inbox, which an errand has put there.

    Raises:
        Forbidden: it is not a chat.
    """
    if session.kind != CHAT and not turn.takes and not is_known:
        raise Forbidden(
            f"session {session.id}: is of kind {session.kind}, where only errands begin turns",
            field="session_id",
        )


def check_enqueues(session: SessionFacts, item: NewItem) -> None:
    """Refuse an item from outside that only errands post, because of its session or its kind.

    Raises:
        Forbidden: it is not for a chat, or it is a signal.
    """
    if item.kind == SIGNAL:
        said = f"item {item.item_id}: is a signal, which only errands post"
        raise Forbidden(said, field="NewItem.kind")
    if session.kind != CHAT:
        raise Forbidden(
            f"session {session.id}: is of kind {session.kind}, where only errands post items",
            field="session_id",
        )


def check_answers(wait: Wait, answer: WaitAnswer, *, is_errand: bool = False) -> None:
    """Refuse an answer from where none is taken. A wait's key is a secret and stands in no message.

    Raises:
        Forbidden: only an errand answers a wait for a child, and only its time ends a timer.
    """
    if wait.kind == "child" and not is_errand:
        raise Forbidden("key: found a wait of kind child, which only errands answer", field="key")
    is_in_time = answer.status == "expired" and is_over(wait, answer.now_ms)
    if wait.kind == "timer" and not is_in_time:
        raise Forbidden("key: found a timer, which only its time answers", field="key")


# ------------------------------------------------------------------ who may write


def lease_lost(session: SessionFacts, generation: int) -> LeaseLost:
    """Return the refusal of a generation that is not the session's."""
    return LeaseLost(
        f"session {session.id}: is at generation {session.generation}, this worker had {generation}",
        field="generation",
        found=session.generation,
        wanted=generation,
    )


def check_fence(session: SessionFacts, turn: TurnFacts, generation: int) -> None:
    """Refuse a worker that is not the session's owner, or not at its turn."""
    if session.generation != generation or session.owner is None:
        raise lease_lost(session, generation)
    if session.active != turn.no:
        raise HeadMoved(f"turn {turn.id}: is not the one that the session is at", field="turn_id")


def may_begin(turn: TurnFacts, start: Start, generation: int, is_free: Callable[[], bool]) -> bool:
    """Whether a worker is to begin a turn; False: it has, under this generation.

    Raises:
        LeaseLost: another worker has the session, or had begun the turn.
    """
    session = turn.session
    is_owner = session.owner == start.worker_id and session.generation == generation
    if turn.state != "queued":
        if is_owner:
            return False
        raise LeaseLost(
            f"turn {turn.id}: was begun by another worker; take it over", field="turn_id"
        )
    if not is_owner and (generation != session.generation + 1 or not is_free()):
        raise LeaseLost(
            f"session {session.id}: is at generation {session.generation} and held by "
            f"{session.owner or 'nobody'}",
            field="generation",
            found=session.generation,
            wanted=generation,
        )
    return True


def comes_later(turn: TurnFacts) -> HeadMoved:
    """Return the refusal of a turn that does not come next."""
    return HeadMoved(
        f"turn {turn.id}: an earlier turn or item of its session comes first", field="turn_id"
    )


def may_go_first(turn: TurnFacts, unit: Unit) -> bool:
    """Whether a turn may begin before what waits: its unit accepts and starts it, and no turn is under way.

    Its worker began it when nothing waited, and may have paid for a reply since. What was accepted in the meantime has
    not begun, so it loses nothing but a place.
    """
    return unit.accept is not None and turn.session.active is None


def check_takeover(turn: TurnFacts, worker_id: str, is_free: Callable[[], bool]) -> None:
    """Refuse to take over a turn that has ended, or whose worker is alive."""
    session = turn.session
    if turn.state == "done":
        raise HeadMoved(f"turn {turn.id}: has ended", field="turn_id")
    if session.owner != worker_id and not is_free():
        raise LeaseLost(
            f"session {session.id}: its worker {session.owner} is alive", field="session_id"
        )


def count_takeover(turn: TurnFacts, recorded: int) -> None:
    """Count a takeover of a turn that was begun, in which so many outcomes are recorded."""
    if turn.state != "running":
        turn.takeovers = 0  # it goes on after an answer, not after a death
    else:
        turn.takeovers = 1 if recorded > turn.takeover_mark else turn.takeovers + 1
    turn.takeover_mark = recorded


def lease_of(turn: TurnFacts, worker_id: str, until_ms: int) -> Lease:
    """Return the lease of a worker that has just taken a turn over."""
    return Lease(
        session_id=turn.session.id,
        turn_id=turn.id,
        worker_id=worker_id,
        generation=turn.session.generation,
        until_ms=until_ms,
        takeovers=turn.takeovers,
    )


class WantedTurns(NamedTuple):
    """Which turns a worker claims: of which agents, how many, of which session, and of which sessions not.

    `known` are the heads of sessions whose history it has.
    """

    start: Start
    agents: Collection[str]
    limit: int
    session_id: str | None
    but: Collection[str]
    known: Mapping[str, int]


WHY_DUE: dict[str, Literal["queued", "answered", "abandoned"]] = {
    "queued": "queued",
    "ready": "answered",
    "running": "abandoned",
}
"""Why a turn is to be driven, by its state. One that has begun is due only when its session is free."""


# ------------------------------------------------------------------ units


def time_of(unit: Unit) -> int:
    """Return the time that a unit says it is."""
    for part in (unit.commit, unit.start, unit.accept):
        if part is not None:
            return part.now_ms
    return 0


def landed(turn: TurnFacts, unit: Unit, has_page: Callable[[], bool]) -> UnitReceipt | None:
    """Return the receipt of a unit that was written before; handed in again, it lands once.

    `has_page` says whether the unit's page is there, at its position.

    Raises:
        LeaseLost, HeadMoved, IdempotencyConflict: the turn has ended, and not with this unit.
    """
    if _is_of_another(turn.session, unit):
        return None
    if unit.commit is None and unit.entries and has_page():
        return UnitReceipt(page=unit.position + 1)
    if turn.state != "done":  # a unit that commits did not land, or it would be
        return None
    is_same_end = unit.commit is not None and turn.commit_digest == unit.commit.digest()
    if is_same_end and (not unit.entries or has_page()):
        return UnitReceipt(page=turn.pages, committed=receipt_of(turn))
    if unit.generation < turn.session.generation:
        raise lease_lost(turn.session, unit.generation)
    if unit.commit is not None:
        raise IdempotencyConflict(f"turn {turn.id}: was committed with other content")
    raise HeadMoved(f"turn {turn.id}: has ended", field="turn_id")


def _is_of_another(session: SessionFacts, unit: Unit) -> bool:
    """Whether a beginning like this one can only have been another worker's.

    Two workers that begin a turn in the same moment may write the same bytes; they are not the same unit.
    """
    return unit.start is not None and unit.commit is None and session.owner != unit.start.worker_id


def misplaced(turn: TurnFacts, unit: Unit) -> IdempotencyConflict | HeadMoved:
    """Return the refusal of a page that is not for the next position."""
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


def approvals(turn: TurnFacts, unit: Unit) -> Iterator[str]:
    """Return the keys of the approvals that the claims of a unit use up.

    Raises:
        TurnCancelled: it claims something, and the turn was cancelled.
    """
    for entry in unit.entries:
        if type(entry) is Claimed:
            if turn.cancel is not None:
                raise TurnCancelled(f"turn {turn.id}: was cancelled; {entry.key} is not begun")
            if entry.consumes is not None:
                yield entry.consumes


def usable(wait: WaitView | None) -> WaitView:
    """Return a wait whose answer allows one call.

    Raises:
        InvalidInput: the turn has no such wait.
        IdempotencyConflict: it is not answered, or was used up.
    """
    field = "Claimed.consumes"
    if wait is None:
        raise InvalidInput(f"{field}: the turn has no such wait", field=field)
    if wait.state != "answered" or wait.consumed:
        found = "a wait that is used up" if wait.consumed else f"a wait that is {wait.state}"
        raise IdempotencyConflict.at(field, found, "an answered one")
    return wait


def parked_state(turn: TurnFacts) -> TurnState:
    """Return where a turn is that parks: one with an answer or a cancel is ready again."""
    return "ready" if turn.answered or turn.cancel is not None else "parked"


def check_end(turn: TurnFacts, unit: Unit, end: TurnCommit) -> None:
    """Refuse an end that its turn cannot have.

    Raises:
        TurnCancelled: the turn was cancelled, and this is another end.
        HeadMoved: the session's head is not the one that it expects.
        InvalidInput: the session would belong to an agent whose name is not an id.
    """
    if end.agent is not None:
        check_id(end.agent, field="TurnCommit.agent")
    if unit.parks:
        raise InvalidInput("Unit.parks: a turn that commits does not park", field="Unit.parks")
    is_cancelled = isinstance(end.outcome, Stopped) and end.outcome.reason == "cancelled"
    if turn.cancel is not None and not is_cancelled:
        raise TurnCancelled(f"turn {turn.id}: was cancelled; it can only end so")
    head = turn.session.head
    if end.expected_head != head:
        raise HeadMoved(
            f"session {turn.session.id}: its head is {head}, this commit expects {end.expected_head}",
            field="expected_head",
            found=head,
            wanted=end.expected_head,
        )
    if not isinstance(end.nodes, tuple):
        raise InvalidInput.at("TurnCommit.nodes", type(end.nodes).__name__, "a tuple")


def cancel_receipt(turn: TurnFacts | None) -> CancelReceipt:
    """Return what becomes of a request to cancel."""
    if turn is None:
        return CancelReceipt(status="unknown")
    if turn.state == "done":
        return CancelReceipt(status="finished")
    return CancelReceipt(status="requested" if turn.cancel is None else "already")


# ------------------------------------------------------------------ waits and the inbox


def check_wait(turn: TurnFacts, wait: Wait) -> None:
    """Refuse a new wait that is not of its unit's turn."""
    if (wait.session_id, wait.turn_id) != (turn.session.id, turn.id):
        raise InvalidInput("Wait: is of another turn than its unit", field="Wait.turn_id")
    if wait.kind == "child" and wait.expires_ms is not None:
        raise InvalidInput.at("Wait.expires_ms", "a time", "none: only an errand ends a child wait")


def found_wait(wait: WaitView | None) -> WaitView:
    """Return a wait that is there. Its key is a secret and stands in no message."""
    if wait is None:
        raise unknown_wait("key")
    return wait


def unknown_blob() -> InvalidInput:
    """Return the refusal of a page that refers to bytes which were never put."""
    return InvalidInput("Unit.blobs: a digest of no blob in this store", field="Unit.blobs")


def unknown_wait(field: str) -> InvalidInput:
    """Return the refusal of a key that no wait has."""
    return InvalidInput(f"{field}: there is no such wait in this store", field=field)


def is_over(wait: Wait, now_ms: int) -> bool:
    """Whether the time of a wait is over."""
    return wait.expires_ms is not None and now_ms >= wait.expires_ms


def standing_answer(wait: Wait, answer: WaitAnswer) -> WaitAnswer:
    """Return the answer to an open wait, or that it came too late."""
    if is_over(wait, answer.now_ms) and answer.status != "expired":
        return WaitAnswer(status="expired", now_ms=answer.now_ms)
    return answer


def first_answer(stands: WaitAnswer, answer: WaitAnswer) -> WaitReceipt:
    """Return what became of the first answer to a wait."""
    return WaitReceipt(status="accepted" if stands is answer else "expired", answer=stands)


def late_answer(wait: WaitView) -> WaitReceipt:
    """Return what becomes of an answer to a wait that is not open any more."""
    ended = wait.state if wait.state in ("expired", "superseded") else "already"
    return WaitReceipt(status=ended, answer=wait.answer)


def entering(item_id: str, item: ItemT | None) -> ItemT:
    """Return an item that can come in with a turn.

    Raises:
        InvalidInput: there is no such item, or it is a signal.
        IdempotencyConflict: it does not wait any more.
    """
    field = "NewTurn.takes"
    if item is None:
        raise InvalidInput(f"{field}: the inbox has no item {item_id}", field=field)
    if item.when == ASKED:
        raise InvalidInput.at(field, f"item {item_id}, a signal", "one that enters a turn")
    if item.state != "pending":
        found = f"item {item_id}, which is {item.state}"
        raise IdempotencyConflict.at(field, found, "a pending one")
    return item


def not_taken(item_id: str) -> InvalidInput:
    """Return the refusal of an end that settles what its turn did not take."""
    field = "TurnCommit.settle"
    return InvalidInput(f"{field}: the turn did not take {item_id}", field=field)


def withdraw_receipt(state: str | None) -> WithdrawReceipt:
    """Return what becomes of a request to take an item back."""
    if state is None:
        return WithdrawReceipt(status="unknown")
    known: dict[str, Any] = {"pending": "withdrawn", "withdrawn": "already"}
    return WithdrawReceipt(status=known.get(state, state))


# ------------------------------------------------------------------ signals


def awaited_signal(wait: Wait) -> str | None:
    """Return the name of the signal that a wait is for; None: it is for none, and only a caller answers it."""
    detail = wait.detail if wait.kind == "signal" else None
    name = detail.get("signal") if isinstance(detail, dict) else None
    return name if isinstance(name, str) and name else None


def signal_name(item: NewItem | InboxItem) -> str | None:
    """Return the name of a signal; None of any other item."""
    return signal_in(item.content).name if item.kind == SIGNAL else None


def signal_answer(content: Json, now_ms: int) -> WaitAnswer:
    """Return the answer that a signal with this content gives to the wait that asks for it."""
    signal = signal_in(content)
    return WaitAnswer(value=signal.value, by=signal.by, now_ms=now_ms)
