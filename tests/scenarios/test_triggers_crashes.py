"""Triggers and schedules, killed at every write: each event is delivered once, and each tick runs once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import STORES, until
from windlass import Agent, ProcessContext, Runtime, Source, Tick, on, process, schedule, tool
from windlass.errors import InvalidInput
from windlass.ports import Wait
from windlass.ports.tool import ToolContext
from windlass.testing import Scenario, ScriptedModel, call, kill_everywhere, say
from windlass.testing.crashing.kill_everywhere import CrashFound, StoreKind

HOUR_MS = 3_600_000
# The clock of a scenario begins at 2023-11-14T22:13:20Z.
FIRST_HOUR_MS = 1_700_002_800_000


def events() -> Scenario:
    """Return two events, two subscribers, and an order."""
    orders = Source("orders", order_by="customer")
    handled: Counter[str] = Counter()

    @on(orders)
    async def bill(ctx: ProcessContext[Any], event: dict[str, str]) -> None:
        await ctx.step(handled.update, [f"bill {event['id']}"], effect="idempotent")

    @on(orders, where=lambda event: event["id"] == "o2")
    async def praise(ctx: ProcessContext[Any], event: dict[str, str]) -> None:
        await ctx.step(handled.update, [f"praise {event['id']}"], effect="idempotent")

    async def run(rt: Runtime[Any]) -> list[str]:
        receipts = [
            await rt.emit("orders", {"id": id, "customer": "ann"}, key=id) for id in ("o1", "o2")
        ]
        return [one.id for one in receipts]

    def check(ids: list[str]) -> bool:
        return len(set(ids)) == 2 and set(handled) == {"bill o1", "bill o2", "praise o2"}

    return Scenario(agents=tuple, run=run, check=check, settings={"triggers": [bill, praise]})


def raised_by_a_tool() -> Scenario:
    """Return a tool that raises a trigger whose subscriber raises another."""
    orders, shipped = Source("orders"), Source("shipped")
    handled: Counter[str] = Counter()

    @tool(effect="idempotent")
    async def place(ctx: ToolContext[Any]) -> str:
        """Place an order."""
        return await ctx.emit_trigger(orders, {"id": "o1"})

    @on(orders)
    async def ship(ctx: ProcessContext[Any], event: dict[str, str]) -> None:
        await ctx.emit_trigger(shipped, event)

    @on(shipped)
    async def tell(ctx: ProcessContext[Any], event: dict[str, str]) -> None:
        await ctx.step(handled.update, [event["id"]], effect="idempotent")

    async def run(rt: Runtime[Any]) -> int:
        await rt.session("s").run("Go.", turn_id="t")
        return 1

    def check(_: object) -> bool:
        return set(handled) == {"o1"}

    def agents() -> Agent[None, str]:
        model = ScriptedModel([call("place"), say("Done.")])
        return Agent("clerk", model=model, tools=[place])

    return Scenario(agents=agents, run=run, check=check, settings={"triggers": [ship, tell]})


async def is_over(rt: Runtime[Any], wait: Wait) -> None:
    """Wait until the tick that was replaced has ended."""

    async def is_closed() -> bool:
        return all(one.key != wait.key for one in await rt.waits())

    await until(is_closed, within_s=HANGS_S)


def ticks() -> Scenario:
    """Return three ticks, a pause after the second, and one that a process has."""
    ran: Counter[int] = Counter()

    @schedule(every=timedelta(hours=1))
    async def digest(ctx: Tick[Any]) -> None:
        await ctx.step(ran.update, [int(ctx.due.timestamp()) * 1000], effect="idempotent")

    async def run(rt: Runtime[Any]) -> int:
        return len(await rt.schedules.list())

    async def answer(rt: Runtime[Any], wait: Wait) -> None:
        if len(ran) >= 2 and wait.kind == "timer":
            await rt.schedules.pause("digest")
            await is_over(rt, wait)

    def check(_: object) -> bool:
        return set(ran) == {FIRST_HOUR_MS, FIRST_HOUR_MS + HOUR_MS}

    return Scenario(
        agents=tuple, run=run, answer=answer, check=check, settings={"schedules": [digest]}
    )


def added() -> Scenario:
    """Return a schedule that is added, changed and removed while it ticks."""
    ran: Counter[str] = Counter()

    @process
    async def report(ctx: ProcessContext[Any], customer: str) -> None:
        await ctx.step(ran.update, [customer], effect="idempotent")

    async def run(rt: Runtime[Any]) -> int:
        if not ran:
            await rt.schedules.add("cust", "@hourly", target=report, customer="ann")
        return 1

    async def answer(rt: Runtime[Any], wait: Wait) -> None:
        schedules = rt.schedules
        (view,) = await schedules.list()
        if "bob" in ran:
            await schedules.remove("cust")
            await is_over(rt, wait)
        elif "ann" in ran and view.every is None:
            every = timedelta(minutes=30)
            await schedules.add("cust", every=every, target=report, customer="bob")
            await is_over(rt, wait)

    def check(_: object) -> bool:
        return set(ran) == {"ann", "bob"}

    return Scenario(agents=tuple, run=run, answer=answer, check=check, processes=lambda: [report])


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("make", [events, raised_by_a_tool, ticks, added])
async def test_a_crash_at_any_write_changes_nothing(
    make: Callable[[], Scenario], store: StoreKind
) -> None:
    report = await kill_everywhere(make, store=store, timeout=HANGS_S)

    assert len(report.points) > 10
    assert not report.unknown


async def test_a_subscriber_that_acts_beside_its_steps_is_found_out() -> None:
    """The gate is red for a delivery that counts what it does outside of its steps."""

    def careless() -> Scenario:
        orders, handled = Source("orders"), list[str]()

        @on(orders)
        async def bill(ctx: ProcessContext[Any], event: dict[str, str]) -> None:
            handled.append(event["id"])
            await ctx.sleep(60)

        async def run(rt: Runtime[Any]) -> int:
            await rt.emit(orders, {"id": "o1"}, key="o1")
            return 1

        def check(_: object) -> bool:
            return len(handled) <= 2

        return Scenario(agents=tuple, run=run, check=check, settings={"triggers": [bill]})

    with pytest.raises(CrashFound):
        await kill_everywhere(careless)


async def test_a_schedule_that_is_not_there_is_said_not_to_be_after_a_crash_too() -> None:
    """A name that was refused left nothing behind."""

    def refused() -> Scenario:
        async def run(rt: Runtime[Any]) -> int:
            with pytest.raises(InvalidInput):
                await rt.schedules.pause("nobody")
            return len(await rt.schedules.list())

        return Scenario(agents=tuple, run=run, check=lambda found: found == 0)

    await kill_everywhere(refused, timeout=HANGS_S)
