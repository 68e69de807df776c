"""What a store writes: pages of a journal, pages of history, and the unit that brings them.

A page is canonical bytes that name their format; where a store keeps those of a journal, one byte stands for the
beginning of its keys. Pages of one strand (the journal of a turn, the history of a
session) are linked: the digest of each covers the one before, beginning with the strand's own name. A
page that is missing, doubled, moved, taken from elsewhere or changed by one bit does not fit its link.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, ClassVar, TypeAlias

from windlass.errors import InvalidInput, JournalCorrupt
from windlass.guards.ids import check_id
from windlass.journal.entries import Entry, Recorded
from windlass.journal.moments import check_moment
from windlass.journal.usage import UsageLine
from windlass.kernel import ConversationRecord, DriverRecord, Event, Outcome, canonical
from windlass.kernel.projector import SentPrefix
from windlass.kernel.value import EMPTY_DICT, Json, JsonValue, Value, check_instance


class FrameOpened(JsonValue, kw_only=True):
    """A context boundary: what follows is seen without what came before.

    `carries`: what the session remembers is told again on this page, so that a turn needs none from before it.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("detail",)

    frame_id: str
    reason: str = ""
    detail: Json = None
    carries: bool = False


class DecisionRemembered(Value, kw_only=True):
    """A person allowed an action for the rest of this session; a fork of it does not inherit that."""

    session_id: str
    action_key: str
    by: str | None = None


class OutcomeUnknown(Value, kw_only=True):
    """A call that ran with other arguments than the model gave may or may not have acted; `call` is its digest."""

    call: str


class PluginRemembered(JsonValue, kw_only=True):
    """What a plugin keeps for the rest of the session: all of it, as the turn left it."""

    json_fields: ClassVar[tuple[str, ...]] = ("memory",)

    plugin: str
    memory: dict[str, Any] = EMPTY_DICT


NodeBody: TypeAlias = (
    ConversationRecord
    | DriverRecord
    | FrameOpened
    | DecisionRemembered
    | OutcomeUnknown
    | PluginRemembered
)


class JournalPage(Value, kw_only=True):
    """The entries of one unit, with the generation that wrote them. Format 1 is read, and not written any more."""

    FORMAT: ClassVar[int] = 2
    FORMATS: ClassVar[tuple[int, ...]] = (1, 2)

    format: int
    generation: int
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        """Refuse an outcome of another kind than its key's."""
        for at, entry in enumerate(self.entries):
            if type(entry) is Recorded:
                try:
                    check_moment(entry.key, entry.outcome)
                except InvalidInput as error:
                    place = f"$.entries[{at}]"
                    raise InvalidInput(
                        f"{place}: {error}", field=place, found=error.found, wanted=error.wanted
                    ) from None


class _WrittenPage(Value, kw_only=True, tag="journal_page"):
    """A page on its way out: what this process built itself is not checked again."""

    format: int
    generation: int
    entries: tuple[Entry, ...]


def encode_page(entries: tuple[Entry, ...], generation: int) -> bytes:
    """Return the canonical bytes of a page of a turn's journal."""
    page = _WrittenPage(format=JournalPage.FORMAT, generation=generation, entries=entries)
    return canonical.encode(page)


# No canonical bytes hold it, so what stands for it can be put back whatever else is on the page.
_PLACE = b"\x01"


def shortened(data: bytes, session_id: str, turn_id: str) -> bytes:
    """Return a page as it is stored: its keys begin with the turn's place, which the store knows anyway."""
    return data.replace(f"{session_id}/{turn_id}/".encode(), _PLACE)


def lengthened(data: bytes, session_id: str, turn_id: str) -> bytes:
    """Return the canonical bytes of a stored page."""
    return data.replace(_PLACE, f"{session_id}/{turn_id}/".encode())


class ForkedFrom(Value, kw_only=True):
    """The turn inside which a session begins that was forked there, and how many of its iterations the session shares."""

    session_id: str
    turn_id: str
    iterations: int


class HistoryPage(Value, kw_only=True):
    """What one turn added to its session, and how it ended.

    `prefix` is there every so often: the digest of what requests begin with from here on. `forked` is there on the page
    of a fork that holds a part of another session's turn.
    """

    FORMAT: ClassVar[int] = 1

    format: int
    turn_id: str
    nodes: tuple[NodeBody, ...]
    outcome: Outcome
    usage: tuple[UsageLine, ...] = ()
    events: tuple[Event, ...] = ()
    committed_ms: int = 0
    prefix: SentPrefix | None = None
    forked: ForkedFrom | None = None

    @property
    def is_beginning(self) -> bool:
        """Whether the next turn needs nothing of what came before this page."""
        first = self.nodes[0] if self.nodes else None
        return type(first) is FrameOpened and first.carries


def strand_seed(session_id: str, turn_id: str | None = None) -> bytes:
    """Return the link before the first page of a strand: a turn's journal, or a session's history."""
    name = f"history/{session_id}" if turn_id is None else f"journal/{session_id}/{turn_id}"
    return sha256(name.encode()).digest()


def link_page(previous: bytes, data: bytes) -> bytes:
    """Return the link of a page: it covers the page and all before it."""
    return sha256(previous + data).digest()


def check_link(previous: bytes, data: bytes, link: bytes, *, place: str) -> bytes:
    """Return the link of a stored page.

    Raises:
        JournalCorrupt: the page is not what was written there.
    """
    found = link_page(previous, data)
    if found != link:
        raise JournalCorrupt(
            f"{place}: the page is not the one that was written there", field=place
        )
    return found


def node_id(session_id: str, turn_id: str, ordinal: int) -> str:
    """Return the id of a node: it derives from where it stands."""
    return f"n_{canonical.digest([session_id, turn_id, ordinal])[:32]}"


def check_place(session_id: str, turn_id: str) -> None:
    """Refuse ids that are none."""
    check_id(session_id, field="session_id")
    check_id(turn_id, field="turn_id")


def check_position(position: int, *, field: str) -> None:
    """Refuse a position that is no count."""
    check_instance(position, int, field=field)
    if position < 0:
        raise InvalidInput.at(field, position, "0 or more")
