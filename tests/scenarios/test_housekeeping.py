"""What retention no longer covers goes by itself; what was answered is still answered."""

from __future__ import annotations

from tests.scenarios.stage import DAY_S, Stage, until
from windlass import Agent
from windlass.testing import ScriptedModel, say


async def test_a_worker_reclaims_old_journals_without_being_asked(stage: Stage) -> None:
    model = ScriptedModel([say("one"), say("two")])
    async with stage.runtime(Agent("a", model=model)) as rt:
        await rt.session("s").run("old", turn_id="t1")
        stage.later(8 * DAY_S, rt)
        await rt.session("s").run("young", turn_id="t2")

        store = rt._services.store

        async def is_reclaimed() -> bool:
            view = await store.load_turn("s", "t1")
            return view is not None and view.pages == ()

        await until(is_reclaimed)
        young = await store.load_turn("s", "t2")
        again = await rt.session("s").run("old", turn_id="t1")

    assert young is not None
    assert len(young.pages) == 1
    assert again.text == "one"
    assert len(model.requests) == 2


async def test_a_worker_that_is_young_reclaims_nothing(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=ScriptedModel([say("one")])), retention=0) as rt:
        await rt.session("s").run("old", turn_id="t1")
        stage.later(59, rt)
        await rt._worker.look()
        view = await rt._services.store.load_turn("s", "t1")

    assert view is not None
    assert len(view.pages) == 1
