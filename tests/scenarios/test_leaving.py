"""Leaving: a runtime that is being closed begins nothing new, and what is under way gets its time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk
from tests.scenarios.workers import worker
from windlass import Runtime
from windlass.errors import EngineError
from windlass.kernel import Text
from windlass.ports import ClaimedTurn, NewTurn, TurnRequest, TurnView
from windlass.stores.memory import MemoryStore
from windlass.testing import ScriptedModel, call, say


class SlowStore(MemoryStore):
    """Holds up one kind of look, from the moment it is told to until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = ""
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()

    async def _pause(self, what: str) -> None:
        if what == self.holds:
            self.reached.set()
            await self.let_go.wait()

    async def claim(self, *args: Any, **wanted: Any) -> tuple[ClaimedTurn, ...]:
        given = await super().claim(*args, **wanted)
        await self._pause("claim")
        return given

    async def load_turn(self, *args: Any, **wanted: Any) -> TurnView | None:
        found = await super().load_turn(*args, **wanted)
        await self._pause("load_turn")
        return found


async def _close_while_held(runtime: Runtime[str], store: SlowStore, desk: Desk) -> None:
    """Begin to leave while a look is held up and a tool is at work; then let go of the look, then of the tool."""
    closing = asyncio.create_task(runtime.__aexit__(None, None, None))
    for _ in range(5):
        await asyncio.sleep(0)
    store.let_go.set()
    for _ in range(20):
        await asyncio.sleep(0)
    desk.gate.set()
    async with asyncio.timeout(HANGS_S):
        await closing


def _model() -> ScriptedModel:
    return ScriptedModel([call("work"), say("done"), say("too late")])


async def _at_work(runtime: Runtime[str], desk: Desk) -> None:
    await runtime.session("busy").submit("Go.", turn_id="t")
    await desk.entered.wait()


async def test_a_claim_that_is_under_way_starts_nothing() -> None:
    store, desk, model = SlowStore(), Desk(is_open=False), _model()
    runtime = await Runtime(worker(desk, model), store=store).__aenter__()
    await _at_work(runtime, desk)
    store.holds = "claim"
    await runtime.session("s").submit("And this.", turn_id="t")
    await store.reached.wait()

    await _close_while_held(runtime, store, desk)

    assert len(model.requests) == 1
    assert desk.runs == [0]
    async with Runtime(worker(Desk(), ScriptedModel([say("later")])), store=store) as rt:
        assert (await rt.turn("s", "t").result(timeout=HANGS_S)).text == "later"


async def test_a_turn_that_is_taken_up_again_is_not_begun() -> None:
    store, desk, model = SlowStore(), Desk(is_open=False), _model()
    runtime = await Runtime(worker(desk, model), store=store).__aenter__()
    await _at_work(runtime, desk)
    given = TurnRequest(input=(Text(text="And this."),))
    await store.accept("s", "t", NewTurn(agent="worker", request=given))
    runtime._worker._drives.again["s", "t"] = 0
    store.holds = "load_turn"
    runtime._worker.kick()
    await store.reached.wait()

    await _close_while_held(runtime, store, desk)

    assert len(model.requests) == 1


async def test_a_run_that_has_not_begun_is_refused_and_accepts_nothing() -> None:
    store, desk, model = SlowStore(), Desk(is_open=False), _model()
    runtime = await Runtime(worker(desk, model), store=store).__aenter__()
    await _at_work(runtime, desk)
    store.holds = "load_turn"
    running = asyncio.create_task(runtime.session("s").run("And this.", turn_id="t"))
    behind = asyncio.create_task(runtime.session("s").submit("Behind it."))
    await store.reached.wait()

    await _close_while_held(runtime, store, desk)

    for given in (running, behind):
        with pytest.raises(EngineError, match="is being closed; nothing was accepted"):
            await given
    assert len(model.requests) == 1
    assert [turn.session_id for turn in await store.list_turns()] == ["busy"]
