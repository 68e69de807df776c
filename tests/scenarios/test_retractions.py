"""Retractions: what was shown of a call that came to nothing is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Sequence

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage
from tests.scenarios.watching import names, shown_text
from windlass import Agent
from windlass.errors import Unavailable
from windlass.journal import ModelAnswered, Recorded
from windlass.kernel import ModelReply, ModelRequest, events
from windlass.kernel.events import Event
from windlass.kernel.outcomes import Finished, Outcome, Stopped
from windlass.ports.model import (
    AttemptFailed,
    EmitModelEvent,
    ModelEvent,
    ReasoningChunk,
    TextChunk,
)
from windlass.testing import say


class LiveModel:
    """Shows what it is told to show, each when the one before was looked at; then answers or raises."""

    name = "live"

    def __init__(self, shows: Sequence[ModelEvent], answer: ModelReply | Exception) -> None:
        self._shows = shows
        self._answer = answer
        self._looked_at = asyncio.Semaphore(0)

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        for event in self._shows:
            emit(event)
            await self._looked_at.acquire()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def watched(self, stream: AsyncIterable[Event]) -> list[Event]:
        """Look at a stream to its end, and let the model go on after each thing that it showed."""
        seen: list[Event] = []
        async for event in stream:
            seen.append(event)
            if isinstance(event, events.TextDelta | events.ReasoningDelta | events.Retrying):
                self._looked_at.release()
        return seen


async def test_an_attempt_that_failed_is_taken_back(stage: Stage) -> None:
    model = LiveModel(
        [
            ReasoningChunk(text="Hmm."),
            TextChunk(text="Wrong"),
            AttemptFailed(reason="cut off", wait_ms=5),
            TextChunk(text="Right."),
        ],
        say("Right."),
    )
    agent = Agent("live", model=model)
    async with (
        stage.runtime(agent) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = await model.watched(turn)
        result = await turn.result(timeout=HANGS_S)

    assert names(seen) == [
        "ModelStarted", "ReasoningDelta", "TextDelta", "Retracted", "Retrying", "TextDelta",
        "UsageReported", "ModelFinished", "TurnEnded",
    ]  # fmt: skip
    retrying = seen[4]
    assert isinstance(retrying, events.Retrying)
    assert (retrying.attempt, retrying.reason, retrying.wait_ms) == (2, "cut off", 5)
    assert shown_text(seen) == result.text == "Right."


async def test_attempts_that_failed_are_recorded_with_the_reply(stage: Stage) -> None:
    model = LiveModel([AttemptFailed(reason="cut off", wait_ms=5)], say("Right."))
    async with (
        stage.runtime(Agent("live", model=model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        await model.watched(turn)
        view = await rt._services.store.load_turn("s", "t")

    assert view is not None
    (replied,) = [
        entry
        for page in view.pages
        for entry in page.entries
        if isinstance(entry, Recorded) and isinstance(entry.outcome, ModelAnswered)
    ]
    (attempt,) = replied.attempts
    assert (attempt.code, attempt.model) == ("adapter_retry", "live")
    assert attempt.began_ms == replied.began_ms  # the call is all its attempts


async def test_what_was_shown_of_a_call_that_came_to_nothing_is_taken_back(stage: Stage) -> None:
    model = LiveModel([TextChunk(text="Half an ans")], Unavailable("cut"))
    async with (
        stage.runtime(Agent("live", model=model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = await model.watched(turn)
        result = await turn.result(timeout=HANGS_S)

    assert result.parked
    assert shown_text(seen) == ""
    assert names(seen) == ["ModelStarted", "TextDelta", "Retracted", "WaitOpened"]


@pytest.mark.parametrize(
    ("final", "screen", "outcome"),
    [
        ("", "", Stopped(reason="provider_error", detail="The model returned an empty reply.")),
        ("Another one.", "Another one.", Finished(text="Another one.")),
        ("Half an answer.", "Half an ans", Finished(text="Half an answer.")),
        ("Half an ans", "Half an ans", Finished(text="Half an ans")),
        ("Half an ans\n", "Half an ans", Finished(text="Half an ans\n")),
    ],
    ids=["nothing", "another", "more", "the same", "white space"],
)
async def test_what_was_shown_and_is_not_in_the_reply_is_taken_back(
    stage: Stage, final: str, screen: str, outcome: Outcome
) -> None:
    model = LiveModel([TextChunk(text="Half "), TextChunk(text="an ans")], ModelReply(text=final))
    async with (
        stage.runtime(Agent("live", model=model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = await model.watched(turn)
        result = await turn.result(timeout=HANGS_S)

    assert result.outcome == outcome
    assert shown_text(seen) == screen
    is_kept = final.startswith("Half an ans")
    assert ("Retracted" in names(seen)) is not is_kept
    assert names(seen)[-1] == "TurnEnded"


async def test_what_was_shown_of_a_cancelled_call_is_taken_back(stage: Stage) -> None:
    shows, hangs = asyncio.Event(), asyncio.Event()

    class Hanging(LiveModel):
        async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
            emit(TextChunk(text="Half an ans"))
            shows.set()
            await hangs.wait()
            return say("never")

    agent = Agent("live", model=Hanging([], say("")))
    async with stage.runtime(agent) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        stream = handle.events()
        seen = [await anext(stream)]
        await shows.wait()
        await handle.cancel("enough")
        seen += [event async for event in stream]

    assert shown_text(seen) == ""
    assert names(seen)[-1] == "TurnEnded"
