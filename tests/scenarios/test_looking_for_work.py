"""A worker that looks alive goes on looking for work, whatever it met the last time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.scenarios.stage import Stage
from windlass import Agent
from windlass.plugins import Finale, Plugin, PluginTurn
from windlass.testing import FunctionModel, say


@pytest.fixture
def stage(tmp_path: Any) -> Stage:  # noqa: ANN401 - a path
    return Stage("memory", tmp_path)


def echo() -> FunctionModel:
    return FunctionModel(lambda _request: say("Done."))


async def test_a_look_that_fails_is_not_the_last(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        store: Any = rt._machinery.store
        due, failures = store.due, [RuntimeError("the table is gone")]

        async def fails_once(now_ms: int) -> Any:  # noqa: ANN401 - as the store says
            if failures:
                raise failures.pop()
            return await due(now_ms)

        store.due = fails_once
        rt._machinery.engine.kick()
        async with asyncio.timeout(30):
            while failures:  # noqa: ASYNC110 - the worker's own clock
                await asyncio.sleep(0.01)
        await rt.session("s").submit("work", turn_id="t")
        result = await rt.turn("s", "t").result(timeout=30)

    assert result.text == "Done."
    assert "looking for work" in caplog.text


class Once(Plugin):
    """Leaves something behind, once in a session."""

    async def after_turn(self, turn: PluginTurn, outcome: object) -> Finale | None:
        if turn.memory.get("left"):
            return None
        turn.remember(left=True)
        return Finale(messages=["And now?"])


async def test_what_a_turn_leaves_behind_begins_at_once_and_waits_for_no_look(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo(), plugins=[Once()])) as rt:
        kick: Any = rt._machinery.engine._kick
        kicks: list[str] = []
        really = kick.set

        def told() -> None:
            kicks.append("now")
            really()

        kick.set = told
        await rt.session("s").run("work")
        kicked = [*kicks]
        async with asyncio.timeout(30):
            while len(await rt.session("s").history()) < 4:  # noqa: ASYNC110 - the store's
                await asyncio.sleep(0.01)

    assert kicked
