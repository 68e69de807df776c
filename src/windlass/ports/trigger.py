"""Triggers: the source of events, and the receipt for an emitted event."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Protocol

from windlass.kernel import Json
from windlass.kernel.value import Value

DEDUPE_MS = 7 * 24 * 3_600_000
"""How long at least the key of an event is known, if its source does not say."""


class EventSource(Protocol):
    """A source of events, as its emitters see it."""

    @property
    def name(self) -> str: ...

    @property
    def dedupe_ms(self) -> int: ...

    def plain(self, event: object) -> Json:
        """Return an event as JSON, checked.

        Raises:
            InvalidInput: naming the field, what was found and what was wanted.
        """
        ...


class EmitReceipt(Value, kw_only=True):
    """The receipt for an event: it is stored.

    Attributes:
        status: `accepted`: it is new. `known`: an event with this key and payload was emitted before.
        id: The id of the occurrence.
        session_id: The session of the occurrence.
        known_until: Until when its key is known; after that the same key is a new occurrence.
    """

    status: Literal["accepted", "known"]
    id: str
    session_id: str
    known_until: datetime
