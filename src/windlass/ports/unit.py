"""A unit: what one turn writes together, seen whole or not at all.

Everything a turn writes is a unit, from its acceptance to its commit, so that a short turn can be one unit and
one commit to disk. The parts of a unit take effect in the order of its fields.

An errand is what a unit does to other sessions: it starts a child, posts an item, answers a wait, asks for a cancel,
moves a process to another session. It takes effect with the unit or not at all, and once, by its id. A target that is gone drops the errand, never the unit.
A unit that landed does not run its errands again. One with neither entries nor a commit leaves no trace to tell that
by: then each errand tells by its id that it was run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import msgspec

from windlass.errors import InvalidInput
from windlass.guards import check_id, check_text
from windlass.journal import Entry, HistoryPage, NodeBody, UsageLine
from windlass.kernel import Attachment, Event, Outcome, Part, canonical
from windlass.kernel.projector import SentPrefix
from windlass.kernel.value import EMPTY_DICT, JsonValue, Value, check_instance, use_default
from windlass.ports.inbox import NewItem
from windlass.ports.waits import Wait, WaitAnswer

TurnState: TypeAlias = Literal["queued", "running", "parked", "ready", "done"]
"""`ready`: was parked, and one of its waits has been answered since."""
SessionKind: TypeAlias = Literal["chat", "child", "process", "schedule", "trigger"]
"""What a session is for. Callers begin turns in a `chat`; in all others only errands do."""
CHAT: SessionKind = "chat"


class TurnRequest(JsonValue, kw_only=True):
    """What a caller asked for. Two requests with one digest are one request."""

    json_fields: ClassVar[tuple[str, ...]] = ("context", "overrides")

    input: tuple[Part, ...] = ()
    context: dict[str, Any] = EMPTY_DICT
    overrides: dict[str, Any] = EMPTY_DICT

    def digest(self) -> str:
        """Return what tells this request from another under the same turn id."""
        return canonical.digest(self)


class NewTurn(Value, kw_only=True):
    """A turn to be accepted. `takes` are inbox items that enter with it, as its input: it has the place of the first.

    `by` is who asks for it.

    None of this is part of the request: the same request again is the same turn, whatever it took.
    """

    agent: str
    request: TurnRequest
    submitter: str | None = None
    by: str | None = None
    now_ms: int = 0
    takes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse ids that are none."""
        check_instance(self.takes, tuple, field="NewTurn.takes")
        if self.by is not None:
            check_text(self.by, field="NewTurn.by")
        for item_id in self.takes:
            check_id(item_id, field="NewTurn.takes")


class Start(Value, kw_only=True):
    """A worker begins the turn and holds the session until then, or longer if it renews."""

    worker_id: str
    until_ms: int
    now_ms: int = 0


class TurnCommit(Value, kw_only=True):
    """The end of a turn: what it adds to the session, in one transaction.

    `usage` is what the turn used. `blobs` are those that the history holds on to; None: all that the turn's units
    named. The others go with the journal. `prefix` goes into the page as it is.

    `agent`: the session belongs to this one from here on, and so do the turns that are queued in it for the one before.
    `known_digest` is its digest, if it was worked out beforehand: of a large commit that happens off the loop.
    """

    expected_head: int
    nodes: tuple[NodeBody, ...]
    outcome: Outcome
    settle: tuple[str, ...] = ()
    follow_ups: tuple[NewItem, ...] = ()
    events: tuple[Event, ...] = ()
    now_ms: int = 0
    blobs: tuple[str, ...] | None = None
    prefix: SentPrefix | None = None
    usage: tuple[UsageLine, ...] = ()
    agent: str | None = None
    known_digest: str = ""

    def digest(self) -> str:
        """Return what a retried commit is compared by: its content, not when or onto what, nor what follows from it."""
        if self.known_digest:
            return self.known_digest
        content = msgspec.structs.replace(self, expected_head=0, now_ms=0, prefix=None, usage=())
        return canonical.digest(content)


class AcceptTurn(Value, kw_only=True):
    """Accept a turn in another session, which is made if it is new: of this kind, begun by the unit's session.

    `parent` names another session that has begun it, for errands without a unit: it has to be there. `label` is what a
    new session is found by, beside its id. A session that is there keeps its kind, its label and what began it.

    `most` limits how many sessions below the root of that tree may have unfinished turns, this one included. A turn that
    is not accepted, because of that or because its session was deleted, is dropped; then the wait `rejects`, of the
    unit's own turn, is rejected with the reason as its value. `most` needs a unit or a parent, `rejects` a unit.

    A turn in the unit's own session, accepted with the end of the unit's turn, has the place of that turn: what waits in
    the session comes after it.
    `known_in` names other sessions in which a turn of this id may have been accepted: then it is known, as if it were in
    this one. So a turn is accepted once although its session follows from the time.

    `at_top`: a new session belongs to no other, although a unit made it. It is not deleted with the unit's session.
    """

    session_id: str
    turn_id: str
    turn: NewTurn
    kind: SessionKind = CHAT
    most: int | None = None
    rejects: str | None = None
    label: str | None = None
    parent: str | None = None
    known_in: tuple[str, ...] = ()
    at_top: bool = False

    def __post_init__(self) -> None:
        """Refuse ids and a kind that are not valid, and a limit that is not a count."""
        check_id(self.session_id, field="AcceptTurn.session_id")
        check_id(self.turn_id, field="AcceptTurn.turn_id")
        if self.kind not in get_args(SessionKind):
            raise InvalidInput.at("AcceptTurn.kind", repr(self.kind)[:40], "a kind of session")
        use_default(self, "kind", CHAT)
        if self.most is not None and (type(self.most) is not int or self.most < 0):
            raise InvalidInput.at("AcceptTurn.most", repr(self.most)[:40], "a count from 0")
        if self.label is not None:
            check_text(self.label, field="AcceptTurn.label")
        if self.parent is not None:
            check_id(self.parent, field="AcceptTurn.parent")
        for session_id in self.known_in:
            check_id(session_id, field="AcceptTurn.known_in")


class PostItem(Value, kw_only=True):
    """Put an item into the inbox of another session. `now_ms` is told where the unit does not say what time it is."""

    session_id: str
    item: NewItem
    now_ms: int = 0


class AnswerWait(Value, kw_only=True):
    """Answer a wait of another turn: the only way to answer one of kind `child`."""

    key: str
    answer: WaitAnswer


class CancelTurn(Value, kw_only=True):
    """Ask for another turn to end."""

    session_id: str
    turn_id: str
    reason: str = ""


class MoveSession(Value, kw_only=True):
    """Let a process belong to another session, with all below it, as if that one had begun it."""

    session_id: str
    to: str

    def __post_init__(self) -> None:
        """Refuse ids that are none."""
        check_id(self.session_id, field="MoveSession.session_id")
        check_id(self.to, field="MoveSession.to")


Errand: TypeAlias = AcceptTurn | PostItem | AnswerWait | CancelTurn | MoveSession


def target_of(errand: Errand, session_of: Callable[[str], str | None]) -> str | None:
    """Return the session that an errand acts on; `session_of` finds that of a wait by its key, if there is one."""
    return session_of(errand.key) if isinstance(errand, AnswerWait) else errand.session_id


def sessions_of(errand: Errand, session_of: Callable[[str], str | None]) -> tuple[str, ...]:
    """Return the sessions that have to stay as they are while an errand runs: its target, and those that it looks at."""
    target = target_of(errand, session_of)
    above: str | None = None
    if isinstance(errand, AcceptTurn):
        names = (target, errand.parent, *errand.known_in)
        return tuple(name for name in names if name is not None)
    if isinstance(errand, MoveSession):
        above = errand.to
    return tuple(name for name in (target, above) if name is not None)


def lock_order(session_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the sessions that a transaction touches, each once, in the order in which every store locks them.

    A unit's sessions are its own and those of its errands (`sessions_of`). Two units with errands into each other's session would
    wait for each other for ever if each locked its own first. The order is that of the ids: an id is known before its
    session is made, and a number is not.
    """
    return tuple(sorted(set(session_ids)))


class ErrandReceipt(Value, kw_only=True):
    """What became of an errand.

    `known`: it had been run before. `dropped`: its target is gone or has no room, or knows its id with other content,
    and `reason` says so, and `code` which error that would be. `owner` is the worker that has the target's session: it is woken, or finds the news itself.
    """

    status: Literal["done", "known", "dropped"]
    session_id: str = ""
    turn_id: str = ""
    owner: str | None = None
    reason: str = ""
    code: str = ""


class Unit(Value, kw_only=True):
    """What one turn writes together.

    `generation` is the fence: a unit of an older one is refused. `position` counts the turn's pages, so that a
    unit handed in twice lands once. `blobs` are the digests that its entries and nodes refer to. A store refuses ids
    that are none where it accepts a turn, and a position that is not the next where it writes the page.
    """

    session_id: str
    turn_id: str
    generation: int = 0
    position: int = 0
    accept: NewTurn | None = None
    start: Start | None = None
    entries: tuple[Entry, ...] = ()
    waits: tuple[Wait, ...] = ()
    parks: bool = False
    commit: TurnCommit | None = None
    blobs: tuple[str, ...] = ()
    errands: tuple[Errand, ...] = ()

    @classmethod
    def accepting(cls, session_id: str, turn_id: str, turn: NewTurn) -> Unit:
        """Return the unit that accepts a turn; the files that it brings are in use from then on."""
        files = tuple(part.ref for part in turn.request.input if isinstance(part, Attachment))
        return cls(session_id=session_id, turn_id=turn_id, accept=turn, blobs=files)

    @property
    def is_fenced(self) -> bool:
        """Whether only the session's owner may write it."""
        return bool(
            self.start or self.entries or self.waits or self.parks or self.commit or self.errands
        )

    @property
    def operation_id(self) -> str:
        """What this unit is called in messages; the same when it is handed in again."""
        return f"{self.session_id}/{self.turn_id}/{self.generation}/{self.position}"


class TurnReceipt(Value, kw_only=True):
    """The turn is accepted and kept; `known`: it was already."""

    session_id: str
    turn_id: str
    state: TurnState
    known: bool = False


class CommitReceipt(Value, kw_only=True):
    """The turn's end is in the session's history at `head`."""

    session_id: str
    turn_id: str
    head: int
    digest: str


class UnitReceipt(Value, kw_only=True):
    """The unit is durable. `page` says how many pages the turn has now, `errands` what became of each."""

    page: int = 0
    accepted: TurnReceipt | None = None
    committed: CommitReceipt | None = None
    errands: tuple[ErrandReceipt, ...] = ()


class Lease(Value, kw_only=True):
    """The right to write a session, until then.

    `takeovers` counts those after a death that recorded nothing new; going on after a wait sets it to 0.
    """

    session_id: str
    turn_id: str
    worker_id: str
    generation: int
    until_ms: int
    takeovers: int = 0


class ImportedTurn(Value, kw_only=True):
    """A turn that ended in another store: its page, and what its request is known by.

    Without that it is only history, as the pages are that a fork shares: its id is not known as a turn's. `blobs` are the
    bytes that the page refers to.
    """

    page: HistoryPage
    request_digest: str | None = None
    blobs: tuple[str, ...] = ()


class ImportedSession(Value, kw_only=True):
    """A session as another store had it, with all of its turns that have ended, in order."""

    session_id: str
    agent: str
    created_ms: int
    turns: tuple[ImportedTurn, ...] = ()

    def __post_init__(self) -> None:
        """Refuse ids that are none, and turns that come twice."""
        check_id(self.session_id, field="ImportedSession.session_id")
        check_id(self.agent, field="ImportedSession.agent")
        known: set[str] = set()
        for at, turn in enumerate(self.turns):
            field, turn_id = f"ImportedSession.turns[{at}].page.turn_id", turn.page.turn_id
            check_id(turn_id, field=field)
            if turn_id in known:
                raise InvalidInput.at(field, turn_id, "each turn once")
            if turn.request_digest is not None:
                known.add(turn_id)
