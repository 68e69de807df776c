"""One look at the store for everything in this process that wants to know what others write.

Law 1. However many follow a store here, one of its changes is read once.
Law 2. Followers are told after the fact and read the store themselves; being told for nothing costs a read, not being told
    is made up for by `_AT_LEAST_S`.
Law 3. While nothing is followed, nothing is looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from windlass.errors import WindlassError
from windlass.ports import Store

_log = logging.getLogger("windlass")
# A bell is best effort: this often the store is asked although none rang.
_AT_LEAST_S = 5.0

Tell: TypeAlias = Callable[[], None]


class StoreWatch:
    """Follows the changes of a store for the observers, callers and buses of one runtime."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mark: str | None = None
        self._by_session: dict[str, list[Tell]] = {}
        self._all: list[Tell] = []
        self._leave_bell: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.Task[None] | None = None
        self._is_rung = False
        self._opening = asyncio.Lock()
        self.looks = 0

    async def follow(self, session_id: str, tell: Tell) -> Callable[[], None]:
        """Call `tell` when something was written in a session, from now on; return what ends that."""
        await self._begin()
        tells = self._by_session.setdefault(session_id, [])
        tells.append(tell)

        def leave() -> None:
            if tell in tells:
                tells.remove(tell)
            if not tells and self._by_session.get(session_id) is tells:
                del self._by_session[session_id]
            self._end_if_idle()

        return leave

    async def follow_all(self, tell: Tell) -> Callable[[], None]:
        """Call `tell` when anything was written, from now on; return what ends that."""
        await self._begin()
        self._all.append(tell)

        def leave() -> None:
            if tell in self._all:
                self._all.remove(tell)
            self._end_if_idle()

        return leave

    def close(self) -> None:
        """Tell no more."""
        self._by_session.clear()
        self._all.clear()
        self._end_if_idle()

    async def _begin(self) -> None:
        """Have a mark and a bell before anybody reads the store: nothing falls between the two."""
        async with self._opening:
            if self._leave_bell is not None:
                return
            self._mark = (await self._store.changes(None)).mark
            self._leave_bell = self._store.watch(self._ring)
            self._await_next()

    def _end_if_idle(self) -> None:
        if self._by_session or self._all or self._leave_bell is None:
            return
        self._leave_bell()
        self._leave_bell = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._look is not None:
            self._look.cancel()

    def _await_next(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_AT_LEAST_S, self._ring)

    def _ring(self) -> None:
        self._is_rung = True
        if self._look is None and self._leave_bell is not None:
            self._look = asyncio.get_running_loop().create_task(self._read(), name="windlass-watch")
            self._look.add_done_callback(self._ended)

    def _ended(self, look: asyncio.Task[None]) -> None:
        self._look = None
        if not look.cancelled() and (error := look.exception()) is not None:
            _log.error("following the store failed", exc_info=error)
        elif self._is_rung:
            self._ring()  # it rang while the last look was being ended

    async def _read(self) -> None:
        """Read what is new and tell it, until nothing more was rung for."""
        self._await_next()
        while self._is_rung and self._leave_bell is not None:
            self._is_rung = False
            self.looks += 1
            try:
                found = await self._store.changes(self._mark)
            except WindlassError as error:
                _log.warning("following the store: %s", error.code)
                return  # the next bell, or the timer, tries again
            self._mark = found.mark
            self._is_rung = self._is_rung or found.has_more
            for session_id in found.sessions:
                for tell in tuple(self._by_session.get(session_id, ())):
                    tell()
            if found.changes:
                for tell in tuple(self._all):
                    tell()
