"""Tools that come back: `raise Again(after=…)` runs the body again later, across crashes, and counts its attempts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import turn_view
from tests.scenarios.stage import DAY_S, Stage, until
from windlass import Again, Agent, ModelReply, ModelRequest, Runtime, ToolContext, TurnResult, tool
from windlass.errors import Forbidden, InvalidInput
from windlass.journal import Contract
from windlass.kernel.outcomes import Stopped
from windlass.runtime import coming_back
from windlass.testing import (
    FunctionModel,
    Scenario,
    ScriptedModel,
    call,
    calls,
    kill_everywhere,
    say,
)
from windlass.testing.crashing.kill_everywhere import StoreKind

HOUR_S = 3_600.0


class Job:
    """A job that is done after so many looks: what was asked of it, from outside."""

    def __init__(self, looks: int, effect: Contract = "keyed", **options: Any) -> None:
        self.looks = looks
        self.attempts: list[int] = []
        self.keys: set[str] = set()

        @tool(effect=effect, **options)
        async def poll(ctx: ToolContext[None]) -> str:
            """Look whether the job is done."""
            self.attempts.append(ctx.attempt)
            self.keys.add(ctx.idempotency_key)
            if len(self.attempts) <= self.looks:
                raise Again(after=HOUR_S, reason="the job is not done")
            return "done"

        self.tool = poll


def poller(job: Job, *replies: Any, **more: Any) -> Agent[None, str]:
    script = replies or (call("poll"), say("It is done."))
    more.setdefault("tools", [job.tool])
    return Agent("a", model=ScriptedModel(script), **more)


@pytest.mark.parametrize("effect", ["pure", "idempotent", "keyed"])
async def test_the_body_runs_again_when_its_time_has_come(stage: Stage, effect: Contract) -> None:
    job = Job(2, effect)
    async with stage.runtime(poller(job)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        (wait,) = parked.waits
        assert (wait.kind, wait.title) == ("timer", "poll runs again: the job is not done")
        assert wait.expires_ms == stage.clock.now_ms() + 3_600_000
        assert wait.detail == {"tool": "poll", "again": 1, "reason": "the job is not done"}
        waiting = asyncio.create_task(rt.turn("s", "t").result(through_parks=True))
        for times in (1, 2):
            await until(lambda times=times: len(job.attempts) == times)  # type: ignore[misc]
            await until(lambda times=times: _has_waits(rt, times))  # type: ignore[misc]
            stage.later(HOUR_S, rt)
        result = await asyncio.wait_for(waiting, HANGS_S)

    assert (result.text, result.tool_calls[0].outcome.value) == ("It is done.", "done")
    assert job.attempts == [1, 2, 3]
    assert len(job.keys) == 1


async def _has_waits(rt: Runtime[Any], number: int) -> bool:
    view = await turn_view(rt, "s", "t")
    return view.state == "parked" and len(view.waits) == number


async def test_a_time_that_is_near_is_waited_for(stage: Stage) -> None:
    seen: list[int] = []

    @tool(effect="pure")
    def soon(ctx: ToolContext[None]) -> str:
        """Come back soon."""
        seen.append(ctx.attempt)
        if ctx.attempt == 1:
            raise Again(after=0)
        return "here"

    agent = Agent("a", model=ScriptedModel([call("soon"), say("Done.")]), tools=[soon])
    async with stage.runtime(agent) as rt:
        result = await asyncio.wait_for(rt.session("s").run("Go."), HANGS_S)

    assert (result.text, seen) == ("Done.", [1, 2])


async def test_a_worker_that_was_gone_for_days_runs_it_once(stage: Stage) -> None:
    job = Job(1)
    async with stage.runtime(poller(job)) as rt:
        assert (await rt.session("s").run("Go.", turn_id="t")).parked
    stage.clock.advance(5 * DAY_S)
    async with stage.runtime(poller(job)) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert (result.text, job.attempts) == ("It is done.", [1, 2])


async def test_nothing_but_its_time_ends_it(stage: Stage) -> None:
    job = Job(1)
    async with stage.runtime(poller(job)) as rt:
        parked = await rt.session("s").run("Go.")
        with pytest.raises(Forbidden):
            await rt.resolve(parked.waits[0].key, "now")

    assert job.attempts == [1]


async def test_an_item_that_comes_meanwhile_does_not_run_it_early(stage: Stage) -> None:
    job = Job(1)
    async with stage.runtime(poller(job)) as rt:
        assert (await rt.session("s").run("Go.", turn_id="t")).parked
        await rt.session("s").enqueue("Hurry.")
        await until(lambda: _took(rt))
        await until(lambda: _has_waits(rt, 1))
        assert job.attempts == [1]
        stage.later(HOUR_S, rt)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert (result.text, job.attempts) == ("It is done.", [1, 2])


async def _took(rt: Runtime[Any]) -> bool:
    items = (await rt.session("s").inbox()).items
    return [item.state for item in items] == ["taken"]


async def test_a_sibling_runs_while_the_other_is_away(stage: Stage) -> None:
    job, gate, ran = Job(1), asyncio.Event(), list[str]()

    @tool(effect="idempotent")
    async def work() -> str:
        """Work."""
        await gate.wait()
        ran.append("work")
        return "worked"

    both = calls(("poll", {}), ("work", {}))
    agent = poller(job, both, say("Both."), tools=[job.tool, work])
    async with stage.runtime(agent) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await until(lambda: _n_waits(rt, 1))
        stage.later(HOUR_S, rt)  # while the sibling runs: the turn is not parked
        await until(lambda: job.attempts == [1, 2])
        gate.set()
        result = await handle.result(timeout=HANGS_S)

    assert (result.text, ran, job.attempts) == ("Both.", ["work"], [1, 2])
    assert [one.outcome.value for one in result.tool_calls] == ["done", "worked"]


async def _n_waits(rt: Runtime[Any], number: int) -> bool:
    return len(await rt.waits()) == number


async def test_two_that_come_back_at_different_times_park_together(stage: Stage) -> None:
    seen: list[tuple[str, int]] = []

    @tool(effect="pure")
    def visit(ctx: ToolContext[None], hours: int) -> str:
        """Come back."""
        seen.append((str(hours), ctx.attempt))
        if ctx.attempt == 1:
            raise Again(after=hours * HOUR_S)
        return f"after {hours}"

    both = calls(("visit", {"hours": 1}), ("visit", {"hours": 2}))
    agent = Agent("a", model=ScriptedModel([both, say("Both.")]), tools=[visit])
    async with stage.runtime(agent) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        assert len(parked.waits) == 2
        stage.later(HOUR_S, rt)
        await until(lambda: len(seen) == 3)
        await until(lambda: _n_waits(rt, 1))
        stage.later(HOUR_S, rt)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert [one.outcome.value for one in result.tool_calls] == ["after 1", "after 2"]
    assert sorted(seen[:2]) == [("1", 1), ("2", 1)]  # in threads, side by side
    assert seen[2:] == [("1", 2), ("2", 2)]


async def test_a_cancel_ends_it_and_it_is_not_told_as_unknown(stage: Stage) -> None:
    job = Job(1)
    async with stage.runtime(poller(job)) as rt:
        assert (await rt.session("s").run("Go.", turn_id="t")).parked
        await rt.cancel("s", "t", "enough")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        stage.later(2 * HOUR_S, rt)
        assert await rt.waits() == ()

    assert result.outcome == Stopped(reason="cancelled", detail="enough")
    assert [one.outcome.status for one in result.tool_calls] == ["cancelled"]
    assert (job.attempts, result.issues) == ([1], ())


@pytest.mark.parametrize("effect", ["once", "reconcile"])
async def test_a_tool_that_is_not_run_twice_may_not_come_back(
    stage: Stage, effect: Contract
) -> None:
    options: dict[str, Any] = {}
    if effect == "reconcile":
        options["reconcile"] = lambda _args: None
    job = Job(1, effect, **options)
    async with stage.runtime(poller(job)) as rt:
        result = await rt.session("s").run("Go.")

    outcome = result.tool_calls[0].outcome
    said = f"It raised Again, and a tool with the effect {effect} is not run twice."
    assert (outcome.status, outcome.value, job.attempts) == ("error", said, [1])


async def test_a_call_comes_back_so_often_and_no_more(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coming_back, "MAX_TIMES", 2)

    @tool(effect="pure")
    def forever() -> str:
        """Come back."""
        raise Again(after=0)

    agent = Agent("a", model=ScriptedModel([call("forever"), say("Done.")]), tools=[forever])
    async with stage.runtime(agent) as rt:
        result = await asyncio.wait_for(rt.session("s").run("Go."), HANGS_S)

    outcome = result.tool_calls[0].outcome
    assert (outcome.status, outcome.value) == ("error", "It asked to run again more than 2 times.")


async def test_a_tool_that_is_gone_meanwhile_is_an_error(stage: Stage) -> None:
    job = Job(1)
    async with stage.runtime(poller(job)) as rt:
        assert (await rt.session("s").run("Go.", turn_id="t")).parked
    stage.clock.advance(HOUR_S)
    async with stage.runtime(poller(job, say("A pity."), tools=[])) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    outcome = result.tool_calls[0].outcome
    assert (outcome.status, outcome.value) == ("error", "There is no tool called poll.")
    assert job.attempts == [1]


async def test_what_a_person_approved_is_not_asked_again(stage: Stage) -> None:
    job = Job(2, "keyed", approval="ask")
    async with stage.runtime(poller(job)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        await rt.approve(parked.waits[0].key)
        for times in (1, 2):
            await until(lambda times=times: _has_waits(rt, times + 1))  # type: ignore[misc]
            stage.later(HOUR_S, rt)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert (result.text, job.attempts) == ("It is done.", [1, 2, 3])


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), "1", None, True])
def test_a_time_that_is_none_is_refused(after: object) -> None:
    with pytest.raises(InvalidInput, match=r"Again\.after"):
        Again(after=after)  # type: ignore[arg-type]  # what is refused


# ------------------------------------------------------------------------- crashes


def crashing(effect: Contract) -> Scenario:
    asked: list[tuple[int, str]] = []

    def agents() -> Agent[None, str]:
        @tool(effect=effect)
        async def poll(ctx: ToolContext[None]) -> str:
            """Look."""
            asked.append((ctx.attempt, ctx.idempotency_key))
            if len(asked) < 3:
                raise Again(after=60 * HOUR_S)
            return "done"

        @tool(effect="keyed")
        async def work() -> str:
            """Work."""
            return "worked"

        both = calls(("poll", {}), ("work", {}))
        replies = [both, say("Both.")]

        def answer(request: ModelRequest) -> ModelReply:
            return replies[len([one for one in request.messages if one.role == "assistant"])]

        return Agent("a", model=FunctionModel(answer, name="m"), tools=[poll, work])

    async def program(rt: Runtime[Any]) -> TurnResult[str]:
        return await rt.session("s").run("Go.", turn_id="t")

    def check(result: TurnResult[str]) -> None:
        assert result.text == "Both."
        assert [one.outcome.value for one in result.tool_calls] == ["done", "worked"]
        # However often it died: attempts never go back, and the world can tell a repeat.
        attempts = [attempt for attempt, _ in asked]
        assert attempts == sorted(attempts)
        assert len({key for _, key in asked}) == 1
        if effect != "pure":  # the claim of each is durable before it runs
            assert len(set(attempts)) == len(attempts)

    return Scenario(agents=agents, run=program, check=check, allow_unknown=False)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("effect", ["pure", "keyed"])
async def test_a_call_that_comes_back_survives_every_crash(
    store: StoreKind, effect: Contract
) -> None:
    report = await kill_everywhere(lambda: crashing(effect), store=store, timeout=HANGS_S)

    assert len(report.points) > 10
    assert report.unknown == ()
