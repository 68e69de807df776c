"""What a provider adds to words, through a whole turn: told apart, kept, sent back, and read again after a kill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage
from tests.scenarios.watching import names
from windlass import Agent, Plugin, Runtime, tool
from windlass.kernel import (
    Citation,
    ModelReply,
    ModelRequest,
    ServerToolCall,
    Text,
    ToolCall,
    events,
)
from windlass.plugins import Redaction
from windlass.ports import PluginTurn
from windlass.ports.model import CallChunk, EmitModelEvent, ModelEvent, TextChunk
from windlass.ports.plugin import Chunk
from windlass.testing import Scenario, ScriptedModel, kill_everywhere
from windlass.testing.crashing.kill_everywhere import StoreKind

PAGE = Citation(url="https://a.example", title="A", quote="rain at bob@example.com", start=0, end=2)
SEARCH = ServerToolCall(name="web_search", text="weather", replay={"route": "r", "blob": {}})
ASIDE = Text(text="I look it up.", phase="commentary")
ANSWER = Text(text="It rains.", phase="final_answer", citations=(PAGE,), replay={"route": "r"})
REPLY = ModelReply(parts=(ASIDE, SEARCH, ANSWER))


class Speaks:
    """Shows pieces and answers; each request is kept."""

    name = "speaks"

    def __init__(self, *answers: tuple[Sequence[ModelEvent], ModelReply]) -> None:
        self._answers = list(answers)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        self.requests.append(request)
        shown, reply = self._answers[len(self.requests) - 1]
        for event in shown:
            emit(event)
        return reply


ASIDE_CHUNKS = (
    TextChunk(text="I look", phase="commentary"),
    TextChunk(text=" it up.", phase="commentary"),
)
ANSWER_CHUNKS = (
    TextChunk(text="It ", phase="final_answer"),
    TextChunk(text="rains.", phase="final_answer"),
)


def agent(model: Speaks, **more: Any) -> Agent[Any, Any]:
    return Agent("talker", model=model, **more)


async def seen_of(stage: Stage, model: Speaks, **more: Any) -> list[events.Event]:
    async with (
        stage.runtime(agent(model, **more)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        return [event async for event in turn]


# --- told apart --------------------------------------------------------------------------------


async def test_commentary_is_shown_apart_and_is_not_the_answer(stage: Stage) -> None:
    model = Speaks(((*ASIDE_CHUNKS, *ANSWER_CHUNKS), REPLY))

    async with (
        stage.runtime(agent(model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = [event async for event in turn]
        result = await turn.result(timeout=HANGS_S)

    deltas = [event for event in seen if isinstance(event, events.TextDelta)]
    assert "Retracted" not in names(seen)
    assert "".join(d.text for d in deltas if d.phase == "commentary") == "I look it up."
    assert "".join(d.text for d in deltas if d.phase == "final_answer") == "It rains."
    (told,) = [event for event in seen if isinstance(event, events.ModelFinished)]
    assert (told.text, told.commentary) == ("It rains.", "I look it up.")
    assert told.citations == (Citation(url="https://a.example", title="A"),)
    assert told.server_tools == ("web_search: weather",)
    assert result.text == "It rains."


async def test_a_slow_reader_gets_joined_deltas_of_one_phase_only(stage: Stage) -> None:
    model = Speaks(((*ASIDE_CHUNKS, *ANSWER_CHUNKS, *ASIDE_CHUNKS), REPLY))
    async with (
        stage.runtime(agent(model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        await turn.result(timeout=HANGS_S)  # all of it waits by now
        seen = [event async for event in turn]

    deltas = [(e.phase, e.text) for e in seen if isinstance(e, events.TextDelta)]
    assert deltas == [
        ("commentary", "I look it up."),
        ("final_answer", "It rains."),
        ("commentary", "I look it up."),
    ]


async def test_a_typed_answer_is_read_without_the_commentary(stage: Stage) -> None:
    class Weather(msgspec.Struct):
        rain: bool

    typed = ModelReply(parts=(ASIDE, Text(text='{"rain": true}', phase="final_answer")))
    async with stage.runtime(agent(Speaks(((), typed)), output_type=Weather)) as rt:
        result = await rt.session("s").run("Go.")

    assert result.output == Weather(rain=True)


async def test_arguments_are_shown_as_the_model_writes_them(stage: Stage) -> None:
    called = ModelReply(parts=(ToolCall(call_id="c1", name="ask", args={}),), terminal="tool_use")
    shown = (
        CallChunk(call_id="c1", name="ask", text='{"a'),
        CallChunk(call_id="c1", name="ask", text='": 1}'),
        CallChunk(call_id="c2", name="ask", text="{}"),
    )
    model = Speaks((shown, called), ((), ModelReply(text="Done.")))

    async with (
        stage.runtime(agent(model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        await turn.result(timeout=HANGS_S)
        seen = [event async for event in turn]

    written = [e for e in seen if isinstance(e, events.ToolInputDelta)]
    assert all(event.preview for event in written)
    assert [(e.call_id, e.name, e.text) for e in written] == [
        ("c1", "ask", '{"a": 1}'),
        ("c2", "ask", "{}"),
    ]


# --- kept and sent back ------------------------------------------------------------------------


async def test_the_next_request_holds_phase_pages_and_blobs_as_they_came(stage: Stage) -> None:
    model = Speaks(((), REPLY), ((), ModelReply(text="Yes.")))
    async with stage.runtime(agent(model)) as rt:
        await rt.session("s").run("Go.")
    async with stage.runtime(agent(model)) as rt:  # read from the store again
        await rt.session("s").run("Really?")
        history = await rt.session("s").history()

    assert model.requests[1].messages[-2].parts == (ASIDE, SEARCH, ANSWER)
    assert history[1].parts == (ASIDE, SEARCH, ANSWER)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_turn_that_is_killed_anywhere_keeps_what_the_provider_added(
    store: StoreKind,
) -> None:
    called = ToolCall(call_id="c1", name="pay", args={"cents": 5})
    before = ModelReply(parts=(ASIDE, SEARCH, called), terminal="tool_use")

    def scenario() -> Scenario:
        paid: list[int] = []
        seen: list[tuple[object, ...]] = []

        @tool(effect="once")
        async def pay(cents: int) -> str:
            """Pay."""
            paid.append(cents)
            return "paid"

        async def run(rt: Runtime[Any]) -> Any:  # noqa: ANN401 - a result
            result = await rt.session("s").run("Go.", turn_id="t")
            seen.append(tuple((await rt.session("s").history())[1].parts))
            return result

        def check(result: Any) -> None:  # noqa: ANN401 - a result
            assert paid in ([5], [])  # one that was killed in its body is not run again
            assert result.text == "It rains."
            assert seen[-1] == (ASIDE, SEARCH, called)

        return Scenario(
            agents=lambda: Agent("payer", model=ScriptedModel([before, REPLY]), tools=[pay]),
            run=run,
            check=check,
        )

    report = await kill_everywhere(scenario, store=store, timeout=HANGS_S)

    assert len(report.points) > 10


# --- plugins -----------------------------------------------------------------------------------


async def test_redaction_takes_what_it_knows_out_of_words_and_of_what_is_cited(
    stage: Stage,
) -> None:
    shown = (CallChunk(call_id="c", name="n", text="bob@example.com"), *ANSWER_CHUNKS)
    told = ServerToolCall(name="web_search", text="bob@example.com", replay={"q": "bob"})
    model = Speaks((shown, ModelReply(parts=(told, ANSWER))))

    seen = await seen_of(stage, model, plugins=[Redaction(patterns=["email"], output=True)])

    assert "ToolInputDelta" not in names(seen)
    assert "TextDelta" not in names(seen)[:1]
    (finished,) = [event for event in seen if isinstance(event, events.ModelFinished)]
    assert finished.server_tools == ("web_search: [email]",)
    async with stage.runtime(agent(model)) as rt:
        said = (await rt.session("s").history())[-1].parts
    assert said[0] == ServerToolCall(name="web_search", text="[email]")
    assert isinstance(said[1], Text)
    assert (said[1].citations[0].quote, said[1].replay) == ("rain at [email]", None)
    assert said[1].phase == "final_answer"


class Masks(Plugin):
    """Shows a star for every piece, and remembers what kinds it saw."""

    name = "masks"

    def __init__(self) -> None:
        self.saw: list[str] = []

    def on_stream(self, turn: PluginTurn, chunk: Chunk) -> Chunk:
        self.saw.append(type(chunk).__name__)
        return msgspec.structs.replace(chunk, text="*")


async def test_a_plugin_sees_every_kind_of_piece_before_it_is_shown(stage: Stage) -> None:
    masks = Masks()
    shown = (*ANSWER_CHUNKS, CallChunk(call_id="c", name="n", text="{}"))

    seen = await seen_of(stage, Speaks((shown, REPLY)), plugins=[masks])

    assert masks.saw == ["TextChunk", "TextChunk", "CallChunk"]
    assert [e.text for e in seen if isinstance(e, events.ToolInputDelta)] == ["*"]
    assert {e.text for e in seen if isinstance(e, events.TextDelta) and e.phase} <= {"*", "**"}
