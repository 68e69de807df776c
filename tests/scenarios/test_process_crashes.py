"""Processes and children are killed at every moment: what was recorded is not done again, and all of them come to an end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.limits import HANGS_S
from windlass import Agent, Process, ProcessContext, Runtime, process, tool
from windlass.errors import StepUnknown
from windlass.journal import Contract, UsageLine
from windlass.testing import Scenario, ScriptedModel, call, kill_everywhere, say
from windlass.testing.crashing.kill_everywhere import StoreKind

STORES = pytest.mark.parametrize("store", ["memory", "sqlite"])


class World:
    """What is outside of all processes of the operating system: it counts what was done to it."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def act(self, what: str) -> str:
        self.done[what] += 1
        return what

    async def act_later(self, what: str) -> str:
        await asyncio.sleep(0)
        return self.act(what)


def started(
    world: World,
    *processes: Process[Any],
    check: Callable[[World, Any], None],
    agents: Callable[[], Sequence[Agent[Any, Any]]] = tuple,
) -> Scenario:
    """Return a scenario that starts the first of the processes and waits for its result."""

    async def run(rt: Runtime[Any]) -> object:
        handle = await rt.processes.start(processes[0], id="p")
        return await handle.result()

    return Scenario(
        agents=agents,
        processes=lambda: processes,
        run=run,
        check=lambda result: check(world, result),
    )


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "most"), [("once", 1), ("pure", 2), ("idempotent", 2), ("keyed", 2)]
)
@STORES
async def test_a_step_is_done_as_often_as_its_contract_allows(
    effect: Contract, most: int, store: StoreKind
) -> None:
    def make() -> Scenario:
        world = World()

        @process
        async def two(ctx: ProcessContext[None]) -> list[str]:
            results = []
            for what in ("a", "b"):
                try:
                    results.append(await ctx.step(world.act_later, what, effect=effect))
                except StepUnknown:
                    results.append("unknown")
            return results

        def check(world: World, result: list[str]) -> None:
            for what, got in zip("ab", result, strict=True):
                assert got in (what, "unknown")
                assert world.done[what] <= most
                assert world.done[what] >= (got == what)
                assert got != "unknown" or effect == "once"

        return started(world, two, check=check)

    report = await kill_everywhere(make, store=store, timeout=HANGS_S)

    assert len(report.points) > 15
    assert bool(report.unknown) == (effect == "once")


@STORES
async def test_steps_that_run_together_are_done_once_each(store: StoreKind) -> None:
    def make() -> Scenario:
        world = World()

        @process
        async def both(ctx: ProcessContext[None]) -> list[str]:
            steps = [ctx.step(world.act_later, what, effect="idempotent") for what in "abc"]
            return [
                *await asyncio.gather(*steps),
                await ctx.step(world.act, "last", effect="keyed"),
            ]

        def check(world: World, result: list[str]) -> None:
            assert result == ["a", "b", "c", "last"]
            assert set(world.done.values()) <= {1, 2}

        return started(world, both, check=check)

    report = await kill_everywhere(make, store=store, timeout=HANGS_S)

    assert len(report.points) > 15


# --- waiting ---------------------------------------------------------------------------------------


@STORES
async def test_a_sleep_ends_once_and_what_came_before_it_is_not_done_again(
    store: StoreKind,
) -> None:
    def make() -> Scenario:
        world = World()

        @process
        async def naps(ctx: ProcessContext[None]) -> list[str]:
            first = await ctx.step(world.act, "first", effect="keyed")
            await ctx.sleep(hours=1)
            await ctx.emit("slept", {"n": 1})
            await asyncio.gather(ctx.sleep(days=1), ctx.sleep(minutes=1))
            return [first, await ctx.step(world.act, "second", effect="keyed")]

        def check(world: World, result: list[str]) -> None:
            assert result == ["first", "second"]
            assert all(times <= 2 for times in world.done.values())

        return started(world, naps, check=check)

    report = await kill_everywhere(make, store=store, timeout=HANGS_S)

    assert len(report.points) > 20
    assert any("a sleep" in point.what for point in report.points)


@STORES
async def test_a_race_has_one_winner_however_often_it_is_run_again(store: StoreKind) -> None:
    def make() -> Scenario:
        world = World()

        @process
        async def race(ctx: ProcessContext[None]) -> list[str]:
            async def runner(name: str, minutes: int) -> str:
                await ctx.sleep(minutes=minutes)
                return name

            slow = asyncio.create_task(runner("slow", 5))
            fast = asyncio.create_task(runner("fast", 1))
            done, _ = await asyncio.wait({slow, fast}, return_when=asyncio.FIRST_COMPLETED)
            winner = done.pop().result()
            # By the time of this both have ended, and both are in the journal.
            await ctx.sleep(hours=1)
            await ctx.step(world.act, winner, effect="keyed")
            return [winner, await slow]

        def check(world: World, result: list[str]) -> None:
            assert result == ["fast", "slow"]
            assert set(world.done) == {"fast"}

        return started(world, race, check=check)

    await kill_everywhere(make, store=store, timeout=HANGS_S)


# --- other sessions ----------------------------------------------------------------------------------


def writer() -> Agent[None, str]:
    return Agent("writer", model=ScriptedModel([say("Dear Ann"), say("Dear Ben")]))


@STORES
async def test_a_turn_of_an_agent_is_begun_once_and_its_answer_kept(store: StoreKind) -> None:
    def make() -> Scenario:
        world = World()

        @process
        async def letters(ctx: ProcessContext[None]) -> list[str]:
            first = await ctx.turn("writer", "To Ann")
            await ctx.wake("boss", "One is done.")
            await ctx.step(world.act, "posted", effect="keyed")
            return [first]

        def check(_world: World, result: list[str]) -> None:
            assert result == ["Dear Ann"]

        return started(world, letters, check=check, agents=lambda: [writer(), boss()])

    report = await kill_everywhere(make, store=store, timeout=HANGS_S)

    assert len(report.points) > 20


def boss() -> Agent[None, str]:
    return Agent("boss", model=ScriptedModel([say("Fine.")]))


@STORES
async def test_a_process_goes_on_as_another_turn_once(store: StoreKind) -> None:
    def make() -> Scenario:
        world = World()

        @process
        async def pages(ctx: ProcessContext[None], page: int = 1) -> int:
            if await ctx.version("v2"):
                await ctx.step(world.act, f"page {page}", effect="keyed")
            if page < 3:
                ctx.continue_as(page=page + 1)
            return page

        def check(world: World, result: int) -> None:
            assert result == 3
            assert set(world.done) == {"page 1", "page 2", "page 3"}
            assert all(times <= 2 for times in world.done.values())

        return started(world, pages, check=check)

    report = await kill_everywhere(make, store=store, timeout=HANGS_S)

    assert len(report.points) > 25


# --- children ---------------------------------------------------------------------------------------


@STORES
async def test_agents_below_agents_end_once_each(store: StoreKind) -> None:
    def make() -> Scenario:
        world = World()

        @tool(effect="keyed")
        async def pay(cents: int) -> str:
            """Pay."""
            return world.act(f"paid {cents}")

        def agents() -> list[Agent[None, str]]:
            leaf = Agent(
                "leaf", model=ScriptedModel([call("pay", cents=5), say("Paid.")]), tools=[pay]
            )
            mid_script = ScriptedModel([call("leaf", task="pay"), say("Leaf paid.")])
            mid = Agent("mid", model=mid_script, tools=[leaf.as_tool(description="Pays.")])
            lead_script = ScriptedModel([call("mid", task="go"), say("Done.")])
            lead = Agent("lead", model=lead_script, tools=[mid.as_tool(description="Works.")])
            return [lead, mid, leaf]

        async def run(rt: Runtime[Any]) -> object:
            result = await rt.session("s", "lead").run("Go", turn_id="t")
            return result.text, (*result.child_usage.lines, *result.usage.lines)

        def check(result: tuple[str, tuple[UsageLine, ...]]) -> None:
            text, lines = result
            assert text == "Done."
            assert world.done["paid 5"] in (1, 2)
            assert [line.source for line in lines] == ["child:mid", "child:mid/leaf", "turn"]
            assert all(line.calls >= 2 for line in lines)

        return Scenario(agents=agents, run=run, check=check)

    report = await kill_everywhere(make, store=store, timeout=HANGS_S)

    assert len(report.points) > 30
