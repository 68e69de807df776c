"""A provider that echoes the key it was sent: the key is in no event, reply, error, file or line of a log."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.models.behaviours import KEY, ClosableModel, ask
from tests.models.echo_adapters import ECHOES, Echo
from tests.models.wire_server import Played, WireServer
from windlass import Agent, Runtime, tool
from windlass.errors import ProviderError
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Reasoning, Text, ToolCall
from windlass.ports.model import ModelEvent, ReasoningChunk, TextChunk

MARK = "[api_key]"
REQUEST = ModelRequest(
    model="m", messages=(ModelMessage(role="user", parts=(Text(text="What is my key?"),)),)
)
CUTS = [(KEY[:place], KEY[place:]) for place in range(1, len(KEY))] + [(KEY,), tuple(KEY)]


@pytest.fixture(params=ECHOES)
def echo(request: pytest.FixtureRequest) -> Echo:
    return ECHOES[request.param]


@pytest.fixture(autouse=True)
def _logs_have_no_key(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Windlass logs no key at any level, and the SDKs none above DEBUG, where they log the wire as it is."""
    caplog.set_level(logging.DEBUG)
    yield
    for record in caplog.get_records("call"):
        if record.levelno > logging.DEBUG or record.name.startswith("windlass"):
            assert KEY not in record.getMessage()


@asynccontextmanager
async def served(echo: Echo, *answers: Played) -> AsyncIterator[ClosableModel]:
    async with WireServer({echo.endpoint: answers}) as server:
        model = echo.make(server.url)
        yield model
        await model.aclose()


async def replies(
    echo: Echo, make: Callable[..., bytes], before: str = "", after: str = ""
) -> list[tuple[ModelReply, list[ModelEvent]]]:
    """Let the key come cut at each of its places, and in single characters; return all that was answered."""
    found = []
    answers = [Played(make(before, *cut, after)) for cut in CUTS]
    async with served(echo, *answers) as model:
        for _ in answers:
            shown: list[ModelEvent] = []
            found.append((await model.complete(REQUEST, shown.append), shown))
    return found


def said(shown: list[ModelEvent]) -> str:
    return "".join(
        [event.text for event in shown if isinstance(event, (TextChunk, ReasoningChunk))]
    )


async def test_in_words_it_is_a_mark_wherever_they_are_cut(echo: Echo) -> None:
    for reply, shown in await replies(echo, echo.text, "It is ", ", I think."):
        assert reply.text == f"It is {MARK}, I think."
        assert said(shown) == reply.text
        assert KEY not in f"{reply} {shown}"


async def test_in_thoughts_it_is_a_mark_wherever_they_are_cut(echo: Echo) -> None:
    for reply, shown in await replies(echo, echo.thought, "I was sent ", ". Hm."):
        # Where a blob holds the thought itself, to the letter, there is no blob.
        assert reply.parts == (Reasoning(text=f"I was sent {MARK}. Hm."),)
        assert said(shown) == f"I was sent {MARK}. Hm."
        assert KEY not in f"{reply} {shown}"


async def test_in_arguments_it_is_a_mark_wherever_they_are_cut(echo: Echo) -> None:
    for reply, _ in await replies(echo, echo.arguments, '{"said": "it is ', '"}'):
        (call,) = reply.parts
        assert isinstance(call, ToolCall)
        assert call.args == {"said": f"it is {MARK}"}
        assert json.loads(call.raw) == call.args
        assert KEY not in repr(reply)


async def test_in_a_refusal_it_is_a_mark_wherever_it_is_cut(echo: Echo) -> None:
    if echo.refusal is None:
        return  # these providers refuse in words, or with a reason alone
    for reply, shown in await replies(echo, echo.refusal, "Not with ", "."):
        assert reply.text == said(shown) == f"Not with {MARK}."


async def test_a_blob_with_the_key_in_it_is_dropped(echo: Echo) -> None:
    async with served(echo, Played(echo.blob("some+blob")), Played(echo.blob(f"a{KEY}b"))) as model:
        kept, _ = await ask(model, REQUEST)
        dropped, shown = await ask(model, REQUEST)

    assert isinstance(kept.parts[0], Reasoning)
    assert kept.parts[0].replay is not None
    assert dropped.parts == (Reasoning(text="What now?"),)
    assert shown == (ReasoningChunk(text="What now?"),)


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
async def test_in_headers_and_bodies_of_errors_it_is_nowhere(echo: Echo, status: int) -> None:
    body = {"error": {"type": "some_error", "code": KEY, "message": f"Not with {KEY}"}}
    answer = Played(
        json.dumps(body).encode(),
        status,
        {"x-sent": KEY, "retry-after": KEY, "x-request-id": KEY},
        "application/json",
    )
    async with served(echo, answer) as model:
        with pytest.raises(ProviderError) as raised:
            await ask(model, REQUEST)

    error = raised.value
    assert KEY not in f"{error} {error!r} {vars(error)} {error.__cause__!r} {error.__context__!r}"


async def test_in_the_headers_of_a_reply_it_is_nowhere(echo: Echo) -> None:
    answer = Played(echo.text("Hello."), headers={"x-sent": KEY, "x-request-id": KEY})
    async with served(echo, answer) as model:
        reply, _ = await ask(model, REQUEST)

    assert reply.text == "Hello."
    assert KEY not in repr(reply)


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_after_a_turn_it_is_in_no_file_and_no_event(echo: Echo, tmp_path: Path) -> None:
    noted: list[str] = []

    @tool(effect="pure")
    def note(said: str) -> str:
        """Write down."""
        noted.append(said)
        return "noted"

    answers = [
        Played(echo.blob(f"a{KEY}b")),
        Played(echo.arguments('{"said": "', KEY[:9], KEY[9:], '"}')),
        Played(echo.text("It is ", KEY[:3], KEY[3:], ".")),
    ]
    async with served(echo, *answers) as model:
        agent = Agent("a", model=model, tools=[note])
        async with Runtime(agent, store=f"sqlite:///{tmp_path / 'w.db'}") as runtime:
            session = runtime.session("s")
            await session.run("Think.")
            async with session.stream("What is my key?") as turn:
                events = [event async for event in turn]
                result = await turn.result()
            while_open = everything_in(tmp_path)

    assert noted == [MARK]
    assert result.text == f"It is {MARK}."
    assert b"It is" in while_open + everything_in(
        tmp_path
    )  # the red proof: it is read where it was written
    assert KEY.encode() not in while_open + everything_in(tmp_path)
    assert KEY not in repr(events) + repr(result)
