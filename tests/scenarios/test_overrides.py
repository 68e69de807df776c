"""Overrides: what is asked for one turn holds for that turn, also after a crash, and for no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import words
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import echo, worker
from windlass import Generation, Limits, TurnInfo
from windlass.errors import CallerError, ConfigError, InvalidInput, WindlassError
from windlass.kernel import ModelRequest
from windlass.kernel.outcomes import FinishedValue, Stopped
from windlass.testing import FunctionModel, ScriptedModel, call, say


def prompt_of(request: ModelRequest) -> str:
    """Return the system prompt of a request."""
    first = request.messages[0]
    return words(first.parts) if first.role == "system" else ""


async def survived(stage: Stage, first: Any, second: Any, **options: Any) -> Any:  # noqa: ANN401 - models, results
    """Run a turn with options, lose its worker inside a tool, and return how another one ends it."""
    desk = Desk(is_open=False)
    models = options.pop("models", ())
    async with stage.runtime(
        worker(desk, first, instructions="The agent's.", limits=Limits(max_iterations=9)),
        models=models,
    ) as lost:
        await lost.session("s").submit("work", turn_id="t", **options)
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(
            worker(Desk(), second, instructions="New words.", limits=Limits(max_iterations=1)),
            models=models,
        ) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            # The next turn is the agent's own again.
            await rt.session("s").run("Hello.", turn_id="t2", limits=Limits())
        desk.gate.set()
        return result


async def test_a_prompt_for_one_turn_survives_its_worker(stage: Stage) -> None:
    first, second = echo(), echo()
    result = await survived(stage, first, second, prompt="Only now.")

    assert result.text == "worked"
    assert [prompt_of(request) for request in first.requests] == ["Only now."]
    assert [prompt_of(request) for request in second.requests] == ["Only now.", "New words."]


async def test_without_one_the_prompt_it_began_with_survives(stage: Stage) -> None:
    first, second = echo(), echo()
    await survived(stage, first, second)

    assert [prompt_of(request) for request in second.requests] == ["The agent's.", "New words."]


async def test_generation_for_one_turn_survives_its_worker(stage: Stage) -> None:
    first, second = echo(), echo()
    wanted = Generation(temperature=0.25, max_output_tokens=99, stop=("END",))
    await survived(stage, first, second, generation=wanted)

    assert first.requests[0].generation == wanted
    assert [request.generation for request in second.requests] == [wanted, Generation()]


async def test_limits_for_one_turn_survive_its_worker(stage: Stage) -> None:
    first, second = echo(), echo()
    result = await survived(stage, first, second, limits=Limits(max_tool_calls=5))
    assert result.text == "worked"  # the new code's limit of one iteration did not hold


async def test_limits_for_one_turn_replace_the_agents(stage: Stage) -> None:
    agent = worker(Desk(), echo(), limits=Limits(max_tool_calls=5))
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("work", limits=Limits(max_tool_calls=0))
        again = await rt.session("s").run("work")

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "limit"
    assert again.text == "worked"


async def test_a_model_for_one_turn_survives_its_worker(stage: Stage) -> None:
    first, second = echo(), echo()
    wanted = FunctionModel(echo()._fn, name="wanted")
    result = await survived(stage, first, second, model="wanted", models=[wanted])

    assert result.text == "worked"
    assert first.requests == []
    assert len(wanted.requests) == 2
    assert len(second.requests) == 1  # the next turn
    assert {line.model for line in result.usage.lines} == {"wanted"}


async def test_a_model_object_may_be_given_for_one_turn(stage: Stage) -> None:
    own, other = echo(), ScriptedModel([say("Other.")], name="other")
    async with stage.runtime(worker(Desk(), own)) as rt:
        result = await rt.session("s").run("Hello.", model=other)
        again = await rt.session("s").run("Hello.")

    assert (result.text, again.text) == ("Other.", "You said: Hello.")


async def test_a_model_that_nobody_knows_is_refused_at_the_door(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        with pytest.raises((ConfigError, InvalidInput)):
            await rt.session("s").run("Hello.", turn_id="t", model="nobody")
        assert await rt.sessions() == ()


@dataclass
class Answer:
    n: int


async def test_an_output_type_for_one_turn_survives_its_worker(stage: Stage) -> None:
    first = ScriptedModel([call("work"), say("lost")])
    second = ScriptedModel([call("work"), say('{"n": "no"}'), say('{"n": 7}'), say("Hello.")])
    result = await survived(stage, first, second, output_type=Answer)

    assert result.outcome == FinishedValue(value={"n": 7})
    assert first.requests[0].output is not None
    assert second.requests[0].output == first.requests[0].output
    assert second.requests[-1].output is None  # the next turn


async def test_whoever_asks_again_with_the_type_gets_the_value_as_that_type(stage: Stage) -> None:
    model = ScriptedModel([say('{"n": 7}')])
    async with stage.runtime(worker(Desk(), model)) as rt:
        first = await rt.session("s").run("Hello.", turn_id="t", output_type=Answer)
        again = await rt.session("s").run("Hello.", turn_id="t", output_type=Answer)

    assert first.output == again.output == Answer(n=7)


async def test_context_reaches_instructions_and_deps_also_after_a_crash(stage: Stage) -> None:
    seen: list[TurnInfo] = []

    def instructions(info: TurnInfo) -> str:
        return f"Speak {info.context['lang']}."

    desk, first, second = Desk(is_open=False), echo(), echo()
    context = {"lang": "de", "nested": {"list": [1, 2]}}
    async with stage.runtime(
        worker(desk, first, instructions=instructions), deps=seen.append
    ) as lost:
        await lost.session("s").submit("work", turn_id="t", context=context)
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(
            worker(Desk(), second, instructions=instructions), deps=seen.append
        ) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert prompt_of(first.requests[0]) == prompt_of(second.requests[0]) == "Speak de."
    assert [info.context for info in seen] == [context, context]


@pytest.mark.parametrize(
    "bad",
    [
        {"context": {"x": object()}},
        {"context": {"x": float("inf")}},
        {"context": {1: 2}},
        {"context": {"x": "a" * 5_000_000}},
        {"limits": {"max_iterations": 1}},
        {"generation": {"temperature": 1}},
        {"prompt": 7},
        {"prompt": "\ud800"},
    ],
    ids=["object", "infinity", "key", "huge", "limits", "generation", "prompt", "surrogate"],
)
async def test_overrides_that_cannot_be_kept_are_refused_at_the_door(
    memory_stage: Stage, bad: dict[str, Any]
) -> None:
    async with memory_stage.runtime(worker(Desk(), echo())) as rt:
        with pytest.raises(CallerError):
            await rt.session("s").run("Hello.", turn_id="t", **bad)
        assert await rt.sessions() == ()


@pytest.mark.parametrize("kind", ["sync", "async", "with-deps"])
async def test_instructions_may_be_made_for_each_turn(stage: Stage, kind: str) -> None:
    def plain(info: TurnInfo) -> str:
        return f"For {info.session_id}/{info.turn_id}."

    async def later(info: TurnInfo) -> str:
        return f"For {info.session_id}/{info.turn_id}."

    def with_deps(info: TurnInfo, deps: str) -> str:
        return f"For {info.session_id}/{info.turn_id}, {deps}."

    given = {"sync": plain, "async": later, "with-deps": with_deps}[kind]
    model = echo()
    async with stage.runtime(
        worker(Desk(), model, instructions=given), deps=lambda info: "eva"
    ) as rt:
        await rt.session("s").run("Hello.", turn_id="t1")
        await rt.session("s").run("Hello.", turn_id="t2")

    tail = ", eva." if kind == "with-deps" else "."
    assert [prompt_of(request) for request in model.requests] == [
        f"For s/t1{tail}",
        f"For s/t2{tail}",
    ]


async def test_instructions_are_made_once_per_turn_however_often_it_is_driven(
    stage: Stage,
) -> None:
    made: list[str] = []

    def instructions(info: TurnInfo) -> str:
        made.append(info.turn_id)
        return f"Number {len(made)}."

    desk, first, second = Desk(is_open=False), echo(), echo()
    async with stage.runtime(worker(desk, first, instructions=instructions)) as lost:
        await lost.session("s").submit("work", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(Desk(), second, instructions=instructions)) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert made == ["t"]
    assert prompt_of(second.requests[0]) == "Number 1."


async def test_instructions_that_raise_end_the_turn_and_not_the_runtime(stage: Stage) -> None:
    def instructions(info: TurnInfo) -> str:
        raise RuntimeError("broken")

    async with stage.runtime(worker(Desk(), echo(), instructions=instructions)) as rt:
        try:
            result = await rt.session("s").run("Hello.", turn_id="t")
        except WindlassError:
            pass
        else:
            assert isinstance(result.outcome, Stopped)
        assert (await rt.status()).driving == ()
