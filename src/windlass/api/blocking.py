"""Windlass for code that does not await."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from windlass.errors import ConfigError

T = TypeVar("T")


def wait_for(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on a loop of its own.

    Raises:
        ConfigError: a loop runs here already.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    raise ConfigError("run_sync: an event loop runs in this thread; await run() instead")
