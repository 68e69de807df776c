"""The output budget and redaction in whole turns: on every store, together, and across crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user, told, turn_view, words
from tests.scenarios.stage import DAY_S, STORES, Desk, Stage
from windlass import Agent, Runtime, tool
from windlass.journal import CallReturned
from windlass.kernel import Message, ModelReply, ModelRequest, ToolResult, events
from windlass.kernel.messages import Attachment, ResultPart, Text
from windlass.kernel.tool_call import CompletedToolCall
from windlass.plugins.output_budget import OutputBudget
from windlass.plugins.redaction import Redaction
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.tool import Tool
from windlass.testing import FunctionModel, Scenario, ScriptedModel, call, kill_everywhere, say

BOB = "bob@example.com"
LOG = "\n".join(f"{n}: {BOB}" for n in range(1, 1_001))


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


def log_tool(desk: Desk | None = None, **options: Any) -> Tool:
    @tool(effect="once", **options)
    async def log() -> str:
        """Read the log."""
        if desk is not None:
            desk.runs.append("log")
        return LOG

    return log


def agent(
    model: ScriptedModel | FunctionModel, *plugins: Plugin, **options: Any
) -> Agent[Any, Any]:
    tools = options.pop("tools", None) or [log_tool()]
    return Agent("a", model=model, tools=tools, plugins=list(plugins), **options)


def attachments(messages: Sequence[Any]) -> list[Attachment]:
    """Every attachment that messages refer to, in results too."""
    return [
        one
        for message in messages
        for part in message.parts
        for one in (part.content if isinstance(part, ToolResult) else (part,))
        if isinstance(one, Attachment)
    ]


def last_result(request: ModelRequest) -> str:
    return told(request)[-1].text


def reads_on(request: ModelRequest, **more: Any) -> ModelReply:
    """What a model does that reads on: it takes the ref from the note."""
    ref = last_result(request).split('ref="')[1][:12]
    return call("read_output", ref=ref, **more)


async def blob(runtime: Runtime[Any], ref: str) -> bytes:
    data: bytes = await runtime._services.store.get_blob(ref)
    return data


# ---------------------------------------------------------------------- the budget


async def test_a_model_sees_a_window_and_reads_on_by_ref_and_later_by_call(stage: Stage) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        seen = told(request)
        if not seen:
            return call("log")
        if len(seen) == 1:
            return reads_on(request, start=998)
        if said_by_user(request)[-1] == "Again.":
            return (
                call("read_output", call_id=seen[0].call_id, start=1_000)
                if len(seen) == 2
                else say("Ok.")
            )
        return say("Read.")

    model = FunctionModel(answer)
    async with stage.runtime(agent(model, OutputBudget())) as rt:
        first = await rt.session("s").run("Go.", turn_id="t1")
        second = await rt.session("s").run("Again.", turn_id="t2")

    assert (first.text, second.text) == ("Read.", "Ok.")
    window, page, last = (one.text for one in told(model.requests[-1]))
    lines = window.splitlines()
    assert (len(lines), lines[0], lines[398]) == (400, f"1: {BOB}", f"399: {BOB}")
    assert "lines are cut here; read_output(" in lines[399]
    assert "start=400)" in lines[399]
    assert page.splitlines()[1:] == [f"{n}: {BOB}" for n in (998, 999, 1_000)]
    assert last.splitlines()[1:] == [f"1000: {BOB}"]


async def test_what_is_kept_outlives_the_turns_journal(stage: Stage) -> None:
    model = ScriptedModel([call("log"), say("Read.")])
    async with stage.runtime(agent(model, OutputBudget())) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
    stage.later(30 * DAY_S)
    async with stage.runtime(agent(model, OutputBudget())) as rt:
        await rt.vacuum()
        (kept,) = attachments(await rt.session("s").history())

        assert kept.name == f"log-{result.tool_calls[0].call_id}.txt"
        assert await blob(rt, kept.ref) == LOG.encode()


async def test_another_sessions_output_is_not_read_even_by_its_digest(stage: Stage) -> None:
    refs: list[str] = []

    def answer(request: ModelRequest) -> ModelReply:
        if said_by_user(request)[0] == "Mine.":
            return say("Ok.") if told(request) else call("log")
        return say("No.") if told(request) else call("read_output", ref=refs[0])

    model = FunctionModel(answer)
    async with stage.runtime(agent(model, OutputBudget())) as rt:
        await rt.session("mine").run("Mine.")
        refs += [one.ref for one in attachments(await rt.session("mine").history())]
        result = await rt.session("other").run("Theirs.")

    outcome = result.tool_calls[0].outcome
    assert outcome.status == "error"
    assert "No output of this session has that ref." in str(outcome.value)


# ---------------------------------------------------------------------- crashes


async def test_what_was_presented_before_a_crash_is_what_is_shown_after_it(stage: Stage) -> None:
    """The second process has another budget: nothing is presented twice."""
    desk, asked = Desk(), asyncio.Event()
    seen: list[str] = []

    async def hangs(request: ModelRequest) -> ModelReply:
        if not told(request):
            return call("log")
        seen.append(last_result(request))
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    def goes_on(request: ModelRequest) -> ModelReply:
        seen.append(last_result(request))
        return say("Read.")

    tools = [log_tool(desk)]
    async with stage.runtime(
        agent(FunctionModel(hangs, name="m"), OutputBudget(), tools=tools)
    ) as dying:
        await dying.session("s").submit("Go.", turn_id="t")
        await asked.wait()
        await settled(dying)
        stage.kill(dying)
        other = agent(FunctionModel(goes_on, name="m"), OutputBudget(max_lines=10), tools=tools)
        async with stage.runtime(other) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Read."
    assert desk.runs == ["log"]
    assert seen[0] == seen[1]
    assert len(seen[0].splitlines()) == 400


async def settled(runtime: Runtime[Any]) -> None:
    """Wait until all that the turn has to write is in the store."""
    n_pages = -1
    while (found := len((await turn_view(runtime, "s", "t")).pages)) != n_pages:
        n_pages = found
        for _ in range(100):
            await asyncio.sleep(0)


class Slow(OutputBudget):
    """Waits once it has kept the output and before it has said anything."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk

    async def present_result(
        self, turn: PluginTurn, call: CompletedToolCall
    ) -> Sequence[ResultPart] | None:
        shown = await super().present_result(turn, call)
        await self.desk.work(shown)
        return shown


async def test_a_crash_in_the_middle_of_presenting_presents_again_and_runs_nothing_again(
    stage: Stage,
) -> None:
    bodies, first, second = Desk(), Desk(is_open=False), Desk()
    tools = [log_tool(bodies)]
    model = ScriptedModel([call("log"), say("Read.")], name="m")
    async with stage.runtime(agent(model, Slow(first), tools=tools)) as dying:
        await dying.session("s").submit("Go.", turn_id="t")
        await first.entered.wait()
        await settled(dying)
        stage.kill(dying)
        async with stage.runtime(agent(model, Slow(second), tools=tools)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            (kept,) = attachments(await rt.session("s").history())
            data = await blob(rt, kept.ref)
        first.gate.set()

    assert result.text == "Read."
    assert bodies.runs == ["log"]
    assert first.runs == second.runs != []
    assert data == LOG.encode()


async def test_a_turn_with_both_plugins_survives_a_crash_at_every_point() -> None:
    def scenario() -> Scenario:
        desk = Desk()

        def answer(request: ModelRequest) -> ModelReply:
            seen = told(request)
            if len(seen) < 2:
                return reads_on(request, start=1_000) if seen else call("log")
            return say(f"{BOB} read {seen[1].text.splitlines()[-1]}")

        def check(result: Any) -> None:  # noqa: ANN401 - a turn's result
            assert result.text == "[email] read 1000: [email]"
            assert desk.runs == ["log"] or result.issues
            assert len({one.ref for one in attachments(result.messages)}) == 1
            assert BOB not in str(result.messages)

        return Scenario(
            agents=lambda: agent(
                FunctionModel(answer, name="m"),
                OutputBudget(),
                Redaction(output=True),
                tools=[keyed_log(desk)],
            ),
            run=lambda rt: rt.session("s").run("Go.", turn_id="t"),
            check=check,
        )

    report = await kill_everywhere(scenario)

    assert len(report.points) > 15
    assert (report.unknown, report.missed) == ((), ())


def keyed_log(desk: Desk) -> Tool:
    @tool(effect="keyed")
    async def log() -> str:
        """Read the log."""
        if not desk.runs:
            desk.runs.append("log")
        return LOG

    return log


# ---------------------------------------------------------------------- redaction


async def test_the_history_and_the_model_have_no_address_and_the_journal_has(stage: Stage) -> None:
    model = ScriptedModel([call("log"), say("Read.")])
    async with stage.runtime(agent(model, Redaction())) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        history = await rt.session("s").history()
        view = await turn_view(rt, "s", "t")

    assert last_result(model.requests[-1]).startswith("1: [email]\n2: [email]\n")
    assert BOB not in str(history) + str(result.tool_calls) + str(result.messages)
    assert raw_results(view) == [LOG]  # what the page says: the raw result is in the journal


def raw_results(view: Any) -> list[object]:  # noqa: ANN401 - a turn as the store has it
    return [
        row.outcome.outcome.value
        for row in view.journal().rows()
        if isinstance(row.outcome, CallReturned)
    ]


async def test_the_whole_text_of_a_cut_result_is_kept_redacted_and_outlives_the_journal(
    stage: Stage,
) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        seen = told(request)
        if len(seen) == 1:
            return reads_on(request, start=1_000)
        return say("Read.") if seen else call("log")

    model = FunctionModel(answer)
    tools = [log_tool(output_limit=17_000)]
    plugins = OutputBudget(), Redaction()
    async with stage.runtime(agent(model, *plugins, tools=tools)) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        (kept,) = {one.ref for one in attachments(await rt.session("s").history())}
        raw = raw_whole(await turn_view(rt, "s", "t"))
        assert (await blob(rt, kept)) == LOG.replace(BOB, "[email]").encode()
        assert (await blob(rt, raw)) == LOG.encode()
    assert result.text == "Read."
    assert last_result(model.requests[-1]).splitlines()[1:] == ["1000: [email]"]

    stage.later(30 * DAY_S)
    async with stage.runtime(agent(model, *plugins, tools=tools)) as rt:
        await rt.vacuum()
        assert (await blob(rt, kept)).startswith(b"1: [email]")


def raw_whole(view: Any) -> str:  # noqa: ANN401 - a turn as the store has it
    (whole,) = {
        part.ref
        for row in view.journal().rows()
        if isinstance(row.outcome, CallReturned)
        for part in row.outcome.outcome.content
        if isinstance(part, Attachment) and part.name == "full-output"
    }
    return whole


async def test_the_raw_whole_text_cannot_be_read_on(stage: Stage) -> None:
    raw = sha256(LOG.encode()).hexdigest()

    def answer(request: ModelRequest) -> ModelReply:
        seen = told(request)
        if len(seen) == 1:
            return call("read_output", ref=raw)
        return say("Read.") if seen else call("log")

    model = FunctionModel(answer)
    tools = [log_tool(output_limit=17_000)]
    async with stage.runtime(agent(model, OutputBudget(), Redaction(), tools=tools)) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert result.tool_calls[1].outcome.status == "error"
    assert BOB not in str(result.messages)


async def test_what_a_person_says_is_in_the_history_without_it(stage: Stage) -> None:
    model = ScriptedModel([say("Hello.")])
    async with stage.runtime(agent(model, Redaction(input=True))) as rt:
        await rt.session("s").run(f"I am {BOB}.", turn_id="t")
        history = await rt.session("s").history()

    assert said_by_user(model.requests[0]) == ["I am [email]."]
    assert [words(message.parts) for message in history] == ["I am [email].", "Hello."]


async def test_what_the_model_says_is_shown_when_it_is_final_and_without_it(stage: Stage) -> None:
    model = ScriptedModel([call("log"), say(f"Ask {BOB}, please.")])
    async with (
        stage.runtime(agent(model, Redaction(output=True))) as rt,
        rt.session("s").stream("Who knows?", turn_id="t") as turn,
    ):
        shown = [event async for event in turn]
        result = await turn.result()

    assert result.text == "Ask [email], please."
    assert BOB not in str(shown)
    said = [one.text for one in shown if isinstance(one, events.TextDelta)]
    assert said == ["Ask [email], please."]
    assert isinstance(result.messages[-1], Message)
    assert result.messages[-1].parts == (Text(text="Ask [email], please."),)
