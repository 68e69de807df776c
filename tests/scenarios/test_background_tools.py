"""Background tools: the model goes on at once, and the result wakes the session, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.building import TURN, all_ended, build_tool, builder, heard, processes
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import worker
from windlass import (
    Agent,
    EndTurn,
    HandOff,
    Runtime,
    Text,
    ToolContext,
    ToolError,
    ToolUncertain,
    tool,
)
from windlass.journal import idempotency_key
from windlass.kernel import CompletedToolCall, ModelReply, ModelRequest
from windlass.kernel.events import ChildEvent, ToolFinished, ToolProgress
from windlass.kernel.outcomes import FinishedValue
from windlass.plugins import Plugin
from windlass.ports import AcceptTurn, PluginTurn, Ticket, TurnInfo, Unit, UnitReceipt
from windlass.stores.memory import MemoryStore
from windlass.testing import FunctionModel, ScriptedModel, call, calls, say


def started(label: str | None) -> str:
    return (
        f"Started in the background as {label}. Its result arrives by itself; do not wait for it."
    )


# ------------------------------------------------------------------------- what the model is told


async def test_the_model_goes_on_at_once_and_the_result_begins_a_turn(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("build", ref="main"), say("It builds."), say("It is built.")])
    async with stage.runtime(builder(desk, model)) as rt:
        result = await asyncio.wait_for(rt.session("s").run("Build.", turn_id="t"), HANGS_S)
        (process,) = await processes(rt)
        desk.gate.set()
        await all_ended(rt)
        ended = await rt.turn(process.session_id, TURN).result()
        said = await heard(rt)

    assert result.text == "It builds."
    assert [one.outcome.value for one in result.tool_calls] == [started(process.label)]
    assert process.label == process.session_id[:12]
    assert (process.agent, process.kind, process.root) == ("background:ci", "process", "s")
    assert ended.outcome == FinishedValue(value="built main")
    assert len(desk.runs) == 1
    assert said == ["build (p): built main"]
    # The turn that it began is told why it runs.
    assert said_by_user(model.requests[2])[-1].endswith(f":\nbuild ({process.label}): built main")


async def test_a_result_that_comes_while_a_turn_runs_enters_that_turn(stage: Stage) -> None:
    builds, works = Desk(is_open=False), Desk(is_open=False)
    model = ScriptedModel([call("build", ref="main"), call("work"), say("Both are done.")])
    (work,) = worker(works, model).toolbox
    async with stage.runtime(builder(builds, model, work)) as rt:
        handle = await rt.session("s").submit("Build.", turn_id="t")
        await asyncio.wait_for(works.entered.wait(), HANGS_S)
        builds.gate.set()
        (process,) = await processes(rt)
        await rt.turn(process.session_id, TURN).result(timeout=HANGS_S)
        works.gate.set()
        result = await handle.result(timeout=HANGS_S)
        await rt.session("s").wait(timeout=HANGS_S)
        said = await heard(rt)

    assert result.text == "Both are done."
    assert said == ["build (p): built main"]
    assert said_by_user(model.requests[2])[-1].endswith(f"build ({process.label}): built main")
    assert len(model.requests) == 3


class UnitStore(MemoryStore):
    """Keeps the units that it was handed."""

    def __init__(self) -> None:
        super().__init__()
        self.units: list[Unit] = []

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        self.units.append(unit)
        return super().submit(unit, after=after)


async def test_five_calls_of_one_reply_are_started_in_one_unit() -> None:
    store, desk = UnitStore(), Desk()
    asked = [("build", {"ref": f"r{n}"}) for n in range(5)]

    def reply(request: ModelRequest) -> ModelReply:
        return calls(*asked) if len(request.messages) == 1 else say("Fine.")

    async with Runtime(builder(desk, FunctionModel(reply)), store=store) as rt:
        await rt.session("s").run("Build all.", turn_id="t")
        begun = await all_ended(rt)

    starting = [unit for unit in store.units if any(type(e) is AcceptTurn for e in unit.errands)]
    assert [len(unit.errands) for unit in starting] == [5]
    (unit,) = starting
    # The intents and the results of all five are in it.
    assert sum(getattr(entry, "key", "").endswith("/intent") for entry in unit.entries) == 5
    assert sum(getattr(entry, "key", "").endswith("/result") for entry in unit.entries) == 5
    assert len(begun) == 5
    assert sorted(ref for ref, _ in desk.runs) == ["r0", "r1", "r2", "r3", "r4"]
    assert len({key for _, key in desk.runs}) == 5


# ------------------------------------------------------------------------- how it ends


def failing(error: Exception) -> Callable[..., object]:
    async def build(ref: str) -> str:
        """Build."""
        raise error

    return build


def returning(value: object) -> Callable[..., object]:
    async def build(ref: str) -> object:
        """Build."""
        return value

    return build


async def hanging(ref: str) -> str:
    """Build for ever."""
    await asyncio.get_running_loop().create_future()
    return ref


ENDS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "raises": (failing(ToolError("No such ref.")), {}, "It failed. ToolFailed: No such ref."),
    "breaks": (failing(ValueError("odd")), {}, "It failed. ToolFailed: ValueError: odd"),
    "late": (
        hanging,
        {"timeout": 0.01},
        "It failed. ToolTimeout: it did not return in 0.01 s",
    ),
    "unknown": (
        failing(ToolUncertain("no answer")),
        {"effect": "once"},
        (
            "It failed. StepUnknown: It is not known whether build acted: no answer. It was not "
            "run again. Do not assume that it did or did not; check first if you can."
        ),
    ),
    "nothing": (returning(None), {}, "(no output)"),
    "value": (returning({"size": 3}), {}, '{"size":3}'),
    "long": (
        returning("x" * 400),
        {"output_limit": 200},
        # The marks of a clipped result are those of any tool.
        "[full-output, text/plain: kept with the process]",
    ),
    "parts": (returning([Text(text="one"), Text(text="two")]), {}, "one\ntwo"),
    "ending": (
        returning(EndTurn(value=1)),
        {},
        "(no output)\n(It returned EndTurn, which ends no turn from the background.)",
    ),
    "leaving": (
        returning(HandOff(target="x")),
        {},
        "(no output)\n(It returned HandOff, which ends no turn from the background.)",
    ),
}


@pytest.mark.parametrize("name", ENDS)
async def test_however_it_ends_the_session_is_told_once_in_words(
    memory_stage: Stage, name: str
) -> None:
    body, options, words = ENDS[name]
    build = tool(body, **{"effect": "keyed", "background": True, "name": "build", **options})
    model = ScriptedModel([call("build", ref="main"), say("It builds."), say("I see.")])
    async with memory_stage.runtime(Agent("ci", model=model, tools=[build])) as rt:
        await rt.session("s").run("Build.", turn_id="t")
        await all_ended(rt)
        (said,) = await heard(rt)

    if name == "long":
        assert said.startswith("build (p): xxxx")
        assert said.endswith(words)
        assert len(said) < 400
    else:
        assert said == f"build (p): {words}"


async def test_a_body_that_fails_is_tried_again_as_its_retries_say_under_one_key(
    memory_stage: Stage,
) -> None:
    seen: list[tuple[int, str]] = []

    @tool(effect="keyed", retries=1, background=True)
    async def build(ctx: ToolContext[None], ref: str) -> str:
        """Build."""
        seen.append((ctx.attempt, ctx.idempotency_key))
        if ctx.attempt == 1:
            raise ToolError("Not yet.")
        return f"built {ref}"

    model = ScriptedModel([call("build", ref="main"), say("It builds."), say("I see.")])
    async with memory_stage.runtime(Agent("ci", model=model, tools=[build])) as rt:
        await rt.session("s").run("Build.", turn_id="t")
        await all_ended(rt)
        assert await heard(rt) == ["build (p): built main"]
        store_id = rt._services.store.store_id

    # The key that the first call of the turn's second effect has in the foreground, too.
    assert [attempt for attempt, _ in seen] == [1, 2]
    assert {key for _, key in seen} == {idempotency_key(store_id, "s", "t", "2", 0)}


# ------------------------------------------------------------------------- what the body is told


async def test_the_body_is_told_of_the_call_that_the_model_made(stage: Stage) -> None:
    seen: list[Any] = []
    infos: list[TurnInfo] = []

    @tool(effect="keyed", background=True)
    async def build(ctx: ToolContext[str], ref: str) -> str:
        """Build."""
        seen.append((ctx.deps, ctx.session_id, ctx.turn_id, ctx.call_id))
        ctx.progress({"percent": 50})
        return f"built {ref}"

    def deps(info: TurnInfo) -> str:
        infos.append(info)
        return f"deps of {info.agent} for {info.context.get('tenant')}"

    model = ScriptedModel([call("build", ref="main"), say("It builds."), say("I see.")])
    agent = Agent("ci", model=model, tools=[build], deps_type=str)
    async with stage.runtime(agent, deps=deps) as rt:
        result = await rt.session("s").run("Build.", turn_id="t", context={"tenant": "acme"})
        (process,) = await all_ended(rt)
        shown = [one async for one in rt.turn(process.session_id, TURN).events()]

    (one,) = result.tool_calls
    assert seen == [("deps of ci for acme", "s", "t", one.call_id)]
    assert {info.agent for info in infos} == {"ci"}
    finished = [one for one in shown if isinstance(one, ToolFinished)]
    assert [(one.name, one.outcome.value) for one in finished] == [("build", "built main")]


async def test_its_progress_is_shown_to_those_who_watch_the_process(memory_stage: Stage) -> None:
    entered, gate, shown = asyncio.Event(), asyncio.Event(), list[Any]()

    @tool(effect="keyed", background=True)
    async def build(ctx: ToolContext[None], ref: str) -> str:
        """Build."""
        entered.set()
        await gate.wait()
        ctx.progress({"percent": 50})
        return f"built {ref}"

    model = ScriptedModel([call("build", ref="main"), say("It builds."), say("I see.")])
    async with memory_stage.runtime(Agent("ci", model=model, tools=[build])) as rt:
        await rt.session("s").run("Build.", turn_id="t")
        await asyncio.wait_for(entered.wait(), HANGS_S)
        (process,) = await processes(rt)
        watching = rt.turn(process.session_id, TURN).events()
        gate.set()
        shown = [one async for one in watching]
        await all_ended(rt)

    assert [one.data for one in shown if isinstance(one, ToolProgress)] == [{"percent": 50}]


async def test_its_progress_is_shown_in_the_turn_that_called_while_that_runs(
    memory_stage: Stage,
) -> None:
    works = Desk(is_open=False)

    @tool(effect="keyed", background=True)
    async def build(ctx: ToolContext[None], ref: str) -> str:
        """Build."""
        ctx.progress({"percent": 50})
        works.gate.set()
        return f"built {ref}"

    model = ScriptedModel([call("build", ref="main"), call("work"), say("Both."), say("I see.")])
    (work,) = worker(works, model).toolbox
    async with memory_stage.runtime(Agent("ci", model=model, tools=[build, work])) as rt:
        async with rt.session("s").stream("Build.", turn_id="t") as turn:
            shown = [one async for one in turn]
        await all_ended(rt)

    below = [one.event for one in shown if isinstance(one, ChildEvent)]
    assert [one.data for one in below if isinstance(one, ToolProgress)] == [{"percent": 50}]


async def test_plugins_see_that_the_call_has_started(memory_stage: Stage) -> None:
    seen: list[object] = []

    class Looks(Plugin):
        async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> None:
            seen.append(call.outcome.value)

    model = ScriptedModel([call("build", ref="main"), say("It builds."), say("I see.")])
    agent = Agent("ci", model=model, tools=[build_tool(Desk())], plugins=[Looks()])
    async with memory_stage.runtime(agent) as rt:
        await rt.session("s").run("Build.", turn_id="t")
        (process,) = await all_ended(rt)

    assert seen == [started(process.label)]


# ------------------------------------------------------------------------- where it comes from


class Shelf:
    """Brings tools."""

    def __init__(self, *tools: Any) -> None:
        self.listed = list(tools)

    def tools(self, context: Mapping[str, Any]) -> list[Any]:
        return self.listed


async def test_a_tool_of_a_provider_runs_in_the_background_and_brings_the_others_along(
    stage: Stage,
) -> None:
    model = ScriptedModel([call("build", ref="main"), say("It builds."), say("I see.")])
    agent = Agent("ci", model=model, tools=[Shelf(build_tool(Desk()))])
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Build.", turn_id="t")
        await all_ended(rt)
        assert await heard(rt) == ["build (p): built main"]

    offered = [spec.name for spec in model.requests[0].tools]
    assert offered == ["build", "processes", "stop_process"]


async def test_a_tool_that_is_gone_when_it_is_to_run_fails_in_words(stage: Stage) -> None:
    builds, works = Desk(), Desk(is_open=False)
    model = ScriptedModel([call("build", ref="main"), call("work"), *[say("I see.")] * 3])
    (work,) = worker(works, model).toolbox
    # The only slot is the turn's own: the process is left to the next runtime, which has no such tool.
    async with stage.runtime(builder(builds, model, work), max_turns=1) as rt:
        await rt.session("s").submit("Build.", turn_id="t")
        await asyncio.wait_for(works.entered.wait(), HANGS_S)
        stage.kill(rt)
        async with stage.runtime(Agent("ci", model=model)) as later:
            await later.turn("s", "t").result(timeout=HANGS_S)
            await all_ended(later)
            said = await heard(later)
        works.gate.set()

    assert said == ["build (p): It failed. ToolFailed: There is no tool called build."]
    assert builds.runs == []


async def test_a_subagent_waits_for_its_background_tools(memory_stage: Stage) -> None:
    """Its answer is given when its turn ends: there is no later turn to wake."""
    desk = Desk()
    kid = builder(desk, ScriptedModel([call("build", ref="main"), say("Built.")]))
    model = ScriptedModel([call("ci", task="Build."), say("Good.")])
    lead = Agent("lead", model=model, tools=[kid.as_tool(description="Builds.")])
    async with memory_stage.runtime(lead, kid) as rt:
        result = await asyncio.wait_for(rt.session("s", lead).run("Go."), HANGS_S)
        (child,) = await rt.sessions(kind="child", started_by="s")
        assert await processes(rt, child.session_id) == []
        done = await rt.turn(child.session_id, "t").result(timeout=HANGS_S)

    assert result.text == "Good."
    assert [one.outcome.value for one in done.tool_calls] == ["built main"]
