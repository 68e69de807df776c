"""The client of an SDK: made when it is first needed, one for each event loop, closed with its model."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from windlass.errors import ConfigError

C = TypeVar("C")


def checked_timeout(seconds: float) -> float:
    """Return how long a client may wait for the next byte.

    Raises:
        ConfigError: not more than no time at all, or not a time.
    """
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < math.inf:
        found = seconds if is_number else type(seconds).__name__
        raise ConfigError.at("timeout", found, "seconds above 0")
    return float(seconds)


class SdkClient(Generic[C]):
    """Holds one client. Its connections belong to an event loop, so another loop gets another client."""

    def __init__(self, make: Callable[[], C], close: Callable[[C], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._client: C | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> C:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            # One of a loop that is over cannot be closed any more; its sockets went with the loop.
            self._client, self._loop = self._make(), loop
        return self._client

    async def aclose(self) -> None:
        """Close the client, if there is one; the next call makes another."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await self._close(client)
