"""Limits: a spent limit is an outcome, the same after a crash, and the session goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.limits import HANGS_S
from tests.plugins.hooks.hooked import hooked
from tests.scenarios.payers import payer, script
from tests.scenarios.readings import told
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import echo, worker
from windlass import Agent, Limits, Text, TurnResult, tool
from windlass.journal import TurnStarted
from windlass.kernel import ModelReply, ModelRequest, Usage
from windlass.kernel.outcomes import Stopped
from windlass.models.scripted import placed
from windlass.ports import PluginTurn
from windlass.runtime.turn_start import limits_of
from windlass.testing import (
    FunctionModel,
    Scenario,
    ScriptedModel,
    call,
    calls,
    kill_everywhere,
    say,
)

UNLIMITED = [
    field.name
    for field in msgspec.structs.fields(Limits)
    if field.name.startswith("max_") and field.default is None
]


def tokens(reply: ModelReply, used: int) -> ModelReply:
    """Return a reply that used so many tokens."""
    return ModelReply(
        parts=reply.parts,
        terminal=reply.terminal,
        usage=Usage(input_tokens=used // 2, output_tokens=used - used // 2),
    )


async def test_the_limit_of_iterations_ends_the_loop(stage: Stage) -> None:
    desk, model = Desk(), ScriptedModel([call("work", n=n) for n in range(9)])
    async with stage.runtime(worker(desk, model, limits=Limits(max_iterations=3))) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        after = await rt.session("s").run("And?", turn_id="t2", model=echo())

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "max_iterations"
    assert desk.runs == [0, 1, 2]
    assert len(model.requests) == 3
    assert after.text == "You said: And?"


async def test_the_limit_of_tool_calls_counts_before_they_run(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel(
        [call("work", n=1), calls(("work", {"n": 2}), ("work", {"n": 3})), say("Next.")]
    )
    async with stage.runtime(worker(desk, model, limits=Limits(max_tool_calls=2))) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        await rt.session("s").run("And?", turn_id="t2")

    assert result.outcome == Stopped(
        reason="limit", detail="The turn used 3 tool calls, the limit is 2."
    )
    assert desk.runs == [1]
    # Calls that the end overtook have their one result, so that the next request is valid.
    assert len(told(model.requests[-1])) == 3


async def test_the_limit_of_tokens_is_looked_at_before_the_next_call(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([tokens(call("work"), 60), tokens(call("work"), 60), say("Never.")])
    async with stage.runtime(worker(desk, model, limits=Limits(max_tokens=100))) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert result.outcome == Stopped(
        reason="limit", detail="The turn used 120 tokens, the limit is 100."
    )
    assert len(desk.runs) == 2
    assert result.usage.total_tokens == 120


async def test_the_limit_of_seconds_counts_from_the_start_also_over_a_park(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model, limits=Limits(max_seconds=60))) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        stage.later(61, rt)
        await rt.approve(parked.waits[0].key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.outcome == Stopped(
        reason="limit", detail="The turn used 61 seconds, the limit is 60."
    )
    assert len(model.requests) == 1
    assert result.duration_ms == 61_000


async def test_limits_are_counted_over_crashes(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([tokens(call("work"), 60), tokens(call("work"), 60), say("Never.")])
    limits = Limits(max_tokens=100, max_tool_calls=2)
    async with stage.runtime(worker(desk, model, limits=limits)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(worker(fresh, model, limits=limits)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert result.outcome == Stopped(
        reason="limit", detail="The turn used 120 tokens, the limit is 100."
    )
    assert len(fresh.runs) == 2


@pytest.mark.parametrize(
    ("limits", "n_bodies"),
    [(Limits(max_tool_calls=2), 1), (Limits(max_tokens=25), 3)],
    ids=["tool calls", "tokens"],
)
async def test_a_limit_holds_wherever_the_process_dies(limits: Limits, n_bodies: int) -> None:
    """Also where the last reply is on disk and the end is not: a hook is asked in between."""
    script = (call("work", n=1), calls(("work", {"n": 2}), ("work", {"n": 3})), say("Never."))
    bodies: set[int] = set()
    seen: list[int] = []

    async def leave(turn: PluginTurn, _outcome: object) -> None:
        await turn.attach(b"a write in the middle of a hook")

    def answer(request: ModelRequest) -> ModelReply:
        place = sum(message.role == "assistant" for message in request.messages)
        seen.append(place)
        return placed(tokens(script[place], 20), place)

    @tool(effect="idempotent")
    async def work(n: int) -> str:
        """Work."""
        bodies.add(n)
        return "worked"

    def scenario() -> Scenario:
        bodies.clear()
        seen.clear()
        return Scenario(
            agents=lambda: Agent(
                "a",
                model=FunctionModel(answer),
                tools=[work],
                limits=limits,
                plugins=[hooked("leaves", after_turn=leave)],
            ),
            run=lambda rt: rt.session("s").run("Go.", turn_id="t"),
            check=check,
        )

    def check(result: TurnResult[str]) -> None:
        assert isinstance(result.outcome, Stopped)
        assert result.outcome.reason == "limit"
        assert len(bodies) == n_bodies
        assert max(seen) == 1

    await kill_everywhere(scenario)


async def test_no_more_bodies_run_at_once_than_may(stage: Stage) -> None:
    inside, most = [0], [0]
    desk = Desk()

    class Counting(Desk):
        async def work(self, about: object = None) -> None:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            for _ in range(5):
                await asyncio.sleep(0)
            inside[0] -= 1
            await desk.work(about)

    model = ScriptedModel([calls(*(("work", {"n": n}) for n in range(10))), say("Done.")])
    agent = worker(Counting(), model, limits=Limits(max_parallel=3))
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    assert result.text == "Done."
    assert most == [3]
    assert sorted(desk.runs) == list(range(10))


@pytest.mark.parametrize("name", UNLIMITED)
async def test_every_limit_that_is_none_unless_it_is_set_ends_a_turn(
    memory_stage: Stage, name: str
) -> None:
    """A limit that nothing compares, or that the loop does not know to be there, lets this turn finish."""
    model = ScriptedModel([call("work"), say("Done.")])
    agent = worker(Desk(), model, limits=Limits(**{name: 0}))
    async with memory_stage.runtime(agent) as rt:
        outcome = (await rt.session("s").run("Go.")).outcome

    assert isinstance(outcome, Stopped)
    assert outcome.reason == "limit"


@pytest.mark.parametrize("limits", [Limits(max_tokens=0), Limits(max_seconds=0)])
async def test_a_limit_of_nothing_lets_nothing_begin(memory_stage: Stage, limits: Limits) -> None:
    model = echo()
    async with memory_stage.runtime(worker(Desk(), model, limits=limits)) as rt:
        result = await rt.session("s").run("Hello.")

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "limit"
    assert model.requests == []


async def test_the_ledger_of_a_session_is_the_sum_of_its_turns(stage: Stage) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        n = len(request.messages)
        usage = Usage(
            input_tokens=n, output_tokens=2 * n, cached_input_tokens=3 * n,
            cache_write_tokens=4 * n, reasoning_tokens=n,
        )  # fmt: skip
        if n == 1:
            return ModelReply(parts=call("work").parts, terminal="tool_use", usage=usage)
        return ModelReply(text="ok", usage=usage)

    model = FunctionModel(answer, name="m1")
    async with stage.runtime(worker(Desk(), model)) as rt:
        session = rt.session("s")
        results = [await session.run(f"Number {n}.") for n in range(3)]
        other = await rt.session("other").run("Hello.")
        ledger, whole = await session.usage(), await rt.usage()

    # Requests of 1, 3, 5 and 7 messages.
    assert [result.usage.input_tokens for result in results] == [1 + 3, 5, 7]
    assert [result.usage.calls for result in results] == [2, 1, 1]
    assert ledger.input_tokens == 16
    assert ledger.output_tokens == 32
    assert ledger.cached_input_tokens == 48
    assert ledger.cache_write_tokens == 64
    assert ledger.reasoning_tokens == 16
    assert ledger.calls == 4
    assert ledger.total_tokens == 160
    assert whole.input_tokens == 16 + other.usage.input_tokens == 20
    assert whole.calls == 6


async def test_usage_is_the_same_after_a_crash_and_a_replay(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([tokens(call("work"), 10), tokens(say("Done."), 20)])
    async with stage.runtime(worker(desk, model)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(Desk(), model)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            ledger = await rt.session("s").usage()
        desk.gate.set()

    assert result.usage.total_tokens == ledger.total_tokens == 30
    assert result.usage.calls == ledger.calls == 2


async def test_what_a_parked_turn_used_is_in_the_ledger_before_it_ends(stage: Stage) -> None:
    model = ScriptedModel([tokens(call("pay", cents=5), 14), tokens(say("Done."), 10)])
    async with stage.runtime(payer(Desk(), model)) as rt:
        session = rt.session("s")
        parked = await session.run("Pay 5.", turn_id="t")
        before = [parked.usage, await session.usage(), await rt.usage()]
        await rt.approve(parked.waits[0].key)
        ended = await rt.turn("s", "t").result(timeout=HANGS_S)
        after = [ended.usage, await session.usage(), await rt.usage()]

    assert [(report.input_tokens, report.calls) for report in before] == [(7, 1)] * 3
    assert [(report.input_tokens, report.calls) for report in after] == [(12, 2)] * 3


async def test_a_session_that_is_deleted_while_all_are_counted_is_left_out(stage: Stage) -> None:
    model = ScriptedModel([tokens(say("One."), 10), tokens(say("Two."), 10)])
    async with stage.runtime(worker(Desk(), model)) as rt:
        for session_id in ("gone", "here"):
            await rt.session(session_id).run("Hello.")
        store: Any = rt._services.store
        listed = store.list_sessions

        async def delete_after_listing(**page: Any) -> Any:  # noqa: ANN401 - as the store says
            found = await listed(**page)
            if not page["after"] and store.list_sessions is not listed:
                store.list_sessions = listed  # deleting looks for what the session began
                await rt.session("gone").delete()
            return found

        store.list_sessions = delete_after_listing
        assert (await rt.usage()).calls == 1


async def test_arguments_at_the_limit_of_a_turn_run_and_one_byte_more_is_told(stage: Stage) -> None:
    ran: list[int] = []

    @tool(effect="pure")
    def act(s: str) -> str:
        """Act."""
        ran.append(len(s))
        return "acted"

    told = []
    for at, size in enumerate((992, 993)):
        model = ScriptedModel([call("act", s="x" * size), say("Done.")], name=f"model{at}")
        agent = Agent("a", model=model, tools=[act], limits=Limits(max_args_bytes=1_000))
        async with stage.runtime(agent) as rt:
            result = await rt.session(f"s{at}").run("Go.")
        assert result.text == "Done."
        told.append([(one.outcome.status, one.outcome.value) for one in result.tool_calls])

    assert told == [
        [("ok", "acted")],
        [("error", "args: found 1,001 bytes, wanted at most 1,000. The tool did not run.")],
    ]
    assert ran == [992]


async def test_a_limit_that_is_raised_lets_larger_arguments_through(stage: Stage) -> None:
    @tool(effect="pure")
    def act(s: str) -> int:
        """Count."""
        return len(s)

    model = ScriptedModel([call("act", s="x" * 3_000_000), say("Done.")])
    agent = Agent("a", model=model, tools=[act], limits=Limits(max_args_bytes=4_000_000))
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    assert [one.outcome.value for one in result.tool_calls] == [3_000_000]


async def test_a_result_over_its_limit_is_a_success_that_says_what_is_missing(
    stage: Stage,
) -> None:
    ran: list[int] = []

    @tool(output_limit=20)
    def act() -> str:
        """Act."""
        ran.append(1)
        return "x" * 1_000

    model = ScriptedModel([call("act"), say("Done.")])
    agent = Agent("a", model=model, tools=[act], limits=Limits(max_result_bytes=100))
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    (acted,) = result.tool_calls
    assert (acted.outcome.status, ran) == ("ok", [1])
    assert acted.as_result("act").content[0] == Text(
        text="x" * 20 + "\n(cut here: 980 of 1,000 bytes are not shown, and 900 are not kept)"
    )
    assert [getattr(part, "n_bytes", None) for part in acted.outcome.content] == [100]


async def test_a_turn_that_was_recorded_with_no_iterations_is_read_as_it_stands(
    stage: Stage,
) -> None:
    async with stage.runtime(Agent("a", model=ScriptedModel([]))) as rt:
        program = rt._worker.programs["a"]
    started = TurnStarted(agent="a", model="m", limits={"max_iterations": 0, "max_tokens": 5})

    limits = limits_of(program, started)

    assert (limits.max_iterations, limits.max_tokens) == (0, 5)
