"""Deps: made once per drive and let go of at its end; without a factory, recovery asks for them."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import last_told
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, Runtime, ToolContext, TurnInfo, tool
from windlass.errors import ConfigError, WindlassError
from windlass.kernel.outcomes import Stopped
from windlass.testing import ScriptedModel, call, calls, say


@dataclass
class Shop:
    name: str


def clerk(desk: Desk, model: ScriptedModel) -> Agent[Shop, str]:
    @tool(effect="keyed")
    async def ask(ctx: ToolContext[Shop]) -> str:
        """Ask the shop."""
        await desk.work(ctx.deps)
        return f"here is {ctx.deps.name}"

    return Agent("clerk", model=model, tools=[ask], deps_type=Shop)


def script() -> ScriptedModel:
    return ScriptedModel([call("ask"), say("Done.")])


@pytest.mark.parametrize("form", ["value", "awaitable", "context-manager"])
async def test_a_factory_may_give_a_value_an_awaitable_or_a_context_manager(
    stage: Stage, form: str
) -> None:
    seen: list[str] = []

    async def later(info: TurnInfo) -> Shop:
        return Shop("Ann's")

    @asynccontextmanager
    async def opened(info: TurnInfo) -> AsyncIterator[Shop]:
        seen.append("open")
        try:
            yield Shop("Ann's")
        finally:
            seen.append("closed")

    factory: dict[str, Any] = {
        "value": lambda info: Shop("Ann's"), "awaitable": later, "context-manager": opened,
    }  # fmt: skip
    model = script()
    async with stage.runtime(clerk(Desk(), model), deps=factory[form]) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        assert seen == (["open", "closed"] if form == "context-manager" else [])

    assert result.text == "Done."
    assert [one.text for one in last_told(model)] == ["here is Ann's"]


async def test_deps_are_made_once_per_drive(stage: Stage) -> None:
    made: list[TurnInfo] = []

    def factory(info: TurnInfo) -> Shop:
        made.append(info)
        return Shop(f"number {len(made)}")

    desk = Desk()
    model = ScriptedModel([calls(("ask", {}), ("ask", {})), call("ask"), say("Done.")])
    async with stage.runtime(clerk(desk, model), deps=factory) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    assert len(made) == 1
    assert [shop.name for shop in desk.runs] == ["number 1"] * 3
    assert made[0] == TurnInfo(agent="clerk", session_id="s", turn_id="t")


async def test_deps_given_to_a_turn_go_before_the_factory(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(clerk(desk, model), deps=lambda info: Shop("factory")) as rt:
        await rt.session("s").run("Go.", turn_id="t", deps=Shop("given"))

    assert [shop.name for shop in desk.runs] == ["given"]


async def test_deps_that_come_with_a_turn_that_has_ended_are_not_kept(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(clerk(desk, model)) as rt:
        for _ in range(2):  # as when a message is delivered twice
            shop = Shop("given")
            kept = weakref.ref(shop)
            await rt.session("s").run("Go.", turn_id="t", deps=shop)
            del shop
        desk.runs.clear()

        assert kept() is None


async def test_deps_are_let_go_of_when_the_turn_parks(stage: Stage) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def opened(info: TurnInfo) -> AsyncIterator[Shop]:
        seen.append(f"open {info.recovered}")
        yield Shop("x")
        seen.append("closed")

    @tool(effect="once", approval="ask")
    async def pay(ctx: ToolContext[Shop]) -> str:
        """Pay."""
        return ctx.deps.name

    agent = Agent(
        "clerk", model=ScriptedModel([call("pay"), say("Done.")]), tools=[pay], deps_type=Shop
    )
    async with stage.runtime(agent, deps=opened) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        assert seen == ["open False", "closed"]
        await rt.approve(parked.waits[0].key)
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert seen == ["open False", "closed", "open True", "closed"]


async def test_without_a_factory_a_recovered_turn_waits_until_it_is_run_with_deps(
    stage: Stage,
) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(clerk(desk, model)) as lost:
        await lost.session("s").submit("Go.", turn_id="t", deps=Shop("first"))
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(clerk(fresh, model)) as rt:
            parked = await rt.turn("s", "t").result(timeout=HANGS_S)
            (wait,) = parked.waits
            assert (wait.kind, wait.turn_id) == ("deps", "t")
            assert fresh.runs == []
            result = await rt.session("s").run("Go.", turn_id="t", deps=Shop("second"))
            assert await rt.waits() == ()
        desk.gate.set()

    assert result.text == "Done."
    assert [shop.name for shop in fresh.runs] == ["second"]
    assert len(model.requests) == 2


async def test_a_rerun_script_brings_its_deps_along(stage: Stage) -> None:
    """The same program, killed and started again, without a turn_id: it just goes on."""
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(clerk(desk, model)) as lost:
        await lost.session("s").submit("Go.", deps=Shop("first"))
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(clerk(fresh, model)) as rt:
            result = await rt.session("s").run("Go.", deps=Shop("second"))
        desk.gate.set()

    assert result.text == "Done."
    assert [shop.name for shop in fresh.runs] == ["second"]


async def test_deps_that_are_still_here_are_used_when_a_parked_turn_goes_on(
    stage: Stage,
) -> None:
    @tool(effect="once", approval="ask")
    async def pay(ctx: ToolContext[Shop]) -> str:
        """Pay."""
        return ctx.deps.name

    model = ScriptedModel([call("pay"), say("Done.")])
    agent = Agent("clerk", model=model, tools=[pay], deps_type=Shop)
    async with stage.runtime(agent) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t", deps=Shop("mine"))
        await rt.approve(parked.waits[0].key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert [one.text for one in last_told(model)] == ["mine"]


@pytest.mark.parametrize("when", ["made", "opened", "closed"])
async def test_deps_that_cannot_be_had_do_not_wedge_the_session(stage: Stage, when: str) -> None:
    broken = [True]

    @asynccontextmanager
    async def opened(info: TurnInfo) -> AsyncIterator[Shop]:
        if broken[0] and when == "opened":
            raise RuntimeError("no shop")
        yield Shop("x")
        if broken[0] and when == "closed":
            raise RuntimeError("no way out")

    def factory(info: TurnInfo) -> object:
        if broken[0] and when == "made":
            raise RuntimeError("no shop")
        return opened(info)

    async with stage.runtime(clerk(Desk(), script()), deps=factory) as rt:
        await _try(rt)
        assert (await rt.status()).driving == ()
    broken[0] = False
    async with stage.runtime(clerk(Desk(), script()), deps=factory) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert result.text == "Done." or isinstance(result.outcome, Stopped)


async def _try(rt: Runtime[Any]) -> None:
    try:
        await rt.session("s").run("Go.", turn_id="t")
    except WindlassError:
        return


# ------------------------------------------------------------------------- deps of the wrong type


class Sells(Protocol):
    name: str


@pytest.mark.parametrize("how", ["run", "submit", "agent"])
async def test_deps_of_another_type_are_refused_before_anything_is_bought(
    stage: Stage, how: str
) -> None:
    desk, model = Desk(), script()
    agent = clerk(desk, model)
    given: Any = 3
    async with stage.runtime(agent) as rt:
        turn: dict[str, Callable[..., Any]] = {
            "agent": agent.run, "run": rt.session("s").run, "submit": rt.session("s").submit,
        }  # fmt: skip
        with pytest.raises(ConfigError) as refused:
            await turn[how]("Go.", turn_id="t", deps=given)
        assert await rt.sessions() == ()

    assert str(refused.value) == "deps: found int, wanted Shop, the deps_type of clerk"
    assert model.requests == []


async def test_a_factory_that_makes_something_else_is_told_before_anything_is_bought(
    stage: Stage,
) -> None:
    desk, model = Desk(), script()
    wrong: Any = lambda info: "a shop"  # noqa: E731 - wrong on purpose
    async with stage.runtime(clerk(desk, model), deps=wrong) as rt:
        with pytest.raises(
            ConfigError, match=r"Runtime\.deps: found str, wanted Shop, the deps_type"
        ):
            await rt.session("s").run("Go.", turn_id="t")

    assert model.requests == []


@pytest.mark.parametrize("kind", [Sells, list[Shop], Shop | None])
async def test_what_no_object_can_be_asked_about_is_taken_as_it_is(
    memory_stage: Stage,
    kind: Any,  # noqa: ANN401 - any hint
) -> None:
    @tool
    async def ask(ctx: ToolContext[Any]) -> str:
        """Ask the shop."""
        return str(ctx.deps)

    agent: Agent[Any, str] = Agent("clerk", model=script(), tools=[ask], deps_type=kind)
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", deps="anything")

    assert result.tool_calls[0].outcome.value == "anything"


async def test_each_agent_may_have_a_factory_of_its_own(stage: Stage) -> None:
    @tool
    async def count(ctx: ToolContext[int]) -> str:
        """Count."""
        return f"{ctx.deps + 1}"

    counter = Agent(
        "counter",
        model=ScriptedModel([call("count"), say("Counted.")]),
        tools=[count],
        deps_type=int,
    )
    agents = (clerk(Desk(), script()), counter, Agent("plain", model=ScriptedModel([say("Hi.")])))
    factories = {"clerk": lambda info: Shop("Ann's"), "counter": lambda info: 41}
    async with stage.runtime(*agents, deps=factories) as rt:
        asked = await rt.session("a", "clerk").run("Go.")
        counted = await rt.session("b", "counter").run("Go.")
        plain = await rt.session("c", "plain").run("Go.")

    assert asked.tool_calls[0].outcome.value == "here is Ann's"
    assert counted.tool_calls[0].outcome.value == "42"
    assert plain.text == "Hi."


@pytest.mark.parametrize(
    ("deps", "told"),
    [
        (5, "Runtime.deps: wanted a function of the turn, or one for each agent's name"),
        ({"clrek": Shop}, "Runtime.deps['clrek']: wanted the name of an agent or a process: clerk"),
        ({"clerk": 5}, "Runtime.deps['clerk']: wanted a function of the turn"),
    ],
)
async def test_factories_that_fit_no_agent_are_refused(
    memory_stage: Stage, deps: object, told: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        memory_stage.runtime(clerk(Desk(), script()), deps=deps)

    assert str(refused.value) == told


async def test_an_agent_without_a_factory_among_others_is_asked_for_its_deps(
    memory_stage: Stage,
) -> None:
    other = Agent("other", model=script(), deps_type=Shop)
    deps = {"other": lambda info: Shop("Ann's")}
    async with memory_stage.runtime(clerk(Desk(), script()), other, deps=deps) as rt:
        with pytest.raises(ConfigError, match="deps: clerk needs deps"):
            await rt.session("s", "clerk").run("Go.")
