"""A unit: what one turn writes together, seen whole or not at all.

Everything a turn writes is a unit, from its acceptance to its commit, so that a short turn can be one unit and
one commit to disk. The parts of a unit take effect in the order of its fields.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from windlass.guards import check_id, check_text
from windlass.journal import Entry, NodeBody, UsageLine
from windlass.kernel import Attachment, Event, Outcome, Part, canonical
from windlass.kernel.projector import SentPrefix
from windlass.kernel.value import EMPTY_DICT, JsonValue, Value, check_instance
from windlass.ports.inbox import NewItem
from windlass.ports.waits import Wait

TurnState: TypeAlias = Literal["queued", "running", "parked", "ready", "done"]
"""`ready`: was parked, and one of its waits has been answered since."""


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
    """A turn to be accepted. `takes` are inbox items that enter with it, as its input; `by` is who asks for it.

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

    def digest(self) -> str:
        """Return what a retried commit is compared by: its content, not when or onto what, nor what follows from it."""
        content = msgspec.structs.replace(self, expected_head=0, now_ms=0, prefix=None, usage=())
        return canonical.digest(content)


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

    @classmethod
    def accepting(cls, session_id: str, turn_id: str, turn: NewTurn) -> Unit:
        """Return the unit that accepts a turn; the files that it brings are in use from then on."""
        files = tuple(part.ref for part in turn.request.input if isinstance(part, Attachment))
        return cls(session_id=session_id, turn_id=turn_id, accept=turn, blobs=files)

    @property
    def is_fenced(self) -> bool:
        """Whether only the session's owner may write it."""
        return bool(self.start or self.entries or self.waits or self.parks or self.commit)

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
    """The unit is durable. `page` says how many pages the turn has now."""

    page: int = 0
    accepted: TurnReceipt | None = None
    committed: CommitReceipt | None = None


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
