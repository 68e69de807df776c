# mypy: ignore-errors
# ruff: noqa: B018, F841, PGH, RUF, SIM, ANN, A, D, PLR, B015
"""What a user may get wrong. Each marked line is reported by two type checkers, and no other line is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from windlass import (
    Agent,
    Approve,
    Limits,
    ProcessContext,
    Runtime,
    Session,
    ToolContext,
    TurnInfo,
    TurnResult,
    process,
    tool,
)
from windlass.plugins import Plugin, PluginTurn, Stop


@dataclass
class Shop:
    name: str


@dataclass
class Answer:
    text: str


@tool
def add(a: int, b: int = 2) -> int:
    return a + b


@tool(effect="keyed")
async def refund(ctx: ToolContext[Shop], cents: int) -> str:
    ctx.deps.nane  # error: no such attribute of the deps
    ctx.idempotency  # error: no such attribute of the context
    await ctx.complete("hello")  # error: a model is asked with a request
    ctx.defer(deadline="soon")  # error: a deadline is a number
    return ctx.deps.name


@tool(effect="keyed")
async def wrong_result(ctx: ToolContext[Shop], cents: int) -> int:
    return ctx.deps.name  # error: not what the tool says it returns


@dataclass
class Other:
    size: int


@tool(effect="pure")
async def of_other(ctx: ToolContext[Other]) -> int:
    return ctx.deps.size


@tool
def of_anything(ctx: ToolContext[object]) -> str:
    return ctx.call_id


@tool
def plainly_of_other(ctx: ToolContext[Other], times: int = 2) -> int:
    return ctx.deps.size * times


def make_other(info: TurnInfo) -> Other:
    return Other(size=len(info.agent))


async def make_other_later(info: TurnInfo) -> Other:
    return Other(size=1)


@asynccontextmanager
async def open_other(info: TurnInfo) -> AsyncIterator[Other]:
    yield Other(size=1)


tool(add, effect="twice")  # error: no such effect
tool(add, approval="sometimes")  # error: no such approval
tool(add, risk="enormous")  # error: no such risk
tool(add, timeout="5 s")  # error: a timeout is a number
tool(add, colour="red")  # error: no such option
tool(effect=1)  # error: an effect is one of some words

Agent("a")  # error: a model is missing
Agent(model="demo")  # error: a name is missing
Agent("a", model=5)  # error: no model
Agent("a", model="demo", tools=[len])  # error: a function is no tool
Agent("a", model="demo", tools=add)  # error: a tool is no list of tools
Agent("a", model="demo", colour="red")  # error: no such setting
Agent("a", model="demo", mode="standard")  # error: no such setting
Agent("a", model="demo", limits=5)  # error: no limits
Agent("a", model="demo", instructions=5)  # error: no instructions
Agent("a", model="demo", policy=len)  # error: no policy
Agent("a", model="demo", steering="two")  # error: no such way to steer
Agent("a", model="demo", plugins=[add])  # error: a tool is no plugin
Agent("a", model="demo", plugins=Plugin())  # error: a plugin is no list of plugins
Limits(max_token=5)  # error: no such limit
Limits(max_tokens="5")  # error: a limit is a number

plainest = Agent("plainest", model="demo")
support = Agent("support", model="demo", deps_type=Shop, tools=[add, refund])
answering = Agent("answering", model="demo", output_type=Answer)
wrong_deps: Agent[int, str] = support  # error: another kind of deps
wrong_output: Agent[None, str] = answering  # error: another kind of output

Agent("a", model="demo", deps_type=Shop, tools=[add, of_other])  # error: a tool for other deps
Agent("a", model="demo", deps_type=Shop, tools=[plainly_of_other])  # error: a tool for other deps
Agent("a", model="demo", deps_type=Shop, output_type=int, tools=[of_other])  # error: other deps
Agent("a", model="demo", deps_type=Shop, tools=[of_anything, of_other])  # error: other deps
Agent("a", model="demo", tools=[refund])  # error: a tool that needs deps, and the agent has none
Runtime(support, deps=make_other)  # error: a factory of other deps
Runtime(support, deps=make_other_later)  # error: a factory of other deps
Runtime(support, deps=open_other)  # error: a factory of other deps
Runtime(support, deps={"support": make_other})  # error: a factory of other deps

Runtime("support")  # error: a name is no agent
Runtime(support, store=5)  # error: no store
Runtime(support, engine="restate")  # error: no engine
Runtime(support, durability="maybe")  # error: no such durability
Runtime(support, on_mismatch="ignore")  # error: no such rule
Runtime(support, max_turns="many")  # error: a number is wanted
Runtime(support, deps=5)  # error: no factory
Runtime(support, approve=5)  # error: nobody who approves
Runtime(support, approve=lambda wait: "yes")  # error: no answer
Approve(remember="always")  # error: no such memory
Approve(edit=[1])  # error: arguments are an object
Runtime(support, colour="red")  # error: no such setting


async def by_hand() -> None:
    add("1")  # error: text is no number
    add()  # error: an argument is missing
    add(1, c=2)  # error: no such argument
    await refund(ToolContext(deps=5), 5)  # error: other deps
    await refund(5)  # error: the context is missing
    words: str = add(1)  # error: a number is no text
    amount: int = await refund(ToolContext(deps=Shop("x")), 5)  # error: text is no number


async def run(session: Session[Answer]) -> None:
    result = await session.run("x")
    number: int = result.output  # error: the output is an Answer
    result.output.txt  # error: no such attribute of the output
    result.output_or_none.text  # error: there may be none
    text: TurnResult[str] = result  # error: it is of an Answer
    typed = await session.run("x", output_type=Shop)
    typed.output.text  # error: the output of this turn is a Shop
    await session.run(5)  # error: no input
    await session.run()  # error: no input at all
    await session.run("x", turn=5)  # error: no such option
    await session.run("x", turn_id=5)  # error: an id is text
    await session.run("x", limits=5)  # error: no limits
    await session.run("x", context=["a"])  # error: a context is an object
    session.run("x").output  # error: an await is missing
    await session.enqueue("x", when="later")  # error: no such time
    await session.submit("x", colour="red")  # error: no such option
    session.stream("x", colour="red")  # error: no such option
    async with session.stream("x") as turn:
        async for event in turn:
            event.text  # error: not every event has words
    handle = await session.submit("x")
    (await handle.result()).output.txt  # error: no such attribute of the output
    later = await session.submit("x", output_type=Shop)
    (await later.result()).output.text  # error: the output of this turn is a Shop
    handle.result(timeout="5")  # error: a timeout is a number


class WrongPlugin(Plugin):
    async def before_turn(self, turn: PluginTurn) -> Stop:  # error: no answer of this hook
        turn.stat  # error: no such attribute of the turn
        return Stop()


def count_events(events: list[str]) -> None: ...


def handle_nothing() -> None: ...


async def handle(session: Session[Answer]) -> None:
    await session.run("x", on_event=5)  # error: no function
    await session.run("x", on_event=count_events)  # error: a handler takes an event
    await session.run("x", on_event=handle_nothing)  # error: a handler takes one argument
    session.stream("x", on_event=print)  # error: a stream is read, not handled
    await session.submit("x", on_event=print)  # error: nobody waits for what is submitted
    await session.collect("x", on_event=print)  # error: the events are given back
    (await session.collect("x")).result.output.txt  # error: no such attribute of the output
    (await session.collect("x")).outcome  # error: the result has it
    plainest.run_sync("x", on_event="print")  # error: no function


async def answer(rt: Runtime[str]) -> None:
    await rt.approve("w", remember="always")  # error: no such memory
    await rt.approve("w", edit=[1])  # error: arguments are an object
    await rt.approve(5)  # error: a key is text
    await rt.approve("w", "eva")  # error: by name only
    await rt.deny("w", because="no")  # error: no such option
    await rt.reject("w")  # error: an error is wanted
    rt.session(5)  # error: an id is text
    await rt.map([5])  # error: no input
    rt.map(["x"], concurrency="8")  # error: a number is wanted
    rt.map(["x"], colour="red")  # error: no such option
    number: int = (await rt.map(["x"]))[0].output  # error: the output is text
    await rt.turn("s", "t").result(through_parks="yes")  # error: True, False or kinds
    await rt.session("s").wait("5")  # error: a timeout is a number
    rt.session("s", 5)  # error: no agent
    rt.waits()[0]  # error: an await is missing
    (await rt.waits())[0].keey  # error: no such attribute of a wait
    receipt = await rt.cancel("s", "t")
    receipt.status == "done" or receipt.state  # error: no such attribute of a receipt


async def at_once() -> None:
    await support.run("x", deps=Other(size=1))  # error: other deps
    await support.run("x", output_type=Answer, deps=3)  # error: other deps
    support.run_sync("x", deps=Other(size=1))  # error: other deps
    plainest.run_sync("x", deps=Shop("x"))  # error: the agent has no deps
    number: int = (await plainest.run("x")).output  # error: the output is text
    other: Answer = plainest.run_sync("x").output  # error: the output is text
    await plainest.run(5)  # error: no input
    await plainest.run("x", colour="red")  # error: no such option
    plainest.run_sync("x", turn_id=5)  # error: an id is text
    Runtime(plainest).run_sync("s", "x", colour="red")  # error: no such option
    Runtime(plainest).run_sync("s", 5)  # error: no input


@process
async def restock(ctx: ProcessContext[Shop], item: str) -> int:
    ctx.deps.nane  # error: no such attribute of the deps
    ctx.step  # right: an operation
    await ctx.step("work")  # error: a step calls a function
    await ctx.step(print, effect="twice")  # error: no such contract
    await ctx.sleep("long")  # error: a number is wanted
    other: int = await ctx.wait("paid", payload_type=Answer)  # error: the payload is an answer
    await ctx.emit(5)  # error: a name is text
    return 1


@process(recovery="never")  # error: no such recovery
async def unlucky(ctx: ProcessContext[None]) -> None: ...


async def background(rt: Runtime[str]) -> None:
    handle = await rt.processes.start(restock, item="tea")
    text: str = await handle.result()  # error: the value is a number
    await rt.processes.start(5)  # error: no process
    await handle.signal(5)  # error: a name is text
    (await handle.status()).stat  # error: no such attribute of a status
    await rt.processes.list(state="parked")  # error: no such state
    Runtime(processes=[print])  # error: no process


Agent("a", model="demo").as_tool(colour="red")  # error: no such option
Agent("a", model="demo").as_tool(limits=5)  # error: no limits
Agent("a", model="demo").as_tool(approval="sometimes")  # error: no such approval
Agent("a", model="demo", tools=[plainest])  # error: an agent is no tool before it is made one


async def subagents(session: Session[str], ctx: ToolContext[Shop]) -> None:
    (await session.children())[0].stat  # error: no such attribute of a child
    await session.usage(tree="yes")  # error: a flag
    await ctx.spawn("a", 5)  # error: text is wanted
    await ctx.send(5, "x")  # error: a child or its name
    (await ctx.spawn("a", "x")).text  # error: what was begun has no text yet
