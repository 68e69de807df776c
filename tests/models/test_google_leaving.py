"""A reply that is left in the middle leaves nothing behind: no generator, no connection, no word of the event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from tests.models.behaviours import ask
from tests.models.google_cases import Google, request
from tests.models.wire_google import OVERLOADED, call, ended, said, stream
from tests.models.wire_server import Played
from windlass.errors import ProviderError

GOOGLE = Google()
BEFORE = stream(said({"text": "Hel"}), said({"text": "lo"})).body
BEHIND = stream(*(said({"text": "more"}) for _ in range(50)), ended()).body
REFUSED = {
    "an error": OVERLOADED,
    "another shape": b'data: {"candidates": 3}\r\n\r\n',
    "no JSON": b'data: {"candi\r\n\r\n',
    "a call without a name": stream(said({"functionCall": {"args": {}}})).body,
    "arguments of another kind": stream(said(call("add", args=[1]))).body,
}


def unfinished() -> list[str]:
    """The async generators of this loop that somebody still has to close, but for those of the test."""
    loop = asyncio.get_running_loop()
    open_ones = [each for each in loop._asyncgens if each.ag_frame is not None]  # type: ignore[attr-defined]
    return [each.__qualname__ for each in open_ones if each.ag_code.co_filename.find("/tests/") < 0]


@pytest.mark.parametrize("refused", REFUSED)
async def test_a_reply_that_is_refused_in_the_middle_leaves_no_generator(refused: str) -> None:
    answer = Played(BEFORE + REFUSED[refused] + BEHIND, then="hang")
    async with GOOGLE.playing(answer) as (server, model):
        with pytest.raises(ProviderError):
            await ask(model, request())
        assert unfinished() == []
        await server.left.wait()


async def test_a_call_that_is_cancelled_leaves_no_generator() -> None:
    async with GOOGLE.playing(Played(BEFORE, then="hang")) as (server, model):
        asking = asyncio.ensure_future(ask(model, request()))
        await server.hanging.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert unfinished() == []
        await server.left.wait()


async def test_a_whole_reply_is_read_to_its_end_and_its_connection_is_used_again() -> None:
    async with GOOGLE.playing(Played(BEFORE + BEHIND)) as (server, model):
        for _ in range(3):
            await ask(model, request())
        assert unfinished() == []
        assert server.n_connections == 1


PROGRAM = """
import asyncio
import sys
from tests.models.google_cases import Google, request
from tests.models.test_google_leaving import BEFORE, BEHIND, REFUSED
from tests.models.wire_server import Played, WireServer
from windlass.errors import ProviderError


async def main():
    answer = Played(BEFORE + REFUSED[sys.argv[1]] + BEHIND, then="hang")
    async with WireServer({Google.endpoint: answer}) as server:
        try:
            await Google().model(server.url).complete(request(), lambda event: None)
        except ProviderError:
            print("refused")


asyncio.run(main())
"""


@pytest.mark.parametrize("refused", ["an error", "a call without a name"])
def test_a_loop_that_ends_right_behind_a_refusal_has_nothing_to_say(refused: str) -> None:
    ran = [sys.executable, "-c", PROGRAM, refused]
    found = subprocess.run(ran, check=True, capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("refused\n", "")
