"""What waits to enter a session: one first-in, first-out row of inputs, wakes and commands.

A signal lies in the same inbox and enters nothing: it waits until a turn asks for it by its name. It begins no turn, no
turn takes it, and nothing waits behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import msgspec

from windlass.errors import InvalidInput
from windlass.guards.ids import check_id
from windlass.guards.text import check_text
from windlass.kernel import Part, canonical
from windlass.kernel.messages import InputOrigin, Origin, ProcessOrigin
from windlass.kernel.value import Json, JsonValue, Value, use_default

ItemKind: TypeAlias = Literal["input", "wake", "command", "signal"]
When: TypeAlias = Literal["now", "next_turn", "asked"]
"""`asked`: when a turn asks for it, which is so for signals and for nothing else."""
ItemState: TypeAlias = Literal["pending", "taken", "settled", "withdrawn"]
INPUT: ItemKind = "input"
SIGNAL: ItemKind = "signal"
NOW: When = "now"
ASKED: When = "asked"


def blobs_in(content: Json) -> Iterator[str]:
    """Return the digests of the bytes that an item's content refers to."""
    if isinstance(content, list):
        for one in content:
            yield from blobs_in(one)
    elif isinstance(content, dict):
        if content.get("type") == "attachment" and isinstance(content.get("ref"), str):
            yield content["ref"]
        for one in content.values():
            yield from blobs_in(one)


def turn_of_item(item_id: str) -> str:
    """Return the id of the turn that an inbox item begins: the same in every process.

    Of an item that comes again after it was reclaimed, the name is its id and when it arrived.
    """
    return f"i_{sha256(item_id.encode()).hexdigest()[:32]}"


def item_parts(content: Json) -> tuple[Part, ...]:
    """Return the parts of a message that an item's content brings."""
    if isinstance(content, dict) and "parts" in content:
        parts: tuple[Part, ...] = msgspec.convert(content["parts"], tuple[Part, ...])
        return parts
    return ()


class Wake(NamedTuple):
    """What an item of kind `wake` says: what kind of event it was, and its words.

    If a process sent it: its id, and which operation of the process it was.
    """

    event_type: str
    text: str
    process_id: str = ""
    sequence: int = 0

    def as_content(self) -> dict[str, Json]:
        """Return it as JSON, without what it does not say."""
        said = self._asdict()
        return said if self.process_id else {"event_type": self.event_type, "text": self.text}

    def origin(self, item_id: str, turn_id: str) -> Origin:
        """Return where an event comes from that an item of this id tells of, in this turn."""
        if not self.process_id:
            return InputOrigin(turn_id=turn_id, input_id=item_id)
        return ProcessOrigin(
            process_id=self.process_id,
            event_type=self.event_type,
            sequence=self.sequence,
            wake_id=item_id,
        )


def wake_in(content: Json) -> Wake:
    """Return what the content of a wake says."""
    said = content if isinstance(content, dict) else {}
    number = said.get("sequence", 0)
    return Wake(
        str(said.get("event_type", "wake")),
        str(said.get("text", "")),
        str(said.get("process_id", "")),
        number if type(number) is int else 0,
    )


class Signal(NamedTuple):
    """What an item of kind `signal` says: its name, what it brings, and who sent it."""

    name: str
    value: Json = None
    by: str | None = None


def signal_in(content: Json) -> Signal:
    """Return what the content of a signal says.

    Raises:
        InvalidInput: it has no name, or fields that a signal does not have.
    """
    field = "NewItem.content"
    said = content if isinstance(content, dict) else {}
    if not said.keys() <= set(Signal._fields) or not said.get("name"):
        raise InvalidInput.at(field, "other content", "name, value and by of a signal")
    check_text(said["name"], field=f"{field}.name")
    by = said.get("by")
    if by is not None:
        check_text(by, field=f"{field}.by")
    return Signal(said["name"], said.get("value"), by)


class NewItem(JsonValue, kw_only=True):
    """Something to put into an inbox; `item_id` makes it arrive once.

    The content of a signal is `{"name": ..., "value": ..., "by": ...}`, of which only the name is needed.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("content",)

    item_id: str
    kind: ItemKind = INPUT
    when: When = NOW
    content: Json = None

    def __post_init__(self) -> None:
        """Freeze the content; refuse an id that is none, and a signal that is to enter like other items."""
        super().__post_init__()
        check_id(self.item_id, field="NewItem.item_id")
        is_signal = self.kind == SIGNAL
        if is_signal != (self.when == ASKED):
            wanted = repr(ASKED) if is_signal else "now or next_turn"
            raise InvalidInput.at("NewItem.when", f"{self.when!r} with kind {self.kind}", wanted)
        if is_signal:
            signal_in(self.content)
        use_default(self, "kind", INPUT)
        use_default(self, "when", NOW)

    def digest(self) -> str:
        """Return what tells this item from another under the same id."""
        return canonical.digest(self)


class InboxItem(JsonValue, kw_only=True):
    """An item as it stands. `arrived` orders the inbox; `turn_id` is the turn that took it.

    `generation` is the one under which it was taken; None if it came in with the turn, which has not begun then.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("content",)

    item_id: str
    kind: ItemKind = INPUT
    when: When = NOW
    content: Json = None
    arrived: int = 0
    state: ItemState = "pending"
    turn_id: str | None = None
    generation: int | None = None


class InboxReceipt(Value, kw_only=True):
    """The item is kept; `known`: it was already, and is now in this state."""

    item_id: str
    state: ItemState
    known: bool = False
