"""Reading a session: not again while nothing has changed, and never more than the next turn needs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.summing import Summing
from tests.scenarios.workers import worker
from windlass import Agent, Runtime, tool
from windlass.plugins import Plugin, PluginTurn
from windlass.ports import ClaimedTurn, SessionView, Store
from windlass.runtime.session_memory import SessionMemory


class Tally(Plugin):
    """Counts the session's turns."""

    name = "tally"

    async def before_turn(self, turn: PluginTurn) -> None:
        turn.remember(turns=turn.memory.get("turns", 0) + 1)


class Reader:
    """Stands before a runtime's store and counts the pages of history that sessions are read with."""

    def __init__(self, rt: Runtime[Any]) -> None:
        world = rt._services
        self._store: Store = world.store
        self.pages = 0
        world.store = self  # whatever is not counted is the store's

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a store has
        return getattr(self._store, name)

    async def load_session(self, session_id: str, **wanted: bool) -> SessionView:
        view = await self._store.load_session(session_id, **wanted)
        self.pages += len(view.pages)
        return view

    async def claim(self, worker_id: str, **wanted: Any) -> tuple[ClaimedTurn, ...]:
        given = await self._store.claim(worker_id, **wanted)
        self.pages += sum(len(claimed.session.pages) for claimed in given)
        return given


def asking(mind: Summing, desk: Desk) -> Agent[None, str]:
    @tool(effect="once", approval="ask")
    async def work(n: int) -> str:
        """Work."""
        await desk.work(n)
        return f"worked {n}"

    return Agent("asking", model=mind.model, tools=[work], plugins=[Tally()])


async def parked_after(rt: Runtime[Any], frames: int) -> str:
    """Let a session have frames of two turns each, and a turn that asks; return what is asked under."""
    session = rt.session("s", agent="asking")
    for at in range(frames):
        await session.run("One.", turn_id=f"a{at}")
        await session.run("Two.", turn_id=f"b{at}")
        await session.compact()
    await session.run("Three.", turn_id="three")
    parked = await session.run("Now work.", turn_id="t")
    return parked.waits[0].key


async def test_a_session_that_is_here_is_not_read_again_when_its_turn_is_answered(
    stage: Stage,
) -> None:
    desk = Desk()
    async with stage.runtime(asking(Summing(), desk)) as rt:
        key = await parked_after(rt, frames=1)
        reader = Reader(rt)
        await rt.approve(key)
        done = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert (done.text, desk.runs) == ("worked", [1])
    assert reader.pages == 0


async def test_a_session_that_went_on_elsewhere_is_read_again(stage: Stage) -> None:
    desk, mind = Desk(is_open=False), Summing()
    agents = worker(desk, mind.model, "busy"), asking(mind, Desk())
    async with stage.runtime(*agents, max_turns=1) as rt:
        key = await parked_after(rt, frames=0)
        # While it is busy with something else, another process goes on.
        busy = await rt.session("x", agent="busy").submit("Go and work.", turn_id="x")
        await desk.entered.wait()
        async with stage.runtime(asking(mind, Desk())) as other:
            await other.approve(key)
            await other.turn("s", "t").result(timeout=HANGS_S)
            await other.session("s").run("Four.", turn_id="four")
        desk.gate.set()
        await busy.result(timeout=HANGS_S)
        reader, so_far = Reader(rt), len(mind.model.requests)
        await rt.session("s").run("Five.", turn_id="five")

    (request,) = mind.model.requests[so_far:]
    assert said_by_user(request) == ["Three.", "Now work.", "Four.", "Five."]
    assert reader.pages == 3


@pytest.mark.parametrize("frames", [2, 12])
async def test_a_turn_that_is_taken_up_reads_the_last_frame_alone(
    stage: Stage, frames: int
) -> None:
    desk = Desk()
    async with stage.runtime(asking(Summing(), desk)) as rt:
        key = await parked_after(rt, frames=frames)
    async with stage.runtime(asking(Summing(), desk)) as rt:
        reader = Reader(rt)
        await rt.approve(key)
        done = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert (done.text, desk.runs) == ("worked", [1])
    # The page that opened the frame, and the one turn after it.
    assert reader.pages == 2


async def test_a_new_frame_forgets_nothing_that_the_session_remembers(stage: Stage) -> None:
    desk, mind = Desk(is_open=False), Summing()
    async with stage.runtime(asking(mind, desk)) as lost:
        parked = await lost.session("s", agent="asking").run("Go and work.", turn_id="t")
        await lost.approve(parked.waits[0].key, remember="session", by="eva")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(asking(mind, Desk())) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
            store = rt._services.store
            before = SessionMemory.of(await store.load_session("s"))
            await rt.session("s").compact()
            whole = SessionMemory.of(await store.load_session("s"))
            frame = SessionMemory.of(await store.load_session("s", frame=True))
            head = (await store.load_session("s", frame=True)).pages
        desk.gate.set()

    assert len(head) == 1
    assert before.plugin_memories == {"tally": {"turns": 1}}
    assert list(before.remembered.values()) == ["eva"]
    assert len(before.unknown_calls) == 1
    for memory in (whole, frame):
        assert memory.plugin_memories == before.plugin_memories
        assert memory.remembered == before.remembered
        assert memory.unknown_calls == before.unknown_calls
        assert memory.messages == whole.messages
        assert (memory.usage, memory.head) == (whole.usage, 2)
