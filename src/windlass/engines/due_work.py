"""What is due in a store: turns to take up, inbox items that begin a turn, journals to reclaim."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from windlass.errors import StoreError
from windlass.ports import Due, DueInbox, InboxItem, NewTurn, Store, TurnRequest
from windlass.ports.inbox import item_parts
from windlass.runtime.services import Services

_log = logging.getLogger("windlass")
_PAGE = 100  # as many as a store shows at once
_COMPACT = "compact"
# A script that runs for less than a minute does not pay for housekeeping.
_FIRST_MS = 60_000
_EVERY_MS = 6 * 3_600_000


async def due_work(store: Store, agents: Iterable[str], now_ms: int) -> Due:
    """Return what is due. However much waits for workers with other agents, it does not hide what is ours."""
    due = await store.due(now_ms)
    if max(len(due.turns), len(due.inboxes)) < _PAGE:
        return due
    ours = await store.due(now_ms, agents=tuple(agents))
    return msgspec.structs.replace(ours, turns=(*ours.turns, *due.turns))


def turn_for(inbox: DueInbox, *, submitter: str, now_ms: int) -> NewTurn:
    """Return the turn that the first item of an idle session's inbox begins: its input, or its command."""
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
    if item.kind == "command" and content.get("command") == _COMPACT:
        wanted = content.get("options") or {}
        return TurnRequest(overrides={"item": item.item_id, _COMPACT: wanted})
    return TurnRequest(input=item_parts(content), overrides={"item": item.item_id})


class Housekeeping:
    """Tells the store every few hours to reclaim what `retention_ms` no longer covers."""

    def __init__(self, services: Services, *, retention_ms: int) -> None:
        self._services = services
        self._retention_ms = retention_ms
        self._due_ms = services.clock.now_ms() + _FIRST_MS

    async def tidy(self) -> None:
        """Reclaim, if it is time. A store that cannot do it now is asked again next time."""
        now_ms = self._services.clock.now_ms()
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + _EVERY_MS
        try:
            await self._services.store.vacuum(now_ms=now_ms, retention_ms=self._retention_ms)
        except StoreError as error:
            _log.warning("housekeeping: %s", error.code)
