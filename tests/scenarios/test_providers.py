"""Providers that fail: an outage parks the turn on a timer, a refusal ends it, nothing is bought twice."""

from __future__ import annotations

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import worker
from windlass import Agent, Generation, Limits, Runtime, tool
from windlass.errors import Malformed, ProviderError, Rejected, Throttled, Unavailable
from windlass.kernel import ModelReply, ModelRequest
from windlass.kernel.outcomes import Stopped
from windlass.ports.model import EmitModelEvent
from windlass.testing import FunctionModel, ScriptedModel, call, say, virtual_clock

DOWN = Unavailable("The line is down.")


async def test_an_outage_parks_the_turn_and_it_goes_on_by_itself(stage: Stage) -> None:
    model = ScriptedModel([DOWN, say("Hi.")])
    async with stage.runtime(worker(Desk(), model)) as rt:
        parked = await rt.session("s").run("Hello.", turn_id="t")
        (wait,) = parked.waits
        assert wait.kind == "provider"
        assert wait.title == "The model scripted does not answer: The line is down."
        assert wait.expires_ms == stage.clock.now_ms() + 1_000
        stage.later(0.999, rt)
        assert (await rt.turn("s", "t").result(timeout=HANGS_S)).parked
        stage.later(0.001, rt)
        await until(lambda: len(model.requests) == 2)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Hi."
    assert result.issues == ()
    assert result.iterations == 1


async def test_an_outage_survives_the_process(stage: Stage) -> None:
    first, second = ScriptedModel([DOWN]), ScriptedModel([say("Hi.")])
    async with stage.runtime(worker(Desk(), first)) as rt:
        await rt.session("s").run("Hello.", turn_id="t")
    stage.later(3_000)
    async with stage.runtime(worker(Desk(), second)) as rt:
        await until(lambda: len(second.requests) == 1)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Hi."


async def test_what_was_recorded_before_an_outage_is_not_done_again(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("work"), DOWN, say("Hi.")])
    async with stage.runtime(worker(desk, model, effect="once")) as rt:
        parked = await rt.session("s").run("Hello.", turn_id="t")
        assert [wait.kind for wait in parked.waits] == ["provider"]
        stage.later(1, rt)
        await until(lambda: len(model.requests) == 3)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert len(desk.runs) == 1
    assert result.text == "Hi."


async def outlast(stage: Stage, rt: Runtime[str], model: FunctionModel) -> list[float]:
    """Wait out every timer of a turn; return how long each was, in seconds."""
    waited: list[float] = []
    result = await rt.session("s").run("Hello.", turn_id="t")
    while result.parked:
        (wait,) = result.waits
        assert wait.kind == "provider"
        assert wait.expires_ms is not None
        waited.append((wait.expires_ms - stage.clock.now_ms()) / 1_000)
        asked = len(model.requests)
        stage.later(waited[-1], rt)
        await until(lambda n=asked: len(model.requests) == n + 1)  # type: ignore[misc]
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "provider_error"
    return waited


async def test_timers_double_up_to_five_minutes_until_patience_is_over(stage: Stage) -> None:
    def down(_request: ModelRequest) -> str:
        raise DOWN

    model = FunctionModel(down)
    async with stage.runtime(worker(Desk(), model)) as rt:
        waited = await outlast(stage, rt, model)

    # Doubling to 256 s, then five minutes each, and what is left of the hour.
    assert waited == [1, 2, 4, 8, 16, 32, 64, 128, 256, *[300] * 10, 89]
    assert sum(waited) == 3_600
    assert len(model.requests) == 21


@pytest.mark.parametrize(
    ("patience", "waits"), [(0, []), (2, [1, 1]), (7, [1, 2, 4])], ids=["none", "two", "seven"]
)
async def test_patience_is_a_limit_of_the_turn(
    memory_stage: Stage, patience: float, waits: list[float]
) -> None:
    def down(_request: ModelRequest) -> str:
        raise DOWN

    model = FunctionModel(down)
    agent = worker(Desk(), model, limits=Limits(provider_patience=patience))
    async with memory_stage.runtime(agent) as rt:
        assert await outlast(memory_stage, rt, model) == waits


@pytest.mark.parametrize(
    ("wish", "waits_s"),
    [
        (None, 1),
        (30, 30),
        (0.2, 1),
        (-5, 1),
        (10_000, 300),
        (float("inf"), 300),
        (float("nan"), 1),
    ],
    ids=["none", "wish", "shorter", "negative", "absurd", "infinite", "nan"],
)
async def test_the_providers_wish_is_respected_within_reason(
    memory_stage: Stage, wish: float | None, waits_s: float
) -> None:
    model = ScriptedModel([Throttled("Too many.", retry_after_s=wish), say("Hi.")])
    async with memory_stage.runtime(worker(Desk(), model)) as rt:
        parked = await rt.session("s").run("Hello.", turn_id="t")
        (wait,) = parked.waits

    assert wait.expires_ms == memory_stage.clock.now_ms() + waits_s * 1_000


@pytest.mark.parametrize(
    "error", [Rejected("No."), Malformed("What?"), ProviderError("Hm.")], ids=lambda e: e.code
)
async def test_what_will_not_go_better_ends_the_turn_at_once(
    stage: Stage, error: ProviderError
) -> None:
    model = ScriptedModel([error, say("Next.")])
    async with stage.runtime(worker(Desk(), model)) as rt:
        result = await rt.session("s").run("Hello.", turn_id="t")
        after = await rt.session("s").run("And?", turn_id="t2")

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "provider_error"
    assert str(error) in result.outcome.detail
    assert after.text == "Next."
    assert len(model.requests) == 2


class Broken:
    """A foreign adapter that does not do what the port says."""

    name = "broken"

    def __init__(self, answer: object) -> None:
        self._answer = answer

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer  # type: ignore[return-value]  # that is the point


@pytest.mark.parametrize(
    "answer",
    [RuntimeError("key sk-123"), None, "Hi.", {"text": "Hi."}, StopIteration()],
    ids=["raises", "none", "text", "dict", "stop"],
)
async def test_a_broken_adapter_is_an_outcome_and_its_words_stay_inside(
    memory_stage: Stage, answer: object
) -> None:
    async with memory_stage.runtime(worker(Desk(), Broken(answer))) as rt:  # type: ignore[arg-type]
        result = await rt.session("s").run("Hello.", turn_id="t")

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "provider_error"
    assert "sk-123" not in result.outcome.detail


async def test_retry_does_not_wait_for_the_timer(stage: Stage) -> None:
    model = ScriptedModel([DOWN, say("Hi.")])
    async with stage.runtime(worker(Desk(), model)) as rt:
        await rt.session("s").run("Hello.", turn_id="t")
        assert await rt.retry("s", "t") is True
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Hi."


async def test_a_turn_that_waits_for_its_provider_can_be_cancelled(stage: Stage) -> None:
    model = ScriptedModel([DOWN, say("Hi.")])
    async with stage.runtime(worker(Desk(), model)) as rt:
        await rt.session("s").run("Hello.", turn_id="t")
        await rt.cancel("s", "t", "enough")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.outcome == Stopped(reason="cancelled", detail="enough")
    assert len(model.requests) == 1


async def test_a_clock_that_is_put_back_neither_fires_nor_hangs(stage: Stage) -> None:
    """A worker with another clock: the first due time is kept."""
    model = ScriptedModel([DOWN, say("Hi.")])
    async with stage.runtime(worker(Desk(), model)) as rt:
        parked = await rt.session("s").run("Hello.", turn_id="t")
    behind = virtual_clock(stage.clock.now_ms() - 3_600_000)
    async with stage.runtime(worker(Desk(), model), clock=behind) as rt:
        rt._worker.kick()
        still = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert still.waits == parked.waits
        behind.advance(3_601)
        rt._worker.kick()
        await until(lambda: len(model.requests) == 2)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Hi."


async def test_an_adapter_that_breaks_ends_the_turn_and_the_log_says_where_but_not_what_it_said(
    memory_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request: ModelRequest) -> str:
        raise KeyError(request)

    async with memory_stage.runtime(Agent("a", model=FunctionModel(broken, name="m"))) as rt:
        result = await rt.session("s").run("My name is Ada.")

    assert result.outcome == Stopped(
        reason="provider_error", detail="the model adapter raised KeyError"
    )
    assert f'File "{__file__}"' in caplog.text
    assert "in broken" in caplog.text
    assert "Ada" not in caplog.text


async def test_a_setting_in_whole_numbers_is_the_same_when_the_turn_goes_on(stage: Stage) -> None:
    """0 and 0.0 are equal and have other bytes; the journal holds the digest of what was asked."""

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([call("look"), DOWN, say("Hi.")])
    agent = Agent("a", model=model, tools=[look], generation=Generation(temperature=0, top_p=1))
    async with stage.runtime(agent) as rt:
        assert (await rt.session("s").run("Hello.", turn_id="t")).waits[0].kind == "provider"
        stage.later(1.0, rt)
        result = await rt.turn("s", "t").result(through_parks=["provider"], timeout=HANGS_S)

    assert (result.text, result.waits) == ("Hi.", ())
