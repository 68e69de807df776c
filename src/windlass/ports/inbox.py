"""What waits to enter a session: one first-in, first-out row of inputs, wakes and commands."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import msgspec

from windlass.guards.ids import check_id
from windlass.kernel import Part, canonical
from windlass.kernel.value import Json, JsonValue, Value, use_default

ItemKind: TypeAlias = Literal["input", "wake", "command"]
When: TypeAlias = Literal["now", "next_turn"]
ItemState: TypeAlias = Literal["pending", "taken", "settled", "withdrawn"]
INPUT: ItemKind = "input"
NOW: When = "now"


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
    """What an item of kind `wake` says: what kind of event it was, and its words."""

    event_type: str
    text: str


def wake_in(content: Json) -> Wake:
    """Return what the content of a wake says."""
    said = content if isinstance(content, dict) else {}
    return Wake(str(said.get("event_type", "wake")), str(said.get("text", "")))


class NewItem(JsonValue, kw_only=True):
    """Something to put into an inbox; `item_id` makes it arrive once."""

    json_fields: ClassVar[tuple[str, ...]] = ("content",)

    item_id: str
    kind: ItemKind = INPUT
    when: When = NOW
    content: Json = None

    def __post_init__(self) -> None:
        """Freeze the content; refuse an id that is none."""
        super().__post_init__()
        check_id(self.item_id, field="NewItem.item_id")
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
