"""Questions to a person: asked by a tool, answered by anyone who has the key, and refused where the answer does not fit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.building import all_ended, heard
from tests.scenarios.family import agent as played
from tests.scenarios.family import asks
from tests.scenarios.readings import Told, last_told
from tests.scenarios.stage import DAY_S, Desk, Stage, until
from tests.security.test_secrets_at_rest import found_in
from windlass import Agent, Pending, Retention, ToolContext, tool
from windlass.api.process import process
from windlass.api.process_context import ProcessContext
from windlass.errors import ConfigError, InvalidInput
from windlass.guards import Secret, register_secret
from windlass.journal import Contract
from windlass.testing import Scenario, ScriptedModel, call, calls, kill_everywhere, say

PROCESS = Path(__file__).with_name("question_process.py")
COLOURS = {"type": "string", "enum": ["blue", "green"]}


def asker(
    desk: Desk,
    model: ScriptedModel,
    *,
    question: str = "Which colour?",
    schema: Any = COLOURS,  # noqa: ANN401 - of every kind
    deadline: float | None = None,
    effect: Contract = "once",
) -> Agent[None, str]:
    """Return an agent with a tool that asks a person, and goes through the desk between question and return."""

    @tool(effect=effect)
    async def choose(ctx: ToolContext[None]) -> Pending:
        """Have a person choose."""
        pending = await ctx.ask(question, schema=schema, deadline=deadline)
        await desk.work(pending.key)
        return pending

    return Agent("asker", model=model, tools=[choose])


def script() -> ScriptedModel:
    return ScriptedModel([call("choose"), say("Done.")])


async def test_a_question_parks_the_turn_and_says_what_is_asked(stage: Stage) -> None:
    async with stage.runtime(asker(Desk(), script())) as rt:
        parked = await rt.session("s").run("Choose.", turn_id="t")
        (wait,) = parked.waits

        assert parked.parked
        assert (wait.kind, wait.title, wait.call_id) == ("question", "Which colour?", "call_0_0")
        assert wait.detail == {"tool": "choose", "schema": COLOURS}
        assert (wait.session_id, wait.turn_id, wait.expires_ms) == ("s", "t", None)
        assert await rt.waits(kind="question") == (wait,)
        assert await rt.waits(kind="deferred") == ()
        assert await rt.approvals() == ()


async def test_it_is_answered_days_later_by_a_process_without_the_agent(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(asker(desk, model)) as rt:
        parked = await rt.session("s").run("Choose.", turn_id="t")
    stage.later(6 * DAY_S)
    async with stage.runtime() as office:
        receipt = await office.resolve(parked.waits[0].key, "green", by="eva")
        late = await office.resolve(parked.waits[0].key, "blue", by="tom")
    async with stage.runtime(asker(desk, model)) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert (receipt.status, late.status) == ("accepted", "already")
    assert late.answer is not None
    assert (late.answer.value, late.answer.by) == ("green", "eva")
    assert last_told(model) == [Told("call_0_0", "ok", "green")]
    assert len(desk.runs) == 1
    assert (result.text, result.issues) == ("Done.", ())


@pytest.mark.parametrize(("effect", "runs"), [("once", 1), ("idempotent", 2)])
def test_a_process_killed_between_question_and_return_loses_neither(
    tmp_path: Path, effect: str, runs: int
) -> None:
    """`once`: the body is not run again, for its question is open. Others run again and ask nothing new."""
    log = tmp_path / "log"

    def play(step: str) -> tuple[int, str]:
        ended = subprocess.run(
            [sys.executable, PROCESS, step, tmp_path / "a.db", log, effect],
            capture_output=True, text=True, timeout=HANGS_S, check=False,
        )  # fmt: skip
        assert ended.returncode in (0, -9), ended.stderr
        return ended.returncode, ended.stdout

    assert play("ask") == (-9, "")
    (key,) = log.read_text().splitlines()
    assert play("finish") == (0, "parked")
    assert play("answer") == (0, f"{key} accepted")
    assert play("finish") == (0, "It is green.")
    assert log.read_text().splitlines() == [key] * runs


async def test_a_body_that_words_its_question_anew_after_a_crash_gets_the_one_that_is_open(
    stage: Stage,
) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(asker(desk, model, effect="keyed")) as lost:
        await lost.session("s").submit("Choose.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        again = asker(Desk(), model, effect="keyed", question="Which colour is it?")
        async with stage.runtime(again) as rt:
            parked = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert [(wait.key, wait.title) for wait in parked.waits] == [(desk.runs[0], "Which colour?")]


# ------------------------------------------------------------------ answers


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("red", 'value: found another value, wanted one of: "blue", "green"'),
        (7, "value: found integer, wanted string"),
        (None, "value: found null, wanted string"),
        (["blue"], "value: found array, wanted string"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    stage: Stage, value: object, says: str
) -> None:
    model = script()
    async with stage.runtime(asker(Desk(), model)) as rt, stage.runtime() as office:
        (wait,) = (await rt.session("s").run("Choose.", turn_id="t")).waits
        with pytest.raises(InvalidInput) as refused:
            await office.resolve(wait.key, value)
        assert (str(refused.value), refused.value.field) == (says, "value")
        assert await office.waits() == (wait,)
        assert (await office.resolve(wait.key, "blue")).status == "accepted"
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert last_told(model) == [Told("call_0_0", "ok", "blue")]


async def test_of_twenty_answers_at_once_the_first_counts(stage: Stage) -> None:
    model = script()
    plain = asker(Desk(), model, schema=None)
    async with stage.runtime(plain) as rt, stage.runtime() as office:
        (wait,) = (await rt.session("s").run("Choose.", turn_id="t")).waits
        receipts = await asyncio.gather(
            *((rt if n % 2 else office).resolve(wait.key, f"answer {n}") for n in range(20))
        )
        await rt.turn("s", "t").result(timeout=HANGS_S)

    statuses = [receipt.status for receipt in receipts]
    assert (statuses.count("accepted"), statuses.count("already")) == (1, 19)
    assert last_told(model)[0].text == f"answer {statuses.index('accepted')}"


async def test_who_will_not_answer_says_why_and_the_model_reads_it(stage: Stage) -> None:
    model = script()
    async with stage.runtime(asker(Desk(), model)) as rt:
        (wait,) = (await rt.session("s").run("Choose.", turn_id="t")).waits
        await rt.reject(wait.key, "Ask the painter.")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert last_told(model) == [Told("call_0_0", "error", "Ask the painter.")]
    assert result.text == "Done."


async def test_after_its_deadline_the_model_is_told_that_nobody_answered(stage: Stage) -> None:
    model = script()
    async with stage.runtime(asker(Desk(), model, deadline=3_600)) as rt:
        (wait,) = (await rt.session("s").run("Choose.", turn_id="t")).waits
        assert wait.expires_ms == stage.clock.now_ms() + 3_600_000
        stage.later(3_600, rt)
        await until(lambda: len(model.requests) == 2)
        await rt.turn("s", "t").result(timeout=HANGS_S)
        late = await rt.resolve(wait.key, "blue")

    assert late.status == "expired"
    assert last_told(model) == [Told("call_0_0", "timeout", "Nobody answered in time.")]


async def test_a_cancel_ends_the_turn_and_its_question_is_listed_no_more(stage: Stage) -> None:
    async with stage.runtime(asker(Desk(), script())) as rt:
        (wait,) = (await rt.session("s").run("Choose.", turn_id="t")).waits
        await rt.cancel("s", "t", "never mind")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        late = await rt.resolve(wait.key, "blue")

        assert result.outcome is not None
        assert getattr(result.outcome, "reason", None) == "cancelled"
        assert await rt.waits() == ()
        assert late.status == "superseded"


@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_a_question_is_neither_approved_nor_denied(stage: Stage, verb: str) -> None:
    async with stage.runtime(asker(Desk(), script())) as rt:
        (wait,) = (await rt.session("s").run("Choose.", turn_id="t")).waits
        with pytest.raises(InvalidInput, match="kind question; use windlass answer"):
            await getattr(rt, verb)(wait.key)
        assert await rt.waits() == (wait,)


async def test_neither_a_retry_nor_housekeeping_touches_an_open_question(stage: Stage) -> None:
    keep = Retention(journals=timedelta(days=1))
    async with stage.runtime(asker(Desk(), script()), retention=keep) as rt:
        (wait,) = (await rt.session("s").run("Choose.", turn_id="t")).waits
        assert await rt.retry("s", "t") is False
        stage.later(400 * DAY_S)
        await rt.vacuum()
        assert await rt.waits() == (wait,)
        await rt.resolve(wait.key, "blue")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.tool_calls[0].outcome.value == "blue"


# ------------------------------------------------------------------ one question in a call


@pytest.mark.parametrize("second", ["ask", "defer"])
async def test_a_call_that_waits_may_repeat_its_question_and_wait_for_nothing_else(
    memory_stage: Stage, second: str
) -> None:
    said: list[str] = []

    @tool(effect="once")
    async def choose(ctx: ToolContext[None]) -> Pending:
        """Have a person choose."""
        one, same = await ctx.ask("Which?"), await ctx.ask("Which?")
        assert one.key == same.key
        try:
            await (ctx.ask("And which?") if second == "ask" else ctx.defer())
        except InvalidInput as error:
            said.append(str(error))
        return one

    async with memory_stage.runtime(Agent("asker", model=script(), tools=[choose])) as rt:
        parked = await rt.session("s").run("Choose.", turn_id="t")

    assert [wait.title for wait in parked.waits] == ["Which?"]
    told = "ctx.ask: this call waits for something else already; ask all of it in one question"
    assert said == [told]


async def test_two_calls_of_a_reply_ask_each_for_itself(stage: Stage) -> None:
    model = ScriptedModel([calls(("choose", {}), ("choose", {})), say("Done.")])
    async with stage.runtime(asker(Desk(), model)) as rt:
        parked = await rt.session("s").run("Choose.", turn_id="t")
        one, two = sorted(parked.waits, key=lambda wait: str(wait.call_id))
        await rt.resolve(two.key, "green")
        assert (await rt.turn("s", "t").result(timeout=HANGS_S)).waits == (one,)
        await rt.resolve(one.key, "blue")
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert [told.text for told in last_told(model)] == ["blue", "green"]


async def test_a_context_that_a_test_made_has_nobody_to_ask() -> None:
    with pytest.raises(ConfigError, match="made by hand"):
        await ToolContext(deps=None).ask("Which?")


async def test_a_secret_is_neither_in_what_is_asked_nor_in_what_is_answered(tmp_path: Path) -> None:
    key = register_secret(Secret("sk-canary-4711-question", name="API_KEY")).reveal()
    stage, model = Stage("sqlite", tmp_path), script()
    schema = {"type": "string", "description": f"not {key}"}
    bot = asker(Desk(), model, question=f"May I use {key}?", schema=schema)
    async with stage.runtime(bot) as rt:
        (wait,) = (await rt.session("s").run("Choose.", turn_id="t")).waits
        await rt.resolve(wait.key, f"Yes, {key} it is.", by="eva")
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert wait.title == "May I use [API_KEY]?"
    assert wait.detail["schema"]["description"] == "not [API_KEY]"
    assert last_told(model) == [Told("call_0_0", "ok", "Yes, [API_KEY] it is.")]
    assert found_in(tmp_path, key) == []


# ------------------------------------------------------------------ where it may be asked


@tool(effect="keyed")
async def choose(ctx: ToolContext[Any]) -> Pending:
    """Have a person choose."""
    return await ctx.ask("Which colour?", schema=COLOURS)


async def test_a_subagent_asks_and_the_answer_goes_up_to_who_called_it(stage: Stage) -> None:
    helper = played("helper", call("choose"), say("It is chosen."), tools=[choose])
    lead = played("lead", asks("helper"), say("Done."), tools=[helper.as_tool()])
    async with stage.runtime(lead) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        (wait,) = await rt.waits("question")
        assert parked.waits == (wait,)  # the leaf: what holds up the turn, levels below it
        assert wait.title == "Which colour?"
        assert wait.session_id != "s"
        await rt.resolve(wait.key, "blue")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.tool_calls[0].outcome.value == "It is chosen."


async def test_a_background_tool_asks_and_the_answer_wakes_the_session(stage: Stage) -> None:
    @tool(effect="keyed", background=True)
    async def survey(ctx: ToolContext[None]) -> Pending:
        """Ask around."""
        return await ctx.ask("Which colour?", schema=COLOURS)

    model = ScriptedModel([call("survey"), say("I am asking."), say("Thanks.")])
    async with stage.runtime(Agent("asker", model=model, tools=[survey])) as rt:
        assert (await rt.session("s").run("Ask.", turn_id="t")).text == "I am asking."
        found: list[Any] = []

        async def is_asked() -> bool:
            found[:] = await rt.waits("question")
            return bool(found)

        await until(is_asked)
        await rt.resolve(found[0].key, "green")
        await all_ended(rt)

        assert await heard(rt) == ["survey (p): green"]


async def test_a_step_of_a_process_asks_and_the_answer_is_its_value(stage: Stage) -> None:
    @process
    async def order(ctx: ProcessContext[Any]) -> Any:  # noqa: ANN401 - what the person said
        return await ctx.tool(choose)

    async with stage.runtime(processes=[order]) as rt:
        handle = await rt.processes.start(order, id="ann")
        found: list[Any] = []

        async def is_asked() -> bool:
            found[:] = await rt.waits("question")
            return bool(found)

        await until(is_asked)
        await rt.resolve(found[0].key, "green")

        assert await handle.result(timeout=HANGS_S) == "green"


# ------------------------------------------------------------------ crashes, everywhere


@pytest.mark.parametrize("effect", ["once", "idempotent"])
async def test_wherever_the_process_dies_the_person_is_asked_once_and_heard(
    effect: Contract,
) -> None:
    def scenario() -> Scenario:
        asked: set[str] = set()

        def agents() -> Agent[None, str]:
            model = ScriptedModel([call("choose"), say("Done.")])
            return asker(Desk(), model, effect=effect)

        def answer(rt: Any, wait: Any) -> object:  # noqa: ANN401 - a runtime and a wait
            asked.add(wait.key)
            return rt.resolve(wait.key, "green")

        def check(result: Any) -> None:  # noqa: ANN401 - a turn's result
            (one,) = result.tool_calls
            # Before its question is durable, a body that is `once` may have acted for all that is known.
            assert one.outcome.value == "green" or one.outcome.status == "unknown"
            assert len(asked) <= 1

        return Scenario(
            agents=agents,
            run=lambda rt: rt.session("s").run("Choose.", turn_id="t"),
            answer=answer,
            check=check,
            allow_unknown=effect == "once",
        )

    report = await kill_everywhere(scenario)

    assert len(report.points) > 10
    assert bool(report.unknown) is (effect == "once")
