"""Recordings are read exactly as they were recorded; the recorder changes nothing and keeps no secret."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.models import wire_anthropic as claude
from tests.models import wire_google as gemini
from tests.models.behaviours import KEY
from tests.models.echo_adapters import ECHOES, Echo
from tests.models.recorded_scenes import CANARIES, FOLDER, SCENES, recorded
from tests.models.wire_server import Played, WireServer
from windlass.errors import ConfigError, InvalidInput, LimitExceeded
from windlass.kernel import (
    Attachment,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Reasoning,
    Text,
    ToolCall,
)
from windlass.models.anthropic import AnthropicModel
from windlass.models.capabilities import Capabilities
from windlass.models.google import GoogleModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_chat.dialects import Dialect
from windlass.models.recording import recording_in
from windlass.models.recording import wire as recorded_wire
from windlass.models.route import replay_blob
from windlass.ports.model import READ_BLOB, ModelEvent, TextChunk
from windlass.testing import (
    Recording,
    ScriptedModel,
    read_recording,
    record_exchange,
    replay_recording,
    say,
)

FILES = sorted(FOLDER.glob("*.json"))
HELLO = ModelRequest(model="m", messages=(ModelMessage(role="user", parts=(Text(text="Hello!"),)),))
ENDPOINT = "POST /v1/messages"


def asked_at(url: str, **settings: Any) -> AnthropicModel:
    return AnthropicModel("claude-x", base_url=url, api_key=KEY, **settings)


# --- the recordings of this folder -------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_recording_is_read_as_it_was_recorded(file: Path) -> None:
    played = await replay_recording(file)

    assert played.diff == ""
    assert played.is_same
    assert played.recording.is_faithful


# By hand: words, thoughts, calls, why it ended; or the error.
READ: dict[str, tuple[Any, ...]] = {
    "anthropic-text": ("You use [api_key], and your address is [email]", "", [], "stop"),
    "anthropic-thinking-and-tools": (
        "Let me look.",
        "The user wants the weather.",
        [("weather", {"city": "Oslo"})],
        "tool_use",
    ),
    "anthropic-throttled": (
        "Throttled",
        (
            "anthropic: status 429: rate_limit_error: This request would exceed the rate limit of your "
            "organization ([org])."
        ),
        21.0,
    ),
    "google-thinking-and-tools": (
        "",
        "The key [google-key] is not needed.",
        [("weather", {"city": "Oslo"})],
        "tool_use",
    ),
    "openai-chat-cut": (
        "Unavailable",
        "openai-chat: the connection failed (RemoteProtocolError)",
        None,
    ),
    "openai-chat-tools": (
        "I look it up for [email].",
        "",
        [("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})],
        "tool_use",
    ),
    "openai-thinking": ("I cannot call you.", "I cannot call.", [], "stop"),
    "openai-tools": ("", "", [("weather", {"city": "Oslo"})], "tool_use"),
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_it_says_what_a_person_wrote_down(file: Path) -> None:
    played = await replay_recording(file)
    if played.error is not None:
        wait = getattr(played.error, "retry_after_s", None)
        assert (type(played.error).__name__, str(played.error), wait) == READ[file.stem]
        return
    reply = played.reply
    assert isinstance(reply, ModelReply)
    calls = [(part.name, dict(part.args)) for part in reply.parts if isinstance(part, ToolCall)]
    thoughts = "".join([part.text for part in reply.parts if isinstance(part, Reasoning)])
    assert (reply.text, thoughts, calls, reply.terminal) == READ[file.stem]


def test_every_scene_has_its_recording_and_every_recording_its_line() -> None:
    assert {file.stem for file in FILES} == set(READ)
    assert set(SCENES) <= set(READ)


def test_no_canary_is_in_any_of_them_and_all_were_planted() -> None:
    written = b"".join(file.read_bytes() for file in FILES).decode()
    played = "".join(
        b"".join(each.response.pieces()).decode()
        for file in FILES
        for each in read_recording(file).exchanges
        if each.response is not None
    )
    planted = "".join(f"{scene.request} {scene.answer}" for scene in SCENES.values())

    assert [each for each in CANARIES if each in written + played] == []
    assert "anary" not in written + played
    assert [each for each in CANARIES if each not in planted and each[:14] not in planted] == []


@pytest.mark.parametrize("name", SCENES)
async def test_the_recorder_makes_the_same_of_the_same_call(name: str) -> None:
    made, server = await recorded(SCENES[name])
    kept = read_recording(FOLDER / f"{name}.json")

    assert made.outcome == kept.outcome
    assert [each.response and each.response.body for each in made.exchanges] == [
        each.response and each.response.body for each in kept.exchanges
    ]
    assert server.url.partition("://")[2] not in made.to_bytes().decode()


async def test_a_change_of_the_answer_is_seen_and_shown() -> None:
    text = (FOLDER / "openai-chat-tools.json").read_text()
    changed = json.loads(text)
    changed["exchanges"][0]["response"]["body"] = [
        line.replace("Rome", "Bern") for line in changed["exchanges"][0]["response"]["body"]
    ]
    kept = read_recording(FOLDER / "openai-chat-tools.json")
    other = recording_in(json.dumps(changed).encode())

    assert (await replay_recording(kept)).is_same
    played = await replay_recording(other)
    assert not played.is_same
    assert '-          "city": "Rome"' in played.diff
    assert '+          "city": "Bern"' in played.diff


# --- recording ----------------------------------------------------------------------------------------


async def record(answer: Played, **options: Any) -> Recording:
    """Record Claude's answer to a greeting."""
    async with WireServer({ENDPOINT: answer}) as server:
        return await record_exchange(asked_at(server.url), HELLO, **options)


async def test_who_reads_gets_words_while_the_answer_is_still_open() -> None:
    """The recorder reads nothing ahead: a stream that stays open has shown what it said so far."""
    body = claude.answer(claude.text(0, "One, ", "two.")).body
    begun = body[: body.index(b"event: content_block_stop")]
    shown: list[ModelEvent] = []
    both = asyncio.Event()

    def show(event: ModelEvent) -> None:
        shown.append(event)
        if len(shown) == 2:
            both.set()

    async with WireServer({ENDPOINT: Played(begun, then="hang")}) as server:
        client, wire = recorded_wire.keeping(None)
        model = asked_at(server.url).over(client)
        asking = asyncio.ensure_future(model.complete(HELLO, show))
        async with asyncio.timeout(20):
            await both.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await server.left.wait()  # the connection is closed with it
        await client.aclose()
        await wire.client.aclose()

    assert shown == [TextChunk(text="One, "), TextChunk(text="two.")]
    assert b"".join(wire.kept[0].pieces) == begun
    assert wire.kept[0].ended == "left"


@pytest.mark.parametrize("place", [1, 7, 13, 17])
@pytest.mark.parametrize("echo", ECHOES.values(), ids=list(ECHOES))
async def test_a_key_that_a_stream_cuts_is_in_no_recording(echo: Echo, place: int) -> None:
    cut = (KEY[:place], KEY[place:])
    bodies = (
        echo.text("It is ", *cut, "."),
        echo.thought("It is ", *cut, "."),
        echo.arguments('{"said": "', *cut, '"}'),
        echo.blob(f"some/blob+{KEY}"),
    )
    for body in bodies:
        async with WireServer({echo.endpoint: Played(body)}) as server:
            made = await record_exchange(echo.make(server.url), HELLO)
        data = made.to_bytes()
        assert KEY.encode() not in data
        assert [half for half in cut if len(half) >= 8 and half.encode() in data] == []
        assert (await replay_recording(made)).is_same
        assert made.is_faithful


async def test_the_hooks_of_the_google_adapter_are_kept() -> None:
    """Read by the SDK itself, the text would be cut at U+2028."""
    words = "one\u2028two"
    model = ECHOES["google"]
    async with WireServer({model.endpoint: gemini.stream(gemini.said({"text": words}), gemini.ended())}) as server:  # fmt: skip
        made = await record_exchange(
            GoogleModel(gemini.MODEL, base_url=server.url, api_key=KEY), HELLO
        )

    assert made.reply is not None
    assert made.reply["text"] == words
    assert (await replay_recording(made)).is_same


async def test_the_address_is_not_in_it_and_blobs_still_find_their_way_back() -> None:
    async with WireServer({ENDPOINT: claude.answer(claude.text(0, "Hi."))}) as server:
        model = asked_at(server.url)
        blob = {"type": "thinking", "thinking": "Hm.", "signature": claude.SIGNATURE}
        thought = Reasoning(text="Hm.", replay=replay_blob(blob, model.route))
        said = ModelMessage(role="assistant", parts=(thought, Text(text=f"I am at {server.url}.")))
        asked = ModelRequest(model="m", messages=(*HELLO.messages, said, *HELLO.messages))
        made = await record_exchange(model, asked)

    assert "127.0.0.1" not in made.to_bytes().decode()
    (sent,) = [each["content"] for each in made.exchanges[0].request.body["messages"][1:2]]
    assert [each["type"] for each in sent] == ["thinking", "text"]
    assert sent[1]["text"] == "I am at http://recorded.invalid."
    assert (await replay_recording(made)).request_diff == ""  # the thought is sent back again


async def test_pieces_end_where_they_ended() -> None:
    body = claude.answer(claude.text(0, f"Grüße, {KEY}, ", "and more")).body
    place = body.index(b"and more")
    made = await record(Played(body, cut=lambda whole: [whole[:place], whole[place:]]))

    assert made.exchanges[0].response is not None
    first, second = made.exchanges[0].response.pieces()
    assert first + second == body.replace(KEY.encode(), b"[api_key]")
    assert second.startswith(b"and more")


async def test_a_compressed_answer_is_recorded_as_text() -> None:
    body = gzip.compress(claude.answer(claude.text(0, "Hello.")).body)
    made = await record(Played(body, headers={"content-encoding": "gzip"}))

    (exchange,) = made.exchanges
    assert exchange.response is not None
    assert exchange.response.body[0] == "event: message_start\n"
    assert made.outcome["reply"]["text"] == "Hello."
    assert made.is_faithful
    assert (await replay_recording(made)).is_same


async def test_bytes_that_are_not_text_are_kept_and_have_no_key() -> None:
    made = await record(Played(b"\xff\xfe" + KEY.encode() + b"\xff", 500, {}, "application/octet-stream"))  # fmt: skip

    (exchange,) = made.exchanges
    assert exchange.response is not None
    assert exchange.response.pieces() == [b"\xff\xfe[api_key]\xff"]
    assert made.outcome["error"]["class"] == "Unavailable"
    assert (await replay_recording(made)).is_same


async def test_a_server_that_cannot_be_reached_is_recorded() -> None:
    async with WireServer({}) as server:
        url = server.url
    made = await record_exchange(asked_at(url), HELLO)

    assert (made.exchanges[0].response, made.exchanges[0].ended) == (None, "ConnectError")
    assert (
        made.outcome["error"]["message"] == "anthropic: the connection failed (APIConnectionError)"
    )
    assert (await replay_recording(made)).is_same


async def test_an_answer_without_end_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_wire, "MAX_BODY_BYTES", 1000)
    with pytest.raises(LimitExceeded) as raised:
        await record(Played(claude.answer(claude.text(0, *["word " * 20] * 50)).body))

    assert (raised.value.field, raised.value.wanted) == ("response", 1000)


async def test_a_model_without_a_network_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model: found .*, wanted a model that a provider's API"):
        await record_exchange(ScriptedModel([say("Hello.")]), HELLO)


async def test_a_request_that_cannot_be_said_is_no_recording() -> None:
    with pytest.raises(InvalidInput, match="variant: found another one"):
        await record_exchange(
            asked_at("http://127.0.0.1:1"),
            ModelRequest(model="m", messages=HELLO.messages, variant="x"),
        )


async def test_your_client_is_used_and_stays_open() -> None:
    sent: list[httpx2.Request] = []

    async def seen(request: httpx2.Request) -> None:
        sent.append(request)

    async with (
        WireServer({ENDPOINT: claude.answer(claude.text(0, "Hello."))}) as server,
        httpx2.AsyncClient(event_hooks={"request": [seen]}) as client,
    ):
        model = asked_at(server.url, http_client=client)
        await record_exchange(model, HELLO)
        assert not client.is_closed

    assert [request.url.path for request in sent] == ["/v1/messages"]


async def test_a_dialect_and_capabilities_of_your_own_are_played_again() -> None:
    own = Dialect(provider="mine", reasoning_fields=("musing",))
    can = Capabilities(images=False, max_output_tokens=77)
    body = (
        b'data: {"choices": [{"index": 0, "delta": {"musing": "Hm."}}]}\n\n'
        b'data: {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )
    async with WireServer({"POST /chat/completions": Played(body)}) as server:
        model = OpenAIChatModel("m", dialect=own, base_url=server.url, capabilities=can)
        made = await record_exchange(model, HELLO)

    assert made.dialect == {"provider": "mine", "reasoning_fields": ["musing"]}
    assert [part["type"] for part in made.outcome["reply"]["parts"]] == ["reasoning", "text"]
    played = await replay_recording(made)
    assert (played.is_same, played.request_diff) == (True, "")


async def test_the_bytes_of_an_image_are_not_in_it() -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4

    async def read(_ref: str) -> bytes:
        return data

    shown = Attachment(ref="image", media_type="image/png")
    asked = ModelRequest(model="m", messages=(ModelMessage(role="user", parts=(Text(text="What is it?"), shown)),))  # fmt: skip
    reading = READ_BLOB.set(read)
    async with WireServer({ENDPOINT: claude.answer(claude.text(0, "Noise."))}) as server:
        made = await record_exchange(asked_at(server.url), asked, keep_signatures=True)
    READ_BLOB.reset(reading)

    source = made.exchanges[0].request.body["messages"][0]["content"][1]["source"]
    assert source["media_type"] == "image/png"
    assert len(source["data"]) == 1024
    assert "iVBORw0KGgoAAQID" not in made.to_bytes().decode()
    assert (await replay_recording(made)).is_same


async def test_signatures_stay_if_asked_for() -> None:
    answer = claude.answer(claude.thinking(0, "Hm."), claude.text(1, "Hi."))
    kept = await record(answer, keep_signatures=True)
    gone = await record(answer)

    assert kept.scrubbed == ()
    assert gone.scrubbed == ("signatures",)
    assert claude.SIGNATURE in kept.to_bytes().decode()
    assert claude.SIGNATURE not in gone.to_bytes().decode()
