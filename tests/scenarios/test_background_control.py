"""What ends a background call beside its own body: the model, the caller, the end of its session; and a person before it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.building import TURN, all_ended, build_tool, builder, heard, processes
from tests.scenarios.readings import last_told, told
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import worker
from windlass import Agent, Runtime, tool
from windlass.errors import ConfigError
from windlass.kernel import ModelReply, ModelRequest
from windlass.kernel.outcomes import Stopped
from windlass.ports import MoveSession
from windlass.testing import FunctionModel, ScriptedModel, call, calls, say

# ------------------------------------------------------------------------- who ends it


async def test_cancelling_the_turn_does_not_stop_what_it_started(stage: Stage) -> None:
    builds, works = Desk(is_open=False), Desk(is_open=False)

    def reply(request: ModelRequest) -> ModelReply | str:
        n_results = len(told(request))
        return [call("build", ref="main"), call("work"), say("I see.")][min(n_results, 2)]

    model = FunctionModel(reply)
    (work,) = worker(works, model).toolbox
    async with stage.runtime(builder(builds, model, work)) as rt:
        handle = await rt.session("s").submit("Build.", turn_id="t")
        await asyncio.wait_for(works.entered.wait(), HANGS_S)
        await asyncio.wait_for(builds.entered.wait(), HANGS_S)
        await handle.cancel("Enough.")
        result = await handle.result(timeout=HANGS_S)
        builds.gate.set()
        await all_ended(rt)
        said = await heard(rt)
        works.gate.set()

    assert result.outcome == Stopped(reason="cancelled", detail="Enough.")
    assert said == ["build (p): built main"]


async def test_deleting_the_session_stops_and_deletes_what_it_started(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = FunctionModel(
        lambda request: call("build", ref="main") if len(request.messages) == 1 else "Fine."
    )
    async with stage.runtime(builder(desk, model)) as rt:
        await rt.session("s").run("Build.", turn_id="t")
        await asyncio.wait_for(desk.entered.wait(), HANGS_S)
        (process,) = await processes(rt)
        await asyncio.wait_for(rt.session("s").delete(), HANGS_S)
        left = await rt.sessions(kind=None)
        dropped = (await rt.status()).dropped

    assert process.session_id not in [one.session_id for one in left]
    assert left == ()
    assert dropped == ()
    assert len(desk.runs) == 1


async def test_a_result_for_a_session_that_is_gone_is_dropped_and_reported(stage: Stage) -> None:
    """The process was handed to another session before its own was deleted."""
    desk = Desk(is_open=False)
    model = FunctionModel(
        lambda request: call("build", ref="main") if len(request.messages) == 1 else "Fine."
    )
    async with stage.runtime(builder(desk, model)) as rt:
        await rt.session("s").run("Build.", turn_id="t")
        await rt.session("heir").run("Build.", turn_id="t")
        (process,) = await processes(rt)
        await asyncio.wait_for(desk.entered.wait(), HANGS_S)
        move = MoveSession(session_id=process.session_id, to="heir")
        await rt._services.store.run_errands([move], now_ms=1)
        await rt.session("s").delete()
        desk.gate.set()
        await rt.turn(process.session_id, TURN).result(timeout=HANGS_S)
        dropped = (await rt.status()).dropped

    assert [(one.session_id, one.reason) for one in dropped] == [("s", "session s: was deleted")]
    assert len(last_told(model)) == 1


# ------------------------------------------------------------------------- what the model may do


async def test_the_model_lists_what_runs_for_its_session_and_stops_it(stage: Stage) -> None:
    desk, ids = Desk(is_open=False), list[str]()

    async def reply(request: ModelRequest) -> ModelReply | str:
        results = told(request)
        if not results:
            return calls(("build", {"ref": "main"}), ("build", {"ref": "next"}), ("processes", {}))
        if len(results) == 3:
            await until(
                lambda: len(desk.runs) == 2
            )  # what has not begun is known not to have acted
            ids.append(results[0].text.split()[5].rstrip("."))
            return calls(("stop_process", {"id": ids[0]}), ("stop_process", {"id": "p_none"}))
        return "I see."

    model = FunctionModel(reply)
    async with stage.runtime(builder(desk, model)) as rt:
        result = await rt.session("s").run("Build.", turn_id="t")
        (stopped,) = [one for one in await processes(rt) if one.label == ids[0]]
        ended = await rt.turn(stopped.session_id, TURN).result(timeout=HANGS_S)
        desk.gate.set()
        await all_ended(rt)
        said = await heard(rt)

    listed: Any = result.tool_calls[2].outcome.value
    # The clock of a stage begins at this time.
    assert [(one["name"], one["since"]) for one in listed] == [
        ("build", "2023-11-14T22:13:20+00:00"),
        ("build", "2023-11-14T22:13:20+00:00"),
    ]
    assert {one["state"] for one in listed} <= {"waits to begin", "runs"}
    assert ids[0] in [one["id"] for one in listed]
    asked, refused = result.tool_calls[3:]
    assert asked.outcome.value == (
        f"{ids[0]} was asked to stop. Its end arrives by itself; do not wait for it."
    )
    assert (refused.outcome.status, refused.outcome.value) == (
        "error",
        "Nothing of the id p_none was started in this conversation.",
    )
    assert ended.outcome == Stopped(reason="cancelled", detail="the model asked for it")
    assert sorted(said) == [
        "build (p): It was stopped (the model asked for it). It is not known whether it acted.",
        "build (p): built next",
    ]


async def test_what_another_session_started_is_not_listed_and_not_stopped(stage: Stage) -> None:
    desk, ids = Desk(is_open=False), list[str]()

    def reply(request: ModelRequest) -> ModelReply | str:
        if told(request):
            return "I see."
        if not ids:
            return call("build", ref="main")
        return calls(("processes", {}), ("stop_process", {"id": ids[0]}))

    async with stage.runtime(builder(desk, FunctionModel(reply))) as rt:
        await rt.session("theirs").run("Build.")
        (process,) = await processes(rt, "theirs")
        ids.append(process.label or "")
        result = await rt.session("s").run("Stop it.")
        desk.gate.set()
        await all_ended(rt, "theirs")

    listed, stopped = result.tool_calls
    assert listed.outcome.value == []
    assert stopped.outcome.status == "error"


async def test_what_has_ended_is_not_listed_and_stopping_it_says_so(stage: Stage) -> None:
    model = ScriptedModel([call("build", ref="main"), say("It builds."), say("I see.")])
    async with stage.runtime(builder(Desk(), model)) as rt:
        await rt.session("s").run("Build.", turn_id="t")
        (process,) = await all_ended(rt)
        asks = calls(("processes", {}), ("stop_process", {"id": process.label}))
        async with stage.runtime(builder(Desk(), ScriptedModel([asks, say("Over.")]))) as later:
            await rt._services.store.leave(rt._services.worker_id)
            result = await later.session("s").run("And now?")

    assert [one.outcome.value for one in result.tool_calls] == [
        [],
        f"{process.label} has ended already.",
    ]


# ------------------------------------------------------------------------- who is asked before it starts


async def test_a_person_is_asked_before_it_starts_and_in_the_turn_that_calls(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("build", ref="main"), say("It builds."), say("I see.")])
    async with stage.runtime(builder(desk, model, approval="ask")) as rt:
        result = await rt.session("s").run("Build.", turn_id="t")
        (wait,) = result.waits
        assert (wait.kind, wait.session_id, wait.turn_id) == ("approval", "s", "t")
        assert await processes(rt) == []

        await rt.approve(wait.key, edit={"ref": "safe"})
        done = await rt.turn("s", "t").result(timeout=HANGS_S)
        (process,) = await all_ended(rt)
        said = await heard(rt)
        asked = await rt.waits()

    assert [ref for ref, _ in desk.runs] == ["safe"]
    assert said == ["build (p): built safe"]
    assert asked == ()
    (one,) = done.tool_calls
    assert last_told(model)[0].text == (
        f"{one.outcome.value}\n"
        "(The approver changed the arguments before it ran; it ran with the changed ones.)"
    )
    assert process.label is not None
    assert process.label in str(one.outcome.value)


async def test_what_a_person_denies_is_not_started(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("build", ref="main"), say("Then not.")])
    async with stage.runtime(builder(desk, model, approval="ask")) as rt:
        (wait,) = (await rt.session("s").run("Build.", turn_id="t")).waits
        await rt.deny(wait.key, reason="Not today.")
        done = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert await processes(rt) == []

    assert [one.outcome.status for one in done.tool_calls] == ["denied"]
    assert desk.runs == []


# ------------------------------------------------------------------------- what is refused


def test_the_tools_of_the_background_come_with_the_first_background_tool_only() -> None:
    plain = tool(_plain, name="build")
    model = ScriptedModel([])
    without, with_one = Agent("a", model=model, tools=[plain]), builder(Desk(), model)
    rt: Runtime[Any] = Runtime(without, with_one, store="memory:")

    names = {name: [spec.name for spec in one.toolbox.specs] for name, one in rt._programs.items()}
    assert names["a"] == ["build"]
    assert names["ci"] == ["build", "processes", "stop_process"]


def _plain(ref: str) -> str:
    """Build."""
    return ref


@pytest.mark.parametrize("name", ["processes", "stop_process"])
def test_a_tool_of_the_same_name_is_refused_beside_a_background_tool(name: str) -> None:
    agent = builder(Desk(), ScriptedModel([]), tool(_plain, name=name))
    with pytest.raises(ConfigError, match=f"a second tool named {name}"):
        Runtime(agent, store="memory:")
    # Without one the name is free.
    Runtime(Agent("a", model=ScriptedModel([]), tools=[tool(_plain, name=name)]), store="memory:")


async def test_a_turn_in_memory_refuses_what_would_end_after_it() -> None:
    with pytest.raises(ConfigError, match=r"Agent\.run: build runs in the background"):
        await builder(Desk(), ScriptedModel([])).run("Build.")


def test_deps_that_come_with_a_turn_do_not_reach_the_background() -> None:
    agent = Agent("ci", model=ScriptedModel([]), tools=[build_tool(Desk())], deps_type=str)
    with pytest.raises(ConfigError, match=r"Runtime\.deps: found none.*build of ci runs in the"):
        Runtime(agent, store="memory:")
    Runtime(agent, store="memory:", deps=lambda _: "deps")


def test_a_turn_cannot_have_to_finish_by_a_background_tool() -> None:
    with pytest.raises(ConfigError, match=r"Agent\.finish: found build, which runs in the back"):
        Agent("ci", model=ScriptedModel([]), tools=[build_tool(Desk())], finish="build")


def test_an_agent_cannot_be_called_as_the_background_of_another() -> None:
    model = ScriptedModel([])
    with pytest.raises(ConfigError, match="an agent called background:a"):
        Runtime(Agent("a", model=model), Agent("background:a", model=model), store="memory:")


def test_no_session_is_opened_with_what_runs_in_the_background() -> None:
    rt: Runtime[Any] = Runtime(builder(Desk(), ScriptedModel([])), store="memory:")
    with pytest.raises(ConfigError, match="agent: found background:ci"):
        rt.session("s", "background:ci")
