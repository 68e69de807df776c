"""Triggers: an event is stored once and delivered to each subscriber that matches, whatever is running.

Length: one test for each thing that can happen to an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import DAY_S, Stage, until
from windlass import Agent, ProcessContext, Runtime, Source, on, tool
from windlass.api.trigger import Subscription
from windlass.errors import ConfigError, IdempotencyConflict, InvalidInput
from windlass.ports.tool import ToolContext
from windlass.testing import ScriptedModel, call, say

Ctx = ProcessContext[Any]


@dataclass
class Order:
    id: str
    total: int
    customer: str = "ann"


class World:
    """A source and its subscribers, and what they got."""

    def __init__(self, **options: Any) -> None:
        self.orders = Source("orders", Order, **options)
        self.got: list[tuple[str, str]] = []

    def subscriber(self, name: str, where: Callable[[Order], object] | None = None) -> Subscription:
        @on(self.orders, where=where, name=name)
        async def handle(ctx: Ctx, order: Order) -> None:
            await ctx.step(self.note, name, order.id)

        return handle

    def note(self, name: str, order_id: str) -> None:
        self.got.append((name, order_id))


async def delivered(rt: Runtime[Any]) -> None:
    """Wait until every event is delivered and handled."""

    async def is_done() -> bool:
        return all(not one.pending and not one.working for one in await rt.triggers.list())

    await until(is_done, within_s=HANGS_S)


# ---------------------------------------------------------------------- delivered


async def test_an_event_is_delivered_to_each_subscriber_that_matches(stage: Stage) -> None:
    world = World()
    large = world.subscriber("large", lambda order: order.total > 100)
    each = world.subscriber("each")
    async with stage.runtime(triggers=[large, each]) as rt:
        receipt = await rt.emit(world.orders, Order("o1", 50), key="evt-1")
        await rt.emit(world.orders, {"id": "o2", "total": 500}, key="evt-2")
        await delivered(rt)
        second, first = await rt.triggers.occurrences(world.orders)

    assert sorted(world.got) == [("each", "o1"), ("each", "o2"), ("large", "o2")]
    assert (receipt.status, receipt.id) == ("accepted", first.id)
    assert (first.key, first.delivered, first.state) == ("evt-1", ("each",), "done")
    assert (second.key, second.delivered) == ("evt-2", ("large", "each"))
    assert second.event == {"id": "o2", "total": 500}


async def test_a_key_that_comes_twice_is_one_event(stage: Stage) -> None:
    world = World()
    async with stage.runtime(triggers=[world.subscriber("each")]) as rt:
        first = await rt.emit(world.orders, Order("o1", 50), key="any text, even / this")
        again = await rt.emit(world.orders, Order("o1", 50), key="any text, even / this")
        await delivered(rt)
        late = await rt.emit(world.orders, Order("o1", 50), key="any text, even / this")

    assert (first.status, again.status, late.status) == ("accepted", "known", "known")
    assert first.id == again.id == late.id
    assert world.got == [("each", "o1")]


async def test_without_a_key_each_event_is_its_own(stage: Stage) -> None:
    world = World()
    async with stage.runtime(triggers=[world.subscriber("each")]) as rt:
        for _ in range(2):
            await rt.emit(world.orders, Order("o1", 50))
        await delivered(rt)

    assert world.got == [("each", "o1")] * 2


async def test_another_payload_under_a_known_key_is_refused(stage: Stage) -> None:
    world = World()
    async with stage.runtime(triggers=[world.orders]) as rt:
        await rt.emit(world.orders, Order("o1", 50), key="evt-1")
        with pytest.raises(IdempotencyConflict, match="key"):
            await rt.emit(world.orders, Order("o1", 51), key="evt-1")
        await delivered(rt)
        assert len(await rt.triggers.occurrences("orders")) == 1


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"id": "o1"}, "event"),
        ({"id": "o1", "total": "much"}, "event.total"),
        ({"id": "o1", "total": 1, "customer": 7}, "event.customer"),
        (7, "event"),
        (object(), "event"),
    ],
)
async def test_a_payload_that_does_not_fit_is_refused_and_nothing_is_stored(
    event: object, field: str, stage: Stage
) -> None:
    world = World()
    async with stage.runtime(triggers=[world.orders]) as rt:
        with pytest.raises(InvalidInput) as refused:
            await rt.emit("orders", event, key="evt-1")
        assert await rt.triggers.occurrences("orders") == ()
        assert await rt.sessions(kind="trigger") == ()
    assert refused.value.field == field


async def test_an_event_without_a_subscriber_is_delivered_to_none(stage: Stage) -> None:
    world = World()
    async with stage.runtime(triggers=[world.orders]) as rt:
        await rt.emit(world.orders, Order("o1", 50), key="evt-1")
        await delivered(rt)
        (only,) = await rt.triggers.occurrences("orders")
        (view,) = await rt.triggers.list()

    assert (only.state, only.delivered, only.issues) == ("done", (), ())
    assert (view.source, view.subscribers, view.pending) == ("orders", (), 0)
    assert view.last == only


async def test_an_event_is_emitted_by_a_runtime_that_does_not_know_the_source(stage: Stage) -> None:
    world = World()
    async with stage.runtime() as door:
        await door.emit("orders", {"id": "o1", "total": 5}, key="evt-1")
        await door.emit("orders", {"no": "order"}, key="evt-2")
        assert [one.state for one in await door.triggers.occurrences("orders")] == ["queued"] * 2
    async with stage.runtime(triggers=[world.subscriber("each")]) as rt:
        await delivered(rt)
        bad, _ = await rt.triggers.occurrences("orders")

    assert world.got == [("each", "o1")]
    assert (bad.delivered, len(bad.issues)) == ((), 1)
    assert "orders" in bad.issues[0]


async def test_a_where_that_raises_is_an_issue_and_the_others_get_theirs(stage: Stage) -> None:
    world = World()
    broken = world.subscriber("broken", lambda order: order.total / 0)
    async with stage.runtime(triggers=[broken, world.subscriber("each")]) as rt:
        await rt.emit(world.orders, Order("o1", 50), key="evt-1")
        await delivered(rt)
        (only,) = await rt.triggers.occurrences("orders")
        view = await rt._services.store.load_turn(only.session_id, only.id)

    assert only.delivered == ("each",)
    assert only.issues == ("where of broken: ZeroDivisionError: division by zero",)
    assert view is not None
    assert view.page is not None
    assert [one.code for one in view.page.events] == ["trigger_failed"]  # type: ignore[union-attr]
    assert world.got == [("each", "o1")]


async def test_a_delivery_to_a_subscriber_that_was_removed_stays_queued_and_is_shown(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.engines.worker._GRACE_S", 0.05)
    world = World()
    each = world.subscriber("each")
    async with stage.runtime(triggers=[each], worker=False) as door:
        await door.emit(world.orders, Order("o1", 50), key="evt-1")
    held = Holding(world)
    async with stage.runtime(triggers=[held.each], max_turns=1) as rt:
        await held.entered.wait()
        stage.kill(rt)
    async with stage.runtime(triggers=[world.orders]) as rt:
        status = await rt.status()
        assert [one.agent for one in status.foreign] == ["on:each"]
    async with stage.runtime(triggers=[each]) as rt:
        await delivered(rt)
    assert world.got == [("each", "o1")]


class Holding:
    """A subscriber that never ends."""

    def __init__(self, world: World) -> None:
        self.entered = asyncio.Event()

        @on(world.orders, name="each")
        async def handle(_ctx: Ctx, _order: Order) -> None:
            self.entered.set()
            await asyncio.Event().wait()

        self.each = handle


# ---------------------------------------------------------------------- order


async def test_a_thousand_events_are_handled_in_order_per_key(stage: Stage) -> None:
    world = World(order_by="customer")
    async with stage.runtime(triggers=[world.subscriber("each")]) as rt:
        for number in range(1_000):
            await rt.emit(world.orders, Order(f"{number}", 1, f"c{number % 20}"), key=f"{number}")
        await until(lambda: len(world.got) >= 1_000, within_s=HANGS_S)

    assert len(world.got) == 1_000
    for customer in range(20):
        mine = [int(id) for _, id in world.got if int(id) % 20 == customer]
        assert mine == list(range(customer, 1_000, 20))


async def test_events_of_one_key_wait_for_each_other_and_others_do_not(stage: Stage) -> None:
    source = Source("orders", Order, order_by=lambda order: order.customer)
    gate, began = asyncio.Event(), list[str]()

    @on(source)
    async def handle(_ctx: Ctx, order: Order) -> None:
        began.append(order.id)
        if order.id == "a1":
            await gate.wait()

    async with stage.runtime(triggers=[handle]) as rt:
        for id in ("a1", "a2", "b1", "b2"):
            await rt.emit(source, Order(id, 1, id[0]), key=id)
        await until(lambda: len(began) == 3, within_s=HANGS_S)
        assert sorted(began) == ["a1", "b1", "b2"]
        gate.set()
        await delivered(rt)
    assert began[-1] == "a2"


NOVEMBER_30TH = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(stage: Stage, instant: datetime) -> None:
    stage.clock.advance(instant.timestamp() - stage.clock.now_ms() / 1000)


async def test_a_key_is_known_in_the_next_month_as_long_as_the_receipt_says(stage: Stage) -> None:
    world = World(dedupe=timedelta(days=3))
    at(stage, NOVEMBER_30TH)
    async with stage.runtime(triggers=[world.subscriber("each")]) as rt:
        first = await rt.emit(world.orders, Order("o1", 50), key="evt-1")
        assert first.known_until == datetime(2026, 12, 4, tzinfo=UTC)
        stage.later(3 * DAY_S, rt)
        known = await rt.emit(world.orders, Order("o1", 50), key="evt-1")
        assert known == type(first)(
            status="known", id=first.id, session_id=first.session_id, known_until=first.known_until
        )
        with pytest.raises(IdempotencyConflict):
            await rt.emit(world.orders, Order("o1", 51), key="evt-1")
        stage.later(1 * DAY_S, rt)
        new = await rt.emit(world.orders, Order("o1", 50), key="evt-1")
        await delivered(rt)

    assert (new.status, new.known_until) == ("accepted", datetime(2027, 1, 4, tzinfo=UTC))
    assert world.got == [("each", "o1")] * 2


async def test_order_holds_from_one_month_to_the_next(stage: Stage) -> None:
    source = Source("orders", Order, order_by="customer")
    gate, began = asyncio.Event(), list[str]()

    @on(source)
    async def handle(_ctx: Ctx, order: Order) -> None:
        began.append(order.id)
        await gate.wait()

    at(stage, NOVEMBER_30TH)
    async with stage.runtime(worker=False) as door:
        await door.emit("orders", {"id": "nov", "total": 1}, key="nov")
        stage.clock.advance(2 * DAY_S)
        await door.emit("orders", {"id": "dec", "total": 1}, key="dec")
    async with stage.runtime(triggers=[handle]) as rt:
        await until(lambda: began == ["nov"], within_s=HANGS_S)

        async def is_delivered() -> bool:
            return not (await rt.triggers.list())[0].pending

        while not await is_delivered():
            stage.later(1, rt)
            await asyncio.sleep(0.01)
        assert began == ["nov"]
        gate.set()
        await delivered(rt)
    assert began[0] == "nov"
    assert began[-1] == "dec"


# ---------------------------------------------------------------------- raised by turns


async def test_a_tool_raises_a_trigger(stage: Stage) -> None:
    world = World()

    @tool(effect="idempotent")
    async def place(ctx: ToolContext[Any], id: str) -> str:
        """Place an order."""
        await ctx.emit_trigger(world.orders, Order(id, 1))
        await ctx.emit_trigger("orders", {"id": f"{id}b", "total": 1}, key="mine")
        with pytest.raises(InvalidInput, match="total"):
            await ctx.emit_trigger("orders", {"id": id, "total": "x"})
        return "placed"

    model = ScriptedModel([call("place", id="o1"), say("Done.")])
    agent = Agent("clerk", model=model, tools=[place])
    async with stage.runtime(agent, triggers=[world.subscriber("each")]) as rt:
        await rt.session("s").run("Go.")
        await delivered(rt)
        newer, older = await rt.triggers.occurrences("orders")
        (session,) = [
            one for one in await rt.sessions(kind="trigger") if one.session_id == older.session_id
        ]

    assert sorted(world.got) == [("each", "o1"), ("each", "o1b")]
    assert newer.key == "mine"
    # It outlives the chat that raised it.
    assert session.started_by is None


async def test_a_tool_that_runs_again_raises_the_same_trigger(stage: Stage) -> None:
    world, attempts = World(), list[int]()

    @tool(effect="idempotent", retries=1)
    async def place(ctx: ToolContext[Any]) -> str:
        """Place an order."""
        await ctx.emit_trigger(world.orders, Order("o1", 1))
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise OSError("down")
        return "placed"

    agent = Agent("clerk", model=ScriptedModel([call("place"), say("Done.")]), tools=[place])
    async with stage.runtime(agent, triggers=[world.subscriber("each")]) as rt:
        await rt.session("s").run("Go.")
        await delivered(rt)
        assert len(await rt.triggers.occurrences("orders")) == 1

    assert attempts == [1, 2]
    assert world.got == [("each", "o1")]


async def test_a_subscriber_raises_another_trigger(stage: Stage) -> None:
    world = World()
    shipped = Source("shipped")

    @on(world.orders)
    async def ship(ctx: Ctx, order: Order) -> None:
        await ctx.emit_trigger(shipped, {"order": order.id})

    @on(shipped)
    async def tell(ctx: Ctx, event: dict[str, str]) -> None:
        await ctx.step(world.note, "tell", event["order"])

    async with stage.runtime(triggers=[ship, tell]) as rt:
        await rt.emit(world.orders, Order("o1", 1))
        await until(lambda: bool(world.got), within_s=HANGS_S)
    assert world.got == [("tell", "o1")]


async def test_two_workers_deliver_each_event_once(stage: Stage) -> None:
    world = World(order_by="customer")
    each = world.subscriber("each")
    async with stage.runtime(triggers=[each]) as one, stage.runtime(triggers=[each]) as two:
        for number in range(60):
            rt = (one, two)[number % 2]
            await rt.emit(world.orders, Order(f"{number}", 1, f"c{number % 3}"), key=f"{number}")
        await delivered(one)

    assert sorted(int(id) for _, id in world.got) == list(range(60))
    for customer in range(3):
        mine = [int(id) for _, id in world.got if int(id) % 3 == customer]
        assert mine == list(range(customer, 60, 3))


# ---------------------------------------------------------------------- what is refused


def test_what_is_not_a_source_or_a_subscriber_is_refused() -> None:
    orders = Source("orders", Order)

    async def handle(ctx: Ctx, order: Order) -> None: ...

    async def short(ctx: Ctx) -> None: ...

    # Anything goes in, as from code without types.
    source: Any = Source
    subscribe: Any = on
    runtime: Any = Runtime
    bad: list[tuple[Callable[[], object], str]] = [
        (lambda: source("no name"), "Source.name"),
        (lambda: source("n" * 65), "Source.name"),
        (lambda: source("orders", Order, order_by="nothing"), "Source.order_by"),
        (lambda: source("orders", Order, order_by=7), "Source.order_by"),
        (lambda: source("orders", dedupe=7), "Source.dedupe"),
        (lambda: source("orders", dedupe=timedelta(days=400)), "Source.dedupe"),
        (lambda: subscribe("orders"), "on.source"),
        (lambda: subscribe(orders)(lambda _ctx, _event: None), "on.name"),
        (lambda: subscribe(orders)(short), "on short"),
        (lambda: subscribe(orders, where=handle)(handle), "on.where"),
        (lambda: runtime(triggers=[handle]), "Runtime.triggers[0]"),
        (lambda: runtime(triggers=[orders, Source("orders")]), "Runtime.triggers[1]"),
        (lambda: runtime(triggers=[on(orders)(handle), on(orders)(handle)]), "Runtime.triggers[1]"),
    ]
    for make, field in bad:
        with pytest.raises(ConfigError) as refused:
            make()
        assert refused.value.field == field


async def test_a_name_or_a_key_that_is_none_is_refused(stage: Stage) -> None:
    async with stage.runtime() as rt:
        for source, key, field in (("no name", "k", "source"), ("orders", 7, "key")):
            with pytest.raises(InvalidInput) as refused:
                await rt.emit(source, {}, key=key)  # type: ignore[arg-type]  # what is tested
            assert refused.value.field == field
        assert await rt.sessions(kind="trigger") == ()
