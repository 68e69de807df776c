"""Mail for an idle session: its first item begins a turn of its own."""

from __future__ import annotations

from hashlib import sha256

from windlass.ports import DueInbox, NewTurn, TurnRequest
from windlass.runtime.checkpoints import item_parts


def turn_of_item(item_id: str) -> str:
    """Return the id of the turn that an inbox item begins: the same whoever begins it."""
    return f"i_{sha256(item_id.encode()).hexdigest()[:32]}"


def turn_for(inbox: DueInbox, *, submitter: str, now_ms: int) -> NewTurn:
    """Return the turn that takes an inbox's first item as its input."""
    item = inbox.first
    return NewTurn(
        agent=inbox.agent,
        request=TurnRequest(input=item_parts(item.content), overrides={"item": item.item_id}),
        submitter=submitter,
        takes=(item.item_id,),
        now_ms=now_ms,
    )
