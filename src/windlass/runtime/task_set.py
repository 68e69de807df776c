"""Tasks of a runtime: none is forgotten, and none outlives it.

Not a TaskGroup: a group lives and dies inside one task, while a runtime may be opened in one and closed in another
(a fixture, a web framework's start and stop), and one turn that fails must not take the others along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class TaskSet:
    """Starts tasks and holds on to them until they end."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_error = on_error

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start a task; what it raises is told to `on_error`."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error)

    async def finish(self, seconds: float) -> None:
        """Give what still runs some time, then close."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=seconds)
        await self.close()

    async def close(self) -> None:
        """Cancel what still runs and wait for its end."""
        while self._tasks:
            running = tuple(self._tasks)
            for task in running:
                task.cancel()
            await asyncio.wait(running)
