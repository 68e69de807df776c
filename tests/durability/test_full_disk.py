"""A disk without room: the callers of an accepted turn are told, and the turn goes on by itself once there is room."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from tests.durability.faulty_vfs import Fault, FaultyVfs
from tests.durability.recording_vfs import unregistered_name
from tests.limits import HANGS_S
from windlass import Agent, Runtime, tool
from windlass.errors import Retry, StoreUnavailable
from windlass.stores.sqlite import SqliteStore
from windlass.testing import FunctionModel, VirtualClock, call, say

FULL = Fault(kind="write", code=apsw.SQLITE_FULL, stays=True)


@pytest.fixture(autouse=True)
def _second_faults_are_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """apsw cannot raise a second fault while the first one propagates."""
    tell = sys.unraisablehook
    monkeypatch.setattr(
        sys,
        "unraisablehook",
        lambda found: None if isinstance(found.exc_value, apsw.Error) else tell(found),
    )


class Place:
    """A runtime on a disk that its tool fills; `acts` counts how often the tool ran."""

    def __init__(self, path: Path) -> None:
        self.vfs = FaultyVfs(unregistered_name())
        self.store = SqliteStore(path, vfs=self.vfs.name, busy_s=0.05)
        self.clock = VirtualClock()
        self.acts = 0

        @tool(effect="keyed")
        async def act() -> str:
            """Act."""
            self.acts += 1
            if self.acts == 1:
                self.vfs.arm(FULL)
            return "acted"

        model = FunctionModel(
            lambda request: call("act") if len(request.messages) == 1 else say("done")
        )
        agent = Agent("a", model=model, tools=[act])
        self.runtime = Runtime(agent, store=self.store, clock=self.clock)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path / "w.db")
    await place.store.open()
    async with asyncio.timeout(HANGS_S), place.runtime:
        yield place
        place.vfs.lift()
    await place.store.close()


TOLD = (
    r"turn t: is accepted and cannot go on now: w\.db: the disk is full; free some space and try again"
    r" \(FullError\)\. It goes on by itself once that is over"
)


async def test_every_caller_that_waits_is_told(place: Place) -> None:
    rt = place.runtime
    first = asyncio.ensure_future(rt.session("s").run("go", turn_id="t"))
    with pytest.raises(StoreUnavailable, match=TOLD) as told:
        await first
    assert told.value.retry is Retry.LATER
    # One that asks again has it tried at once, and is told, too.
    with pytest.raises(StoreUnavailable, match=TOLD):
        await rt.turn("s", "t").result()
    both = await asyncio.gather(
        rt.turn("s", "t").result(), rt.session("s").run("go", turn_id="t"), return_exceptions=True
    )
    assert [type(one) for one in both] == [StoreUnavailable, StoreUnavailable]


async def test_the_turn_goes_on_by_itself_once_there_is_room(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    rt = place.runtime
    with caplog.at_level(logging.WARNING, "windlass"), pytest.raises(StoreUnavailable):
        await rt.session("s").run("go", turn_id="t")
    assert "driving s/t: store_unavailable" in caplog.messages

    async with rt.observe(sessions=["s"], kinds=["turn_ended"]) as notices:
        place.vfs.lift()
        place.clock.advance(10)
        ended = await anext(aiter(notices))
    assert ended.turn_id == "t"
    result = await rt.turn("s", "t").result()
    assert (result.status, result.text) == ("done", "done")
    assert place.acts == 2  # the result of the first could not be written; the call has a key


async def test_a_caller_who_asks_once_there_is_room_waits_for_no_pause(place: Place) -> None:
    rt = place.runtime
    with pytest.raises(StoreUnavailable):
        await rt.session("s").run("go", turn_id="t")
    place.vfs.lift()
    result = await rt.session("s").run("go", turn_id="t")
    assert (result.status, result.text) == ("done", "done")


async def test_a_turn_that_cannot_be_accepted_is_not_there(place: Place) -> None:
    place.vfs.arm(FULL)
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await place.runtime.session("s").run("go", turn_id="t")
    place.vfs.lift()
    assert await place.runtime.sessions() == ()
