"""A harness: how the suite makes a store, crashes it and kills its workers."""

from __future__ import annotations

from typing import Protocol

from windlass.ports import Store


class StoreHarness(Protocol):
    """What a store's author hands to the suite. One harness serves one check at a time."""

    @property
    def is_durable(self) -> bool:
        """Whether rows outlive the process; if not, the checks that crash it are left out."""
        ...

    async def make(self) -> Store:
        """Return a new, empty store that is open."""
        ...

    async def reopen(self, store: Store) -> Store | None:
        """Let the store's process die where it stands, and return it opened anew.

        Nothing is closed in order, and the store's workers are dead after. None if nothing is left by then.
        """
        ...

    async def second(self, store: Store) -> Store | None:
        """Return another store on the same rows, as another process would open it; None where there can be none."""
        ...

    async def kill_worker(self, store: Store, worker_id: str) -> None:
        """Let the process of one worker be dead, as the store sees it."""
        ...

    async def close(self) -> None:
        """Put away every store that was made."""
        ...
