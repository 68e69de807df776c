"""One client for each event loop, closed once; and whose errors leave a model as they are."""

from __future__ import annotations

import asyncio

import pytest

from tests.models import wire_anthropic as wire
from tests.models.anthropic_cases import request
from tests.models.behaviours import KEY
from tests.models.wire_server import WireServer
from windlass.errors import LeaseLost, Malformed, StoreUnavailable, WindlassBug
from windlass.models.anthropic import AnthropicModel
from windlass.models.sdk_model import SdkClient
from windlass.ports import ModelEvent


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


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (LeaseLost("another worker has it"), LeaseLost),
        (StoreUnavailable("the disk is gone"), StoreUnavailable),
        (WindlassBug("out of order"), WindlassBug),
        (KeyError("a slip of the listener"), Malformed),
    ],
)
async def test_an_error_of_the_store_is_not_taken_for_the_providers(
    raised: Exception, seen: type[Exception]
) -> None:
    def refusing(_event: ModelEvent) -> None:
        raise raised

    async with WireServer({"POST /v1/messages": wire.answer(wire.text(0, "Hi."))}) as server:
        model = AnthropicModel(wire.MODEL, base_url=server.url, api_key=KEY)
        with pytest.raises(seen):
            await model.complete(request(), refusing)
        await model.aclose()
