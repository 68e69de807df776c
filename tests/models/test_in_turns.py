"""Models of providers in real turns: attachments' bytes, names, keys that are not here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.models import wire_anthropic as wire
from tests.models.behaviours import KEY, ask
from tests.models.wire_server import Played, WireServer
from windlass import Agent, Attachment, Runtime, Text, tool
from windlass.errors import ConfigError, InvalidInput
from windlass.kernel import Attachment as Stored
from windlass.kernel import ModelMessage, ModelReply, ModelRequest
from windlass.models.anthropic import AnthropicModel
from windlass.models.message_parts import bytes_of, stand_in
from windlass.ports.model import READ_BLOB
from windlass.testing import FunctionModel, ScriptedModel, call, say

PNG = b"\x89PNG\r\n\x1a\n"
ENV_KEY = "canary-of-the-environment"


def all_bytes(folder: Path) -> bytes:
    """Everything that is in the files of a folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_turns_attachment_is_sent_with_its_bytes() -> None:
    async with WireServer({"POST /v1/messages": wire.answer(wire.text(0, "A cat."))}) as server:
        model = AnthropicModel(wire.MODEL, base_url=server.url, api_key=KEY)
        async with Runtime(Agent("a", model=model), store="memory:") as runtime:
            picture = Attachment.from_bytes(PNG, media_type="image/png", name="cat.png")
            result = await runtime.session("s").run([Text(text="What is it?"), picture])
        await model.aclose()
    assert result.text == "A cat."
    assert server.requests[0].json["messages"][0]["content"][1]["source"]["data"] == "iVBORw0KGgo="


async def test_bytes_are_there_while_a_model_is_asked_and_not_after() -> None:
    read: list[bytes] = []
    readers: list[object] = []

    async def answer(request: ModelRequest) -> ModelReply:
        parts = list(request.messages)[1].parts
        read.extend([await bytes_of(part) for part in parts if isinstance(part, Stored)])
        return call("look") if len(read) == 1 else say("done")

    @tool(effect="pure")
    async def look() -> str:
        """Look whether blobs can be read here."""
        readers.append(READ_BLOB.get())
        return "looked"

    agent = Agent("a", model=FunctionModel(answer), tools=[look], instructions="Be brief.")
    async with Runtime(agent, store="memory:") as runtime:
        await runtime.session("s").run([Text(text="See."), Attachment.from_bytes(PNG)])
    assert read == [PNG, PNG]
    assert readers == [None]


async def test_outside_of_a_turn_an_attachment_has_no_bytes() -> None:
    with pytest.raises(InvalidInput, match="a turn whose store holds its bytes"):
        await bytes_of(Stored(ref="some-blob"))


def test_what_is_not_sent_is_named() -> None:
    assert stand_in(Stored(ref="r", name="note.txt")) == "[attachment note.txt]"
    assert stand_in(Stored(ref="r", media_type="video/mp4")) == "[attachment video/mp4]"


async def test_an_agent_names_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    async with WireServer({"POST /v1/messages": wire.answer(wire.text(0, "Hello!"))}) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", ENV_KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        agent = Agent("a", model=f"anthropic:{wire.MODEL}")
        async with Runtime(agent, store="memory:") as runtime:
            result = await runtime.session("s").run("Hi")
    assert result.text == "Hello!"
    assert server.requests[0].headers["authorization"] == f"Bearer {ENV_KEY}"


async def test_a_turn_whose_model_has_no_key_here_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", ENV_KEY)
    agent = Agent("a", model=ScriptedModel([say("never")]))
    store = f"sqlite:///{tmp_path / 'w.db'}"
    async with Runtime(agent, store=store, worker=False) as runtime:
        await runtime.session("s").submit("Hi", turn_id="t", model="anthropic:claude-x")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    async with Runtime(agent, store=store) as runtime:
        async with asyncio.timeout(HANGS_S):
            result = await runtime.turn("s", "t").result()
    [wait] = result.waits
    assert wait.kind == "mismatch"
    assert "ANTHROPIC_API_KEY" in wait.detail["why"]


async def test_a_model_without_a_key_is_refused_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    agent = Agent("a", model=ScriptedModel([say("never")]))
    async with Runtime(agent, store="memory:") as runtime:
        with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
            await runtime.session("s").run("Hi", model="anthropic:claude-x")


async def test_an_echoed_key_is_in_no_file_of_the_store(tmp_path: Path) -> None:
    body = b'{"type":"error","error":{"type":"authentication_error","message":"bad key %b"}}'
    refusal = Played(body % KEY.encode(), 401, {}, "application/json")
    async with WireServer({"POST /v1/messages": refusal}) as server:
        model = AnthropicModel(wire.MODEL, base_url=server.url, api_key=KEY)
        store = f"sqlite:///{tmp_path / 'w.db'}"
        async with Runtime(Agent("a", model=model), store=store) as runtime:
            result = await runtime.session("s").run("Hi")
        await model.aclose()
    assert "bad key [api_key]" in repr(result)
    assert b"bad key [api_key]" in all_bytes(tmp_path)
    assert KEY not in repr(result)
    assert KEY.encode() not in all_bytes(tmp_path)


async def test_a_request_may_be_made_without_a_turn() -> None:
    async with WireServer({"POST /v1/messages": wire.answer(wire.text(0, "Hello!"))}) as server:
        model = AnthropicModel(wire.MODEL, base_url=server.url, api_key=KEY)
        said = ModelMessage(role="user", parts=(Text(text="Hi"),))
        reply, _ = await ask(model, ModelRequest(model=model.name, messages=[said]))
        await model.aclose()
    assert reply.text == "Hello!"
