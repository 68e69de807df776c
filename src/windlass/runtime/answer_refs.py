"""The attachments in what a hook was given and what it answered.

A turn that refers to bytes which nobody keeps could never be committed.
"""

from __future__ import annotations

from typing import Final

from windlass.kernel.messages import Attachment
from windlass.kernel.responses import InjectedMessage
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.ports.directives import Delivery, Finale, ShortCircuit

# What may hold attachments, and where.
_HOLDERS: Final[dict[type, tuple[str, ...]]] = {
    InjectedMessage: ("parts",),
    Delivery: ("messages", "transient"),
    Finale: ("messages",),
    ShortCircuit: ("result",),
    ToolOutcome: ("content", "shown"),
    CompletedToolCall: ("outcome",),
}


def refs_in(said: object) -> frozenset[str]:
    """Return the digests of the bytes that an answer refers to."""
    if isinstance(said, Attachment):
        return frozenset([said.ref])
    inside = said if isinstance(said, (list, tuple)) else _held_by(said)
    return frozenset().union(*map(refs_in, inside))


def _held_by(said: object) -> list[object]:
    return [getattr(said, field) for field in _HOLDERS.get(type(said), ())]
