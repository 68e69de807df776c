"""The turn's growing history: what the model sees, what the turn stores, how much of it was reported.

Law 1. What a turn stores is its new records: every new message but the transient ones, with driver
    records at their position.
Law 2. A checkpoint cannot speak for the model or for a tool: whatever it brings, calls and results
    still pair.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.kernel.chain import Chain
from windlass.kernel.ids import TurnIds
from windlass.kernel.messages import (
    Attachment,
    Code,
    CodeOutput,
    ConversationRecord,
    ErrorText,
    Message,
    PluginOrigin,
    Record,
    Text,
    ToolCall,
    TurnCause,
    is_blank,
)
from windlass.kernel.responses import CheckpointDelivery, InjectedMessage

_INJECTABLE = frozenset({Text, Attachment, Code, CodeOutput, ErrorText})
_INJECTABLE_ROLES = frozenset({"user", "system"})


class Transcript:
    """Messages, records and causes of one turn, and how many records an effect has carried."""

    __slots__ = ("_ids", "causes", "messages", "next_message", "records", "told")

    def __init__(
        self,
        ids: TurnIds,
        messages: Chain[Message],
        records: Chain[Record],
        told: int,
    ) -> None:
        self._ids = ids
        self.messages = messages
        self.records = records
        # How many records an effect has carried.
        self.told = told
        self.causes: tuple[TurnCause, ...] = ()
        self.next_message = 0

    def tell(self) -> tuple[Record, ...]:
        """Return the records that no effect has carried yet, for an effect that does."""
        told, self.told = self.told, self.records.length
        return tuple(self.records.since(told))

    def extend(self, records: Iterable[Record]) -> None:
        """Add records; messages among them join the history."""
        for record in records:
            self.records = self.records.append(record)
            if type(record) is ConversationRecord:
                self.messages = self.messages.append(record.message)

    def keep(self, message: Message) -> None:
        """Add a message."""
        self.extend((ConversationRecord(message=message),))

    def has_open_calls(self) -> bool:
        """Whether the last message calls tools that have no result yet."""
        return bool(self.messages) and any(
            type(part) is ToolCall for part in self.messages.last().parts
        )

    def take(self, delivery: CheckpointDelivery) -> bool:
        """Take in what may enter; say whether anything did."""
        before = len(self.messages)
        for message in delivery.messages:
            self._inject(message, transient=False)
        for message in delivery.transient_messages:
            self._inject(message, transient=True)
        entered = self.add_causes(delivery.causes)
        return entered or len(self.messages) > before

    def add_causes(self, causes: Iterable[TurnCause]) -> bool:
        """Add causes that are not active yet; say whether there were any."""
        known = {cause.id for cause in self.causes}
        before = len(known)
        for cause in causes:
            if cause.id not in known:
                known.add(cause.id)
                self.causes = (*self.causes, cause)
                self._keep_cause(cause)
        return len(known) > before

    def new_message_id(self, purpose: str) -> str:
        """Mint the id of a message that no driver made."""
        position = self.next_message
        self.next_message = position + 1
        # Drivers count by iteration, so that they never meet these.
        return self._ids.message(f"i{position}", purpose)

    def _keep_cause(self, cause: TurnCause) -> None:
        # The runner may have put the event into the history already.
        if all(message.id != cause.id for message in self.messages):
            parts = (Text(text=cause.text),)
            self.keep(Message(id=cause.id, role="event", parts=parts, origin=cause.origin))

    def _inject(self, injected: InjectedMessage, *, transient: bool) -> None:
        parts = tuple(
            part for part in injected.parts if type(part) in _INJECTABLE and not is_blank(part)
        )
        if not parts or injected.role not in _INJECTABLE_ROLES:
            return
        origin = injected.origin
        if origin is None or (transient and type(origin) is PluginOrigin):
            plugin = origin.plugin if isinstance(origin, PluginOrigin) else "plugin"
            origin = PluginOrigin(plugin=plugin, transient=transient)
        message = Message(
            id=self.new_message_id("checkpoint"),
            role=injected.role,  # type: ignore[arg-type]
            parts=parts,
            origin=origin,
        )
        if transient:
            self.messages = self.messages.append(message)
        else:
            self.keep(message)
