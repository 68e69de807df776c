"""A reply without end is ended: by its size, by its time, by the time of its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage
from windlass import Agent, Limits, ToolContext, TurnResult, tool
from windlass.errors import ProviderError
from windlass.kernel import (
    Citation,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    events,
)
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import ReasoningChunk, TextChunk
from windlass.ports.model import AttemptFailed, EmitModelEvent
from windlass.testing import FunctionModel, ScriptedModel, call, say

Show = Callable[[EmitModelEvent], None]
SOON_S = 0.05


class Endless:
    """A provider whose stream never ends. `ended` counts the streams that were closed."""

    name = "endless"

    def __init__(self, show: Show, *, ignores_cancels: int = 0) -> None:
        self._show = show
        self._ignores = ignores_cancels
        self.ended = 0

    async def complete(self, _request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Show something, again and again."""
        try:
            while True:
                self._show(emit)
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    if not self._ignores:
                        raise
                    self._ignores -= 1
        finally:
            self.ended += 1


def words(emit: EmitModelEvent) -> None:
    emit(TextChunk(text="word " * 20))


def thoughts(emit: EmitModelEvent) -> None:
    emit(ReasoningChunk(text="hm " * 20))


def pings(_emit: EmitModelEvent) -> None:
    """Bytes arrive, and nothing of a reply with them."""


def attempts(emit: EmitModelEvent) -> None:
    emit(TextChunk(text="w" * 900))
    emit(AttemptFailed(reason="cut off"))


async def turn_of(stage: Stage, agent: Agent[None, str]) -> tuple[TurnResult[str], list[object]]:
    seen: list[object] = []
    async with asyncio.timeout(HANGS_S), stage.runtime(agent) as rt:
        async with rt.session("s").stream("Go.", turn_id="t") as turn:
            seen += [event async for event in turn]
            result = await turn.result()
        after = await rt.session("s").run("And?", model=ScriptedModel([say("fine")], name="good"))
    assert after.text == "fine"
    return result, seen


@pytest.mark.parametrize("show", [words, thoughts])
async def test_a_stream_of_words_or_thoughts_without_end_ends_at_the_size_of_a_reply(
    stage: Stage, show: Show
) -> None:
    model = Endless(show)
    agent = Agent("a", model=model, limits=Limits(max_reply_bytes=1_000))

    result, seen = await turn_of(stage, agent)

    detail = "The reply is larger than 1,000 bytes, which is the limit (max_reply_bytes)."
    assert result.outcome == Stopped(reason="limit", detail=detail)
    assert model.ended == 1  # its connection was closed
    errors = [event for event in seen if isinstance(event, events.Error)]
    assert [(error.code, error.terminal) for error in errors] == [("max_reply_bytes", "limit")]
    retracted = [event for event in seen if isinstance(event, events.Retracted)]
    assert len(retracted) == 1  # nothing of what was shown is kept
    assert [message.role for message in result.messages] == ["user"]


async def test_a_stream_that_only_pings_ends_at_the_time_of_a_call(stage: Stage) -> None:
    model = Endless(pings)
    agent = Agent("a", model=model, limits=Limits(max_call_seconds=SOON_S))

    result, _ = await turn_of(stage, agent)

    detail = "The model call took 0.05 seconds, which is the limit (max_call_seconds)."
    assert result.outcome == Stopped(reason="limit", detail=detail)
    assert model.ended == 1


async def test_the_time_of_a_turn_holds_while_a_reply_streams(stage: Stage) -> None:
    model = Endless(pings)
    agent = Agent("a", model=model, limits=Limits(max_seconds=SOON_S))

    result, _ = await turn_of(stage, agent)

    detail = "The turn took 0.05 seconds, which is the limit (max_seconds)."
    assert result.outcome == Stopped(reason="limit", detail=detail)
    assert model.ended == 1


async def test_an_adapter_that_does_not_let_itself_be_interrupted_is_told_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.runtime.reply_bounds._AGAIN_S", 0.01)
    model = Endless(pings, ignores_cancels=2)
    agent = Agent("a", model=model, limits=Limits(max_call_seconds=SOON_S))

    result, _ = await turn_of(stage, agent)

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "limit"
    assert model.ended == 1


async def test_what_an_adapter_took_back_does_not_count(stage: Stage) -> None:
    model = Endless(attempts)
    limits = Limits(max_reply_bytes=1_000, max_call_seconds=SOON_S)

    result, _ = await turn_of(stage, Agent("a", model=model, limits=limits))

    assert isinstance(result.outcome, Stopped)
    assert "max_call_seconds" in result.outcome.detail


REPLIES = {
    "text": lambda n: say("x" * n),
    "text of two bytes a character": lambda n: say("ö" * (n // 2) + "x" * (n % 2)),
    "thoughts": lambda n: ModelReply(parts=(Reasoning(text="x" * (n - 6)), Text(text="ok"))),
    # `{"type":"citation","quote":"…"}` is 30 bytes and the quote; `{"a":"…"}` is 8 and the blob.
    "pages": lambda n: ModelReply(
        parts=(Text(text="ok", citations=(Citation(quote="x" * (n - 32)),)),)
    ),
    "what a provider found": lambda n: ModelReply(
        parts=(
            ServerToolCall(name="search", text="q", replay={"a": "x" * (n - 11)}),
            Text(text="ok"),
        )
    ),
    "arguments as they were written": lambda n: ModelReply(
        parts=(ToolCall(call_id="c", name="act", raw='{"s":"' + "x" * (n - 8) + '"}'),)
    ),
    "arguments as a value": lambda n: ModelReply(
        parts=(ToolCall(call_id="c", name="act", args={"s": "x" * (n - 8)}),)
    ),
}


@pytest.mark.parametrize("made", REPLIES.values(), ids=REPLIES)
async def test_a_whole_reply_at_the_limit_passes_and_one_byte_more_does_not(
    stage: Stage, made: Callable[[int], ModelReply]
) -> None:
    @tool(effect="pure")
    def act(s: str) -> int:
        """Count."""
        return len(s)

    outcomes = []
    for size in (1_000, 1_001):
        model = ScriptedModel([made(size), say("done")], name=f"model{size}")
        agent = Agent("a", model=model, tools=[act], limits=Limits(max_reply_bytes=1_000))
        async with stage.runtime(agent) as rt:
            outcomes.append((await rt.session(f"s{size}").run("Go.")).outcome)

    assert isinstance(outcomes[0], Finished)
    assert isinstance(outcomes[1], Stopped)
    assert outcomes[1].reason == "limit"


async def test_each_call_of_a_turn_has_the_whole_limit(stage: Stage) -> None:
    @tool(effect="pure")
    def act() -> str:
        """Act."""
        return "ok"

    class Chatty:
        name = "chatty"
        calls = 0

        async def complete(self, _request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
            self.calls += 1
            emit(TextChunk(text="x" * 600))
            said = Text(text="x" * 600)
            asked = ToolCall(call_id=f"c{self.calls}", name="act")
            return ModelReply(parts=(said, asked) if self.calls < 4 else (said,))

    agent = Agent("a", model=Chatty(), tools=[act], limits=Limits(max_reply_bytes=1_000))
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    assert result.text == "x" * 600
    assert result.iterations == 4


async def test_a_tool_that_asks_a_model_is_told_of_the_limit(stage: Stage) -> None:
    told: list[str] = []

    @tool(effect="pure")
    async def act(ctx: ToolContext[None]) -> str:
        """Ask."""
        ask = ModelMessage(role="user", parts=(Text(text="?"),))
        try:
            await ctx.complete(ModelRequest(model="big", messages=(ask,)))
        except ProviderError as error:
            told.append(str(error))
        return "ok"

    model, big = ScriptedModel([call("act"), say("done")]), FunctionModel(_far_too_long, name="big")
    agent = Agent("a", model=model, tools=[act], limits=Limits(max_reply_bytes=1_000))
    async with stage.runtime(agent, models=[big]) as rt:
        result = await rt.session("s").run("Go.")

    assert result.text == "done"
    assert told == ["The reply is larger than 1,000 bytes, which is the limit (max_reply_bytes)."]


def _far_too_long(_request: ModelRequest) -> ModelReply:
    return say("x" * 5_000)


async def test_a_turn_that_is_cancelled_while_its_reply_streams_ends_as_cancelled(
    stage: Stage,
) -> None:
    model = Endless(pings)
    async with asyncio.timeout(HANGS_S), stage.runtime(Agent("a", model=model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await asyncio.sleep(0)
        await handle.cancel("enough")
        result = await handle.result()

    assert result.outcome == Stopped(reason="cancelled", detail="enough")


async def test_a_model_that_returns_an_awaitable_that_is_no_coroutine_is_asked(
    stage: Stage,
) -> None:
    class Ready:
        name = "ready"

        def complete(
            self, _request: ModelRequest, _emit: EmitModelEvent
        ) -> asyncio.Future[ModelReply]:
            future = asyncio.get_running_loop().create_future()
            future.set_result(say("ready"))
            return future

    async with stage.runtime(Agent("a", model=Ready())) as rt:  # type: ignore[call-overload]  # no coroutine
        assert (await rt.session("s").run("Go.")).text == "ready"
