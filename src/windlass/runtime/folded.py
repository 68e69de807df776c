"""Turns as the store has them, folded: one fold for all readers of a turn in this process, brought up to date when asked.

A fold goes on where it was, with the pages that came since. Readers that ask in the same moment share one read.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple, TypeAlias

from windlass.folds import TurnFold, frame_in
from windlass.kernel import Chain, Message
from windlass.ports import Store, TurnView

# How many turns stay folded. Each holds what its turn has said, and the frame before it.
_MAX_FOLDS = 32

_Key: TypeAlias = tuple[str, str]


class FoldedTurn(NamedTuple):
    """A turn and what it comes to: `view` has its state; of its pages only those that came last."""

    fold: TurnFold
    view: TurnView

    @property
    def head(self) -> int:
        """How many turns of its session have ended, once this one has; before it, until then."""
        if self.view.receipt is not None:
            return self.view.receipt.head
        return max(0, (self.view.turn_index or 1) - 1)


class _Reading:
    """A read that others may join until it begins."""

    def __init__(self) -> None:
        self.has_begun = False
        self.task: asyncio.Task[FoldedTurn | None]


class FoldedTurns:
    """Folds the turns that readers of this process ask for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folds: OrderedDict[_Key, TurnFold] = OrderedDict()
        self._reading: dict[_Key, _Reading] = {}

    async def of(self, session_id: str, turn_id: str) -> FoldedTurn | None:
        """Return a turn as it stands now; None if there is none of this id.

        Raises:
            SessionDeleted: there was such a session.
        """
        key = (session_id, turn_id)
        reading = self._reading.get(key)
        if reading is None or reading.has_begun:
            reading = self._reading[key] = _Reading()
            reading.task = asyncio.get_running_loop().create_task(self._read(key, reading))
            reading.task.add_done_callback(_mark_seen)
        # A reader that leaves takes the read away from no other.
        return await asyncio.shield(reading.task)

    def close(self) -> None:
        """End the reads under way, and forget all turns."""
        for reading in self._reading.values():
            reading.task.cancel()
        self._folds.clear()

    async def count_facts(self, session_id: str, turn_id: str, pages: int, waits: int) -> int:
        """Return how many facts the first pages and waits of a turn tell."""
        if not pages and not waits:
            return 0
        view = await self._store.load_turn(session_id, turn_id)
        if view is None:
            return 0
        history = await history_of(self._store, view)
        return len(TurnFold.of(view, history, pages=pages, waits=waits).facts)

    async def _read(self, key: _Key, reading: _Reading) -> FoldedTurn | None:
        reading.has_begun = True
        try:
            fold = self._folds.get(key)
            since = 0 if fold is None else fold.n_pages
            view = await self._store.load_turn(*key, since=since)
            if view is None:
                return None
            if fold is None:
                fold = TurnFold.of(view, await history_of(self._store, view))
            else:
                fold.absorb(view)
            self._keep(key, fold)
            return FoldedTurn(fold, view)
        finally:
            if self._reading.get(key) is reading:
                del self._reading[key]

    def _keep(self, key: _Key, fold: TurnFold) -> None:
        self._folds[key] = fold
        self._folds.move_to_end(key)
        if len(self._folds) > _MAX_FOLDS:
            self._folds.popitem(last=False)


async def history_of(store: Store, view: TurnView) -> Chain[Message]:
    """Return what the frame of a turn held when the turn began; nothing of one that has not begun."""
    if view.turn_index is None or view.is_reclaimed:
        return Chain()
    return frame_in(await store.load_history(view.session_id, before=view.turn_index, frame=True))


def _mark_seen(task: asyncio.Task[FoldedTurn | None]) -> None:
    """Let a failure rest that no reader is left to hear of."""
    if not task.cancelled():
        task.exception()
