"""Model retry in whole turns: who is asked, what is shown of it, and what a session learns."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import STORES, Stage, until
from tests.scenarios.watching import shown_text
from windlass import Agent
from windlass.errors import Rejected, Throttled, Unavailable
from windlass.kernel import ModelReply, ModelRequest, Usage, events
from windlass.kernel.outcomes import Stopped
from windlass.plugins.model_retry import ModelRetry
from windlass.ports.model import EmitModelEvent, Model, TextChunk
from windlass.testing import ScriptedModel, say

DOWN = Unavailable("down")
USED = Usage(input_tokens=1)


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


@pytest.fixture
def memory_stage(tmp_path: Path) -> Stage:
    """For claims that no store has a part in."""
    return Stage("memory", tmp_path)


class Weather:
    """A model that is up or down as the test says, and shows half a sentence before it fails."""

    def __init__(self, name: str, *, is_up: bool = True) -> None:
        self.name = name
        self.is_up = is_up
        self.asked = 0

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        self.asked += 1
        if not self.is_up:
            emit(TextChunk(text=f"I am {self.name}, and I"))
            raise DOWN
        emit(TextChunk(text=f"I am {self.name}."))
        return say(f"I am {self.name}.", usage=USED)


def clerk(model: Model, **options: Any) -> Agent[None, str]:
    options.setdefault("first_s", 0)
    return Agent("clerk", model=model, plugins=[ModelRetry(**options)])


async def test_a_call_that_failed_is_made_again_and_what_it_showed_is_taken_back(
    stage: Stage,
) -> None:
    model, other = Weather("a", is_up=False), Weather("b")
    async with stage.runtime(clerk(model, fallbacks=["b"]), models=[other]) as rt:
        async with rt.session("s").stream("Go.") as turn:
            seen = [event async for event in turn]
        result = await turn.result()

    assert result.text == "I am b."
    assert (model.asked, other.asked) == (3, 1)
    assert shown_text(seen) == "I am b."
    assert sum(isinstance(event, events.Retracted) for event in seen) == 3
    again = [event for event in seen if isinstance(event, events.Retrying)]
    assert [(event.attempt, event.reason) for event in again] == [
        (2, "down"),
        (3, "down"),
        (4, "down"),
    ]


async def test_a_reply_is_counted_under_the_model_that_gave_it(stage: Stage) -> None:
    model, other = Weather("a", is_up=False), Weather("b")
    async with stage.runtime(clerk(model, fallbacks=["b"]), models=[other]) as rt:
        result = await rt.session("s").run("Go.")
        ledger = await rt.session("s").usage()
    for report in (result.usage, ledger):
        assert [(line.model, line.calls, line.usage) for line in report.lines] == [("b", 1, USED)]


async def test_waits_are_waited_out_on_the_runtimes_clock(memory_stage: Stage) -> None:
    model = ScriptedModel([Throttled("slow", retry_after_s=7), say("Hi.")])
    async with memory_stage.runtime(clerk(model, first_s=1, jitter=0)) as rt:
        handle = await rt.session("s").submit("Go.")
        await until(lambda: len(model.requests) == 1)
        # The runtime has sleepers of its own: time is moved until the call is made again.
        waited = 0.0
        while len(model.requests) == 1:
            await memory_stage.clock.until_asleep()
            memory_stage.clock.advance(0.5)
            waited += 0.5
            await _settle()
        result = await handle.result(timeout=HANGS_S)
    assert result.text == "Hi."
    assert 7.0 <= waited <= 8.0


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_when_nobody_answers_the_turn_waits_on_the_runtimes_timer(stage: Stage) -> None:
    model, other = Weather("a", is_up=False), Weather("b", is_up=False)
    agent = clerk(model, attempts=2, fallbacks=["b"])
    async with stage.runtime(agent, models=[other]) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        assert [wait.kind for wait in parked.waits] == ["provider"]
        assert (model.asked, other.asked) == (2, 2)
        model.is_up = True
        stage.later(1, rt)
        await until(lambda: model.asked == 3)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
    assert result.text == "I am a."


async def test_a_model_to_fall_back_on_that_is_not_here_is_passed_over_and_said(
    stage: Stage,
) -> None:
    model, other = Weather("a", is_up=False), Weather("b")
    async with stage.runtime(clerk(model, fallbacks=["nope", "b"]), models=[other]) as rt:
        result = await rt.session("s").run("Go.")

    assert result.text == "I am b."
    assert [issue.code for issue in result.issues] == ["model_missing"]
    assert "the model nope, to fall back on, is not here" in result.issues[0].message


async def test_if_no_model_to_fall_back_on_is_here_the_turn_waits_on_the_timer(
    stage: Stage,
) -> None:
    async with stage.runtime(clerk(Weather("a", is_up=False), fallbacks=["nope"])) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")

    assert [wait.kind for wait in parked.waits] == ["provider"]


async def test_what_is_refused_is_not_asked_again(stage: Stage) -> None:
    model, other = ScriptedModel([Rejected("no")], name="a"), Weather("b")
    async with stage.runtime(clerk(model, fallbacks=["b"]), models=[other]) as rt:
        result = await rt.session("s").run("Go.")
    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "provider_error"
    assert (len(model.requests), other.asked) == (1, 0)


async def test_a_session_learns_which_model_is_down_and_that_it_is_back(stage: Stage) -> None:
    model, other = Weather("a", is_up=False), Weather("b")

    def worker() -> Agent[None, str]:
        return clerk(model, attempts=1, fallbacks=["b"], breaker=2, breaker_s=60)

    async def run(number: int) -> tuple[str, int]:
        """Run a turn in a process of its own; return what was said and how often the first was asked."""
        before = model.asked
        async with stage.runtime(worker(), models=[other]) as rt:
            result = await rt.session("s").run("Go.", turn_id=f"t{number}")
        return result.text, model.asked - before

    assert [await run(number) for number in range(3)] == [
        ("I am b.", 1),
        ("I am b.", 1),  # twice in a row: from now on it is left alone
        ("I am b.", 0),
    ]
    stage.later(60)
    assert await run(3) == ("I am b.", 1)  # one try, in vain
    assert await run(4) == ("I am b.", 0)
    model.is_up = True
    stage.later(60)
    assert await run(5) == ("I am a.", 1)
    model.is_up = False
    assert await run(6) == ("I am b.", 1)  # it began anew: one failure is none
    model.is_up = True
    assert await run(7) == ("I am a.", 1)
