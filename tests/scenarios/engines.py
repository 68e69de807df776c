"""Engines of one's own: without a timer and without a bell, so that nothing but what a test says makes a worker look."""

from __future__ import annotations

import asyncio

import pytest

from windlass.ports import Store, Work


class ToldEngine:
    """Lets its worker look when a test says so, and never else. `kicks` are the sessions that it heard of."""

    def __init__(self, _store: Store) -> None:
        self.work: Work | None = None
        self.kicks: list[str | None] = []

    async def open(self, work: Work) -> None:
        """Remember the worker."""
        self.work = work

    def kick(self, session_id: str | None = None) -> None:
        """Write down that something may be due."""
        self.kicks.append(session_id)

    async def close(self) -> None:
        """Forget the worker."""
        self.work = None

    async def look(self) -> None:
        """Let the worker look now."""
        assert self.work is not None
        await self.work.look()


class KickedEngine(ToldEngine):
    """Lets its worker look when something happened in this process, and never else."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._kicked = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def open(self, work: Work) -> None:
        """Look from now on whenever there is a reason."""
        await super().open(work)
        self._looking = asyncio.get_running_loop().create_task(self._keep_looking())

    def kick(self, session_id: str | None = None) -> None:
        """Let the worker look now."""
        super().kick(session_id)
        self._kicked.set()

    async def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
        await super().close()

    async def _keep_looking(self) -> None:
        while True:
            await self._kicked.wait()
            self._kicked.clear()
            await self.look()


class Engines:
    """Gives runtimes that are opened from now on an engine of a test's own; `made` are those it gave."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.made: list[ToldEngine] = []

    def use(self, kind: type[ToldEngine]) -> None:
        """Make engines of this kind from now on."""

        def make(store: Store) -> ToldEngine:
            self.made.append(kind(store))
            return self.made[-1]

        self._patch.setattr("windlass.engines.local.LocalEngine", make)
