"""One client for each event loop, closed once."""

from __future__ import annotations

import asyncio

from windlass.models.sdk_model import SdkClient


class _Clients:
    def __init__(self) -> None:
        self.made = 0
        self.closed: list[int] = []
        self.slot: SdkClient[int] = SdkClient(self.make, self.close)

    def make(self) -> int:
        self.made += 1
        return self.made

    async def close(self, client: int) -> None:
        self.closed.append(client)


async def test_a_client_is_made_once_and_closed_once() -> None:
    clients = _Clients()
    assert (clients.slot.get(), clients.slot.get()) == (1, 1)
    await clients.slot.aclose()
    await clients.slot.aclose()
    assert clients.closed == [1]
    assert clients.slot.get() == 2


async def test_a_client_that_was_never_needed_is_not_made() -> None:
    clients = _Clients()
    await clients.slot.aclose()
    assert clients.made == 0


def test_another_loop_gets_another_client() -> None:
    clients = _Clients()

    async def use() -> int:
        return clients.slot.get()

    assert [asyncio.run(use()), asyncio.run(use())] == [1, 2]
    asyncio.run(clients.slot.aclose())
    assert clients.closed == []  # its loop is over, and its sockets with it
