"""What is due in a store, as far as a worker can do something about it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.ports import Due, Store

_PAGE = 100  # as many as a store shows at once


async def due_work(store: Store, agents: Iterable[str], now_ms: int) -> Due:
    """Return what is due. However much waits for workers with other agents, it does not hide what is ours."""
    due = await store.due(now_ms)
    if max(len(due.turns), len(due.inboxes)) < _PAGE:
        return due
    ours = await store.due(now_ms, agents=tuple(agents))
    return msgspec.structs.replace(ours, turns=(*ours.turns, *due.turns))
