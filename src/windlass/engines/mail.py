"""Mail for an idle session: its first item begins a turn of its own."""

from __future__ import annotations

from windlass.ports import DueInbox, InboxItem, NewTurn, TurnRequest
from windlass.ports.inbox import item_parts

COMPACT = "compact"


def turn_for(inbox: DueInbox, *, submitter: str, now_ms: int) -> NewTurn:
    """Return the turn that an inbox's first item begins: with the item as its input, or to do what it commands."""
    item = inbox.first
    return NewTurn(
        agent=inbox.agent,
        request=_request_of(item),
        submitter=submitter,
        takes=(item.item_id,),
        now_ms=now_ms,
    )


def _request_of(item: InboxItem) -> TurnRequest:
    content = item.content if isinstance(item.content, dict) else {}
    if item.kind == "command" and content.get("command") == COMPACT:
        wanted = content.get("options") or {}
        return TurnRequest(overrides={"item": item.item_id, COMPACT: wanted})
    return TurnRequest(input=item_parts(content), overrides={"item": item.item_id})
