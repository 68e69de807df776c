"""A representative set of turns, each played on a stage: what they do, who stops them, how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from tests.limits import HANGS_S
from tests.runtime.replays import Kept, kept
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.summing import Summing, talked
from tests.scenarios.workers import worker
from windlass import Agent, Allow, Ask, Deny, Limits, Pending, ToolContext, tool
from windlass.errors import Rejected
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text, Usage
from windlass.kernel.tool_call import EndTurn
from windlass.ports.policy import PolicyCall, PolicySession, Ruling
from windlass.ports.tool import Done, Tool
from windlass.testing import FunctionModel, ScriptedModel, call, calls, say

Play: TypeAlias = Callable[[Stage], Awaitable[Kept]]
PLAYS: dict[str, Play] = {}


def play(made: Play) -> Play:
    """Keep a play under its name."""
    PLAYS[made.__name__] = made
    return made


# ---------------------------------------------------------------------- tools


@tool(effect="pure")
async def look(at: str = "it") -> str:
    """Look."""
    return f"saw {at}"


@tool(effect="idempotent")
async def index() -> str:
    """Index."""
    return "indexed"


@tool(effect="keyed")
async def vault() -> str:
    """Lock."""
    return "locked"


@tool(effect="once")
async def send() -> str:
    """Send."""
    return "sent"


async def _was_moved(_ctx: object, _args: object) -> Done:
    return Done("moved")


@tool(effect="reconcile", reconcile=_was_moved)
async def transfer() -> str:
    """Transfer."""
    return "moved"


@tool(effect="once", approval="ask")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(effect="once")
async def order(ctx: ToolContext[None]) -> Pending:
    """Order."""
    return await ctx.defer()


@tool(effect="pure", expose="deferred")
async def convert(amount: int) -> str:
    """Convert money."""
    return f"{amount} EUR"


@tool(effect="pure", output_limit=64)
async def photo(ctx: ToolContext[None]) -> list[object]:
    """Take a photo."""
    return ["A photo." * 100, await ctx.attach(b"PNG", media_type="image/png", name="p.png")]


@tool(effect="pure")
async def stop() -> EndTurn:
    """Stop."""
    return EndTurn(value="That is all.")


@tool(effect="keyed")
async def consult(ctx: ToolContext[None]) -> str:
    """Ask another model."""
    said = ModelMessage(role="user", parts=(Text(text="Well?"),))
    return (await ctx.complete(ModelRequest(model="oracle", messages=(said,)))).text


TOOLS: list[Tool] = [look, index, vault, send, transfer, pay, order, photo, stop, consult]


def agent(*replies: ModelReply, **options: Any) -> Agent[None, Any]:
    """Return an agent that says this."""
    options.setdefault("tools", TOOLS)
    return Agent("a", model=ScriptedModel(list(replies), name="m"), **options)


async def one(stage: Stage, played: Agent[None, Any], **settings: Any) -> Kept:
    """Play a turn that comes to its end by itself."""
    oracle = FunctionModel(lambda _request: "42", name="oracle")
    async with stage.runtime(played, models=[oracle], **settings) as rt:
        await rt.session("s").run("Go.", turn_id="t")
        return await kept(rt)


# ---------------------------------------------------------------------- what a turn does


@play
async def words(stage: Stage) -> Kept:
    return await one(stage, agent(say("Done.")))


@play
async def every_contract(stage: Stage) -> Kept:
    names = ("look", "index", "vault", "send", "transfer")
    return await one(stage, agent(*(call(name) for name in names), say("Done.")))


@play
async def side_by_side(stage: Stage) -> Kept:
    both = calls(
        ("look", {"at": "a"}), ("send", {}), ("vault", {}), ("gone", {}), ("look", {"at": 7})
    )
    return await one(stage, agent(both, say("Done.")))


@play
async def files_and_cut_text(stage: Stage) -> Kept:
    return await one(stage, agent(call("photo"), say("Nice.")))


@play
async def ended_by_a_tool(stage: Stage) -> Kept:
    return await one(stage, agent(call("stop")))


@play
async def a_tools_own_model_call(stage: Stage) -> Kept:
    return await one(stage, agent(call("consult"), say("Done.")))


@play
async def tools_that_are_found(stage: Stage) -> Kept:
    replies = call("find_tools", query="money"), call("convert", amount=3), say("Done.")
    return await one(stage, agent(*replies, tools=[look, convert]))


class Shelf:
    """A provider whose tools change from look to look."""

    def __init__(self) -> None:
        self._lists: list[list[Tool]] = [[look], [look, index], [index]]

    def tools(self, context: object) -> list[Tool]:
        return self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]


@play
async def tools_of_a_provider(stage: Stage) -> Kept:
    replies = call("look"), call("index"), call("index"), say("Done.")
    return await one(stage, agent(*replies, tools=[send, Shelf()]))


@play
async def instructions_and_deps_that_are_made(stage: Stage) -> Kept:
    played = agent(call("look"), say("Done."), instructions=lambda info, deps: f"Use {deps}.")
    return await one(stage, played, deps=lambda info: "what is there")


@play
async def a_second_turn_with_its_own_settings(stage: Stage) -> Kept:
    played = agent(say("First."), call("look"), say("Done."), say("Later."))
    async with stage.runtime(played) as rt:
        session = rt.session("s")
        await session.run("Before.", turn_id="t0")
        await session.run("Go.", turn_id="t", prompt="Be brief.", limits=Limits(max_tool_calls=3))
        await session.run("After.", turn_id="t2")
        return await kept(rt)


@play
async def a_shape_on_the_second_try(stage: Stage) -> Kept:
    return await one(stage, agent(say("seven"), say("7"), output_type=int))


@play
async def a_shape_given_up(stage: Stage) -> Kept:
    return await one(stage, agent(say("a"), say("b"), say("c"), output_type=int))


@play
async def input_that_came_meanwhile(stage: Stage) -> Kept:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        await rt.session("s").enqueue("By the way.", key="note")
        desk.gate.set()
        await handle.result(timeout=HANGS_S)
        return await kept(rt)


@play
async def compaction(stage: Stage) -> Kept:
    async with stage.runtime(worker(Desk(), Summing().model)) as rt:
        await talked(rt.session("s"))
        await rt.session("s").compact()
        await rt.session("s").run("Three.", turn_id="t3")
        return await kept(rt, "compact-2")


@play
async def a_turn_in_the_second_frame(stage: Stage) -> Kept:
    async with stage.runtime(worker(Desk(), Summing().model)) as rt:
        await talked(rt.session("s"))
        await rt.session("s").compact()
        await rt.session("s").run("And work.", turn_id="t")
        return await kept(rt)


# ---------------------------------------------------------------------- who is asked


class Policy:
    """Denies to send, and has a person asked before anything is locked."""

    version = "1"

    def decide(self, asked: PolicyCall, _session: PolicySession) -> Ruling:
        if asked.name == "send":
            return Deny(reason="No.")
        return Ask(title="Lock?") if asked.name == "vault" else Allow()


@play
async def a_policy(stage: Stage) -> Kept:
    replies = call("look"), call("send"), call("vault"), say("Done.")
    async with stage.runtime(agent(*replies, policy=Policy())) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        await rt.approve(parked.waits[0].key, by="eva")
        await rt.turn("s", "t").result(timeout=HANGS_S)
        return await kept(rt)


@play
async def other_arguments_by_a_person(stage: Stage) -> Kept:
    both = calls(("pay", {"cents": 5}), ("look", {}))
    async with stage.runtime(agent(both, call("pay", cents=9), say("Done."))) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        await rt.approve(parked.waits[0].key, by="eva", edit={"cents": 4}, remember="session")
        await rt.turn("s", "t").result(timeout=HANGS_S)
        return await kept(rt)


@play
async def a_no_of_a_person(stage: Stage) -> Kept:
    async with stage.runtime(agent(call("pay", cents=5), say("Well."))) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        await rt.deny(parked.waits[0].key, reason="Too much.", by="eva")
        await rt.turn("s", "t").result(timeout=HANGS_S)
        return await kept(rt)


@play
async def a_result_from_outside(stage: Stage) -> Kept:
    async with stage.runtime(agent(calls(("order", {}), ("send", {})), say("Done."))) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        await rt.resolve(parked.waits[0].key, "a book")
        await rt.turn("s", "t").result(timeout=HANGS_S)
        return await kept(rt)


# ---------------------------------------------------------------------- who stops it


@play
async def cancelled_in_a_model_call(stage: Stage) -> Kept:
    asked = asyncio.Event()

    async def answer(request: ModelRequest) -> ModelReply:
        if len(request.messages) == 1:
            return call("look")
        asked.set()
        await asyncio.Event().wait()
        return say("Never.")

    async with stage.runtime(Agent("a", model=FunctionModel(answer), tools=TOOLS)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await asked.wait()
        await handle.cancel("enough")
        await handle.result(timeout=HANGS_S)
        return await kept(rt)


@play
async def cancelled_in_a_body(stage: Stage) -> Kept:
    desk = Desk(is_open=False)
    reply = calls(("look", {}), ("work", {"n": 1}), ("work", {"n": 2}))
    model = ScriptedModel([call("look"), reply])
    both = [look, *worker(desk, model).toolbox]
    async with stage.runtime(
        Agent("a", model=model, tools=both, limits=Limits(max_parallel=2))
    ) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        await handle.cancel("enough")
        await handle.result(timeout=HANGS_S)
        desk.gate.set()
        return await kept(rt)


@play
async def cancelled_while_it_waited(stage: Stage) -> Kept:
    async with stage.runtime(agent(calls(("pay", {"cents": 5}), ("send", {})))) as rt:
        await rt.session("s").run("Go.", turn_id="t")
        await rt.cancel("s", "t", "enough")
        await rt.turn("s", "t").result(timeout=HANGS_S)
        return await kept(rt)


@play
async def out_of_tokens(stage: Stage) -> Kept:
    costly = ModelReply(
        parts=call("look").parts, terminal="tool_use", usage=Usage(output_tokens=60)
    )
    return await one(stage, agent(costly, costly, limits=Limits(max_tokens=100)))


@play
async def out_of_calls(stage: Stage) -> Kept:
    both = calls(("look", {"at": "b"}), ("send", {}))
    return await one(stage, agent(call("look"), both, limits=Limits(max_tool_calls=2)))


@play
async def out_of_iterations(stage: Stage) -> Kept:
    return await one(stage, agent(*[call("look")] * 5, limits=Limits(max_iterations=3)))


@play
async def out_of_time(stage: Stage) -> Kept:
    async with stage.runtime(agent(call("pay", cents=5), limits=Limits(max_seconds=60))) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        stage.later(61, rt)
        await rt.approve(parked.waits[0].key)
        await rt.turn("s", "t").result(timeout=HANGS_S)
        return await kept(rt)


@play
async def refused_by_the_provider(stage: Stage) -> Kept:
    def answer(request: ModelRequest) -> ModelReply:
        if len(request.messages) == 1:
            return call("look")
        raise Rejected("no credit")

    return await one(stage, Agent("a", model=FunctionModel(answer), tools=TOOLS))


@play
async def cut_off(stage: Stage) -> Kept:
    return await one(stage, agent(ModelReply(text="So far", terminal="output_limit")))


@play
async def a_call_whose_worker_died(stage: Stage) -> Kept:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model, effect="once")) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(Desk(), model, effect="once")) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
            found = await kept(rt)
        desk.gate.set()
    return found
