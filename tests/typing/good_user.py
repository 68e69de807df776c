"""A program as a user writes it: two type checkers in their strict modes accept all of it.

Length: it is one program, so that each part is checked with what the others make of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

from pydantic import BaseModel

from windlass import (
    Agent,
    Allow,
    Approve,
    Ask,
    Attachment,
    BatchItem,
    Child,
    ChildView,
    Deny,
    Done,
    EndTurn,
    Finished,
    Generation,
    Limits,
    NotDone,
    Pending,
    ProcessContext,
    ProcessHandle,
    ProcessStatus,
    Runtime,
    Session,
    Stopped,
    Text,
    ToolContext,
    ToolError,
    TurnHandle,
    TurnInfo,
    TurnResult,
    Unknown,
    Wait,
    errors,
    events,
    process,
    tool,
)
from windlass.plugins import (
    AskedCall,
    AtCheckpoint,
    Contribution,
    Delivery,
    Plugin,
    PluginTurn,
    Proceed,
    Stop,
    append,
)
from windlass.plugins import Deny as Denied
from windlass.plugins import add as add_to
from windlass.ports.policy import PolicyCall, PolicySession, Ruling
from windlass.testing import FunctionModel, ScriptedModel, call, say


@dataclass
class Shop:
    """What the tools work with."""

    name: str
    orders: dict[str, int]

    async def refund(self, order_id: str, cents: int, *, key: str) -> str:
        return f"{self.name} {order_id} {cents} {key}"


@dataclass
class Answer:
    """What comes out, as a dataclass."""

    text: str
    sure: bool = False


class Report(BaseModel):
    """What comes out, as a pydantic model."""

    title: str
    lines: list[str]


# --- tools: with and without ctx, sync and async ---------------------------------------------------


@tool
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@tool(effect="pure")
async def look_up(term: str) -> list[str]:
    """Look something up."""
    return [term]


@tool(effect="keyed", approval="ask", risk="high", timeout=30, retries=2)
async def refund(ctx: ToolContext[Shop], order_id: str, cents: int) -> str:
    """Refund an order."""
    if order_id not in ctx.deps.orders:
        raise ToolError("no such order", not_started=True)
    ctx.progress({"order": order_id})
    return await ctx.deps.refund(order_id, cents, key=ctx.idempotency_key)


@tool(sequential=True, output_limit=1_000, expose="hidden")
def count(ctx: ToolContext[Shop]) -> int:
    """Count the orders."""
    return 0 if ctx.cancelled else len(ctx.deps.orders)


async def find_out(ctx: ToolContext[Shop], args: Mapping[str, Any]) -> Done | NotDone | Unknown:
    if args["order_id"] in ctx.deps.orders:
        return Done("shipped")
    return NotDone() if ctx.attempt == 1 else Unknown()


@tool(reconcile=find_out, approval=lambda args: bool(args["order_id"]))
async def ship(ctx: ToolContext[Shop], order_id: str) -> Pending:
    """Ship an order; somebody says later that it has arrived."""
    return await ctx.defer(deadline=3_600)


@tool
def finish(value: str) -> EndTurn:
    """End the turn."""
    return EndTurn(value=value)


@tool(effect="pure")
def progress(ctx: ToolContext[Any], percent: int) -> str:
    """Work with any deps."""
    ctx.progress({"percent": percent})
    return "noted"


@tool
async def note(ctx: ToolContext[object], text: str) -> str:
    """Work with any deps, and look at none."""
    return f"{ctx.call_id} {text}"


@dataclass
class Branch(Shop):
    """A shop that is more."""

    town: str = ""


def plain(text: str) -> str:
    return text


class Careful:
    """A policy."""

    version = "1"

    async def decide(self, call: PolicyCall, session: PolicySession) -> Ruling:
        if call.name == "refund" and session.context.get("guest"):
            return Deny(reason="guests get no refunds")
        return Ask(title="Sure?", risk="high") if call.risk == "high" else Allow()


def instructions(info: TurnInfo) -> str:
    return f"You work for {info.session_id}."


async def instructions_for(info: TurnInfo, shop: Shop) -> str:
    return f"{info.turn_id}: you work for {shop.name}."


class Tally(Plugin):
    """A plugin."""

    name = "tally"

    async def prompt(self, turn: PluginTurn) -> list[Contribution]:
        return [
            Contribution(f"Call {turn.state.get('calls', 0)}.", slot="context", gate=("refund",))
        ]

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> Denied | Proceed | None:
        turn.patch(calls=add_to(1), last=append(call.name, keep=3))
        return Denied(reason="no") if call.ordinal > call.of else Proceed()

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Delivery | Stop | None:
        if at.kind == "before_completion" and at.outcome is not None:
            return Delivery(transient=["Are you sure?"])
        return Stop("enough") if len(at.results) > 5 else None


# --- agents ----------------------------------------------------------------------------------------

MODEL = ScriptedModel([say("hi"), call("add", a=1, b=2)])
plainest = Agent("plainest", model="demo")
support = Agent(
    "support",
    model=MODEL,
    deps_type=Shop,
    instructions=instructions_for,
    tools=[add, look_up, refund, count, ship, finish, progress, note, tool(plain, name="echo")],
    policy=Careful(),
    limits=Limits(max_iterations=10, tool_timeout=5),
    generation=Generation(temperature=0.2, stop=("END",)),
    aliases=["help"],
    plugins=[Tally()],
    steering="one",
)
answering = Agent(
    "answering", model=FunctionModel(lambda request: request.model), output_type=Answer
)
reporting = Agent(
    "reporting", model="demo", deps_type=Shop, output_type=Report, instructions=instructions
)
# What works with a shop works with a branch of it; what works with anything works with nothing.
in_town = Agent("in_town", model="demo", deps_type=Branch, tools=[refund, note, add])
without_deps = Agent("without_deps", model="demo", tools=[add, progress, note])
assert_type(in_town, Agent[Branch, str])
assert_type(plainest, Agent[None, str])
assert_type(support, Agent[Shop, str])
assert_type(answering, Agent[None, Answer])
assert_type(reporting, Agent[Shop, Report])


@asynccontextmanager
async def open_shop(info: TurnInfo) -> AsyncIterator[Shop]:
    yield Shop(name=info.agent, orders={})


def make_shop(info: TurnInfo) -> Shop:
    return Shop(name=info.agent, orders={})


async def make_branch(info: TurnInfo) -> Branch:
    return Branch(name=info.agent, orders={}, town="Delft")


async def approve_small(wait: Wait) -> bool:
    return wait.kind == "approval" and wait.detail["args"]["cents"] < 100


def approve_more(wait: Wait) -> bool | Approve | Deny:
    if wait.detail.get("may_have_acted"):
        return Deny(reason="check first")
    cents = wait.detail["args"]["cents"]
    return cents < 10 or Approve(edit={"cents": 10}, remember="runtime", by="eva")


# --- running ---------------------------------------------------------------------------------------


async def converse() -> str:
    async with Runtime(support, store="sqlite:///support.db", deps=open_shop) as rt:
        session = rt.session("customer-42")
        assert_type(session, Session[str])
        picture = Attachment.from_bytes(b"...", media_type="image/png", name="parcel.png")
        result = await session.run(
            ["My parcel never came.", Text(text="See the picture."), picture],
            turn_id="mail-981",
            context={"guest": False, "tags": ["parcel"]},
            limits=Limits(max_tokens=10_000),
        )
        assert_type(result, TurnResult[str])
        if result.parked:
            await rt.approve(result.waits[0].key, by="eva", remember="session")
            await rt.deny(result.waits[0].key, reason="no")
            await rt.resolve(result.waits[0].key, {"arrived": True})
            result = await rt.turn("customer-42", "mail-981").result(timeout=10)
        match result.outcome:
            case Finished(text=text):
                return text
            case Stopped(reason=reason, detail=detail):
                return f"{reason}: {detail}"
            case _:
                return result.safe_text


def runtimes() -> None:
    """A runtime of one agent knows what comes out; one of several knows when it is told which."""
    assert_type(Runtime(answering, store="memory:"), Runtime[Answer])
    assert_type(Runtime(plainest, support, store="memory:"), Runtime[str])
    assert_type(Runtime(store="memory:"), Runtime[Any])
    assert_type(Runtime(plainest, store="memory:", approve=approve_more), Runtime[str])
    assert_type(Runtime(support, store="memory:", deps=make_shop), Runtime[str])
    assert_type(Runtime(support, store="memory:", deps=make_branch), Runtime[str])
    assert_type(Runtime(in_town, store="memory:", deps=make_branch), Runtime[str])
    assert_type(Runtime(support, store="memory:", deps={"support": make_shop}), Runtime[str])
    by_agent = {"support": make_shop, "in_town": make_branch}
    assert_type(Runtime(support, in_town, store=Path("shops.db"), deps=by_agent), Runtime[str])
    assert_type(Runtime(support, plainest, store="memory:", deps=make_shop), Runtime[str])


def of_many(agents: list[Agent[Any, Any]]) -> Runtime[Any]:
    return Runtime(*agents, store="memory:", deps=make_shop)


async def batches(rt: Runtime[str]) -> list[str]:
    items = await rt.map(["one", ("ada", "two"), ("eva", ["three"], "m1")], concurrency=4)
    async for item in rt.map((f"mail {n}" for n in range(9)), progress=True, batch="mails"):
        assert_type(item, BatchItem[str])
    typed = await rt.map(["one"], output_type=Answer, through_parks=["provider"])
    assert_type(typed, list[BatchItem[Answer]])
    await rt.session("ada").wait(timeout=5)
    await rt.turn("ada", "map").result(through_parks=True)
    return [item.output for item in items if not item.failed]


async def typed_outputs() -> tuple[Answer, Report, bool]:
    async with Runtime(answering, reporting, store="memory:", deps=make_shop, max_turns=4) as rt:
        asked = await rt.session("a", answering).run("What is it?")
        assert_type(asked, TurnResult[Answer])
        reported = await rt.session("b", reporting).run("Report.")
        assert_type(reported.output, Report)
        once = await rt.session("a", answering).run("And in words?", output_type=Report)
        assert_type(once.output_or_none, Report | None)
        handle = await rt.session("a", answering).submit("Later.", turn_id="later")
        assert_type(handle, TurnHandle[Answer])
        other = await rt.session("a", answering).submit("Differently.", output_type=Report)
        assert_type(other, TurnHandle[Report])
        sure: bool = (await handle.result()).output.sure
        return asked.output, reported.output, sure


async def watch(session: Session[Answer]) -> list[str]:
    seen: list[str] = []
    async with session.stream("Tell me.", turn_id="t") as turn:
        async for event in turn:
            match event:
                case events.TextDelta(text=text) | events.ReasoningDelta(text=text):
                    seen.append(text)
                case events.ToolStarted(name=name, args=args):
                    seen.append(f"{name}{sorted(args)}")
                case events.WaitOpened(key=key, kind=kind):
                    seen.append(f"{kind} {key}")
                case events.TurnEnded(outcome=outcome):
                    seen.append(type(outcome).__name__)
                case _:
                    pass
        result = await turn.result()
    assert_type(result.output, Answer)
    async with session.stream("Once more.", output_type=Report) as reporting_turn:
        assert_type((await reporting_turn.result()).output, Report)
    async with session.observe() as observed:
        seen += [message.role for message in observed.committed]
    return seen


log: list[str] = []


def show(event: events.Event) -> None:
    if isinstance(event, events.TextDelta):
        log.append(event.text)


async def forward(event: events.Event) -> None:
    show(event)


async def handle(session: Session[Answer]) -> tuple[events.Event, ...]:
    seen: list[events.Event] = []
    assert_type(await session.run("Tell me.", on_event=show), TurnResult[Answer])
    await session.run("Tell me.", turn_id="t", on_event=forward)
    await session.run("Tell me.", on_event=seen.append)
    await session.run("Tell me.", on_event=None)
    await plainest.run("Hello?", on_event=forward)
    plainest.run_sync("Hello?", on_event=lambda event: log.append(event.id))
    shown, result = await session.collect("Tell me.", turn_id="t")
    assert_type(result, TurnResult[Answer])
    assert_type((await session.collect("Report.", output_type=Report)).result.output, Report)
    return shown


async def manage() -> int:
    async with Runtime(store="sqlite:///support.db") as rt:
        waits = await rt.waits("approval")
        for wait in waits:
            receipt = await rt.approve(wait.key, edit={"cents": 5})
            assert receipt.status in ("accepted", "already")
        cancelled = await rt.cancel("customer-42", "mail-981", "enough")
        total = await rt.usage()
        return total.total_tokens + len(await rt.sessions()) + len(cancelled.status)


async def by_hand() -> int:
    """Call tools as the functions that they are."""
    shop = Shop(name="corner", orders={"o1": 5})
    said: str = await refund(ToolContext(deps=shop), "o1", 5)
    found: list[str] = await look_up("x")
    return add(1) + add(1, b=3) + count(ToolContext(deps=shop)) + len(said) + len(found)


async def at_once() -> str:
    result = await plainest.run("Hello?")
    try:
        return result.output.upper()
    except errors.NoOutput as error:
        return str(error.field)


def blocking() -> Answer:
    with_approval = support.run_sync("Refund it.", deps=Shop("corner", {}), approve=approve_small)
    assert_type(support.run_sync("Refund it.", deps=Branch("corner", {})), TurnResult[str])
    assert_type(with_approval, TurnResult[str])
    assert_type(answering.run_sync("What is it?", output_type=Report).output, Report)
    rt = Runtime(answering, store="sqlite:///answers.db")
    assert_type(rt.run_sync("s", "What is it?", output_type=Report).output, Report)
    durable = rt.run_sync("s", "What is it?")
    assert_type(durable, TurnResult[Answer])
    return answering.run_sync("What is it?").output


# --- processes -------------------------------------------------------------------------------------


@process
async def restock(ctx: ProcessContext[None], item: str, n: int = 1) -> int:
    """Order more of something."""
    await ctx.step(plain, item, effect="idempotent", retries=2)
    return n


@process(name="deliver", signals={"arrived": Answer}, deps_type=Shop)
async def deliver(ctx: ProcessContext[Shop], order_id: str) -> Answer:
    """Wait until an order has arrived."""
    await ctx.sleep(days=3)
    came = await ctx.wait("arrived", payload_type=Answer, timeout=60)
    late = await ctx.wait("arrived", payload_type=Answer, timeout=60, default=None)
    assert_type(came, Answer)
    assert_type(late, Answer | None)
    started = await ctx.start(restock, item=ctx.deps.name)
    await ctx.signal(started, "go", {"at": (await ctx.now()).isoformat()})
    await ctx.wake("chat", "It has arrived.", event="arrived")
    await ctx.emit("arrived", order_id)
    if await ctx.version("v2") and await ctx.cancel_process(started.id):
        ctx.continue_as(order_id=order_id)
    return came


@tool
async def order(ctx: ToolContext[Any], item: str) -> str:
    """Begin a process from a tool."""
    return (await ctx.start(restock, item=item)).id


async def background() -> Answer:
    async with Runtime(
        processes=[restock, deliver], deps={"deliver": lambda _: Shop("a", {})}
    ) as rt:
        handle = await rt.processes.start(deliver, id="d-1", session="chat", order_id="o1")
        assert_type(handle, ProcessHandle[Answer])
        assert_type(await (await rt.processes.start(restock, item="tea")).result(timeout=5), int)
        receipt = await handle.signal("arrived", Answer("yes"), key="evt-1", by="courier")
        assert receipt.status in ("accepted", "known")
        async for event in handle.events():
            if isinstance(event, events.ProcessEvent):
                assert event.name
        status: ProcessStatus = await rt.processes.get("d-1").status()
        by_name = await rt.processes.start("restock", args={"item": status.id})
        await by_name.cancel("enough")
        return await handle.result()


# --- subagents -------------------------------------------------------------------------------------


helper = Agent("helper", model="demo", output_type=Answer)


@tool(effect="keyed")
async def dig(ctx: ToolContext[Any], place: str) -> str:
    """Begin a child from a tool."""
    child = await ctx.spawn(helper, place, name="digger")
    assert_type(child, Child)
    await ctx.send(child, "Deeper.")
    await ctx.send("digger", "Deeper still.")
    assert_type(await ctx.stop(child), bool)
    return ", ".join(one.name for one in await ctx.children())


async def subagents() -> tuple[ChildView, ...]:
    shopkeeper = Agent(
        "shopkeeper",
        model="demo",
        deps_type=Shop,
        tools=[
            dig,
            helper.as_tool(input_type=Report, limits=Limits(max_tokens=5_000)),
            helper.as_tool(name="later", background=True, approval="ask"),
            helper.as_tool(name="kept", keep=True),
        ],
        limits=Limits(max_depth=2, max_children=8),
    )
    async with Runtime(shopkeeper, deps=lambda _: Shop("a", {})) as rt:
        session = rt.session("s")
        result = await session.run("Go")
        assert result.child_usage.total_tokens <= (await session.usage(tree=True)).total_tokens
        return await session.children(deep=True)
