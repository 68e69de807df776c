"""A model in a cloud is recorded without its project, its region and its token, and played again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import httpx2
import pytest
from google.oauth2.credentials import Credentials

from tests.models import wire_anthropic as claude
from tests.models import wire_google as gemini
from windlass.errors import ConfigError
from windlass.kernel import ModelMessage, ModelRequest, Reasoning, Text
from windlass.models.anthropic import (
    AnthropicBedrockModel,
    AnthropicModel,
    AnthropicVertexModel,
)
from windlass.models.google import VertexModel
from windlass.models.route import replay_blob
from windlass.models.sdk_model import SdkModel
from windlass.testing import record_exchange, replay_recording

TOKEN = "a-token-that-nobody-may-see-4711"
PROJECT: dict[str, Any] = {"project": "secret-venture", "location": "europe-west4"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": claude.SIGNATURE}
SIGNED = {"on": "thought", "signature": "c2lnbmVk"}
SAID_BY_CLAUDE = claude.answer(claude.text(0, "Hi.")).body
SAID_BY_GEMINI = gemini.stream(gemini.said({"text": "Hi."}), gemini.ended()).body

Client = httpx2.AsyncClient


def vertex(client: Client) -> SdkModel[Any]:
    signed_in = Credentials(TOKEN)  # type: ignore[no-untyped-call] # of google.auth
    return VertexModel(gemini.MODEL, credentials=signed_in, http_client=client, **PROJECT)


def vertex_with_a_key(client: Client) -> SdkModel[Any]:
    return VertexModel(gemini.MODEL, api_key=TOKEN, http_client=client)


def vertex_anthropic(client: Client) -> SdkModel[Any]:
    return AnthropicVertexModel("claude-x", api_key=TOKEN, http_client=client, **PROJECT)


def bedrock(client: Client) -> SdkModel[Any]:
    named = "anthropic.claude-x"
    return AnthropicBedrockModel(named, region="eu-west-1", api_key=TOKEN, http_client=client)


CLOUDS = [
    (vertex, SAID_BY_GEMINI, SIGNED),
    (vertex_with_a_key, SAID_BY_GEMINI, SIGNED),
    (vertex_anthropic, SAID_BY_CLAUDE, THOUGHT),
    (bedrock, SAID_BY_CLAUDE, THOUGHT),
]
clouds = pytest.mark.parametrize(
    ("make", "body", "blob"), CLOUDS, ids=[make.__name__ for make, _, _ in CLOUDS]
)


def answering(status: int, body: bytes) -> tuple[Client, list[httpx2.Request]]:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(status, content=body, headers={"content-type": "text/event-stream"})

    return Client(transport=httpx2.MockTransport(answer)), asked


@clouds
async def test_a_cloud_is_recorded_and_played_again(
    make: Callable[[Client], SdkModel[Any]], body: bytes, blob: dict[str, Any]
) -> None:
    client, asked = answering(200, body)
    model = make(client)
    hello = ModelMessage(role="user", parts=(Text(text="Hello!"),))
    thought = Reasoning(text="Hm.", replay=replay_blob(blob, model.route))
    said = ModelMessage(role="assistant", parts=(thought, Text(text="Hi.")))
    made = await record_exchange(model, ModelRequest(model="m", messages=(hello, said, hello)))

    assert len(asked) == 1
    assert made.error is None
    assert made.is_faithful
    for hidden in ("secret-venture", "europe-west4", "eu-west-1", TOKEN):
        assert hidden not in made.to_bytes().decode()
    played = await replay_recording(made)
    assert played.is_same
    assert played.request_diff == ""  # also its thought is sent back again


async def test_a_refusal_that_names_the_project_is_recorded_without_it() -> None:
    told = (
        "Vertex AI API has not been used in project secret-venture before: denied on "
        "//aiplatform.googleapis.com/projects/secret-venture/locations/europe-west4"
    )
    body = b'{"error":{"code":403,"message":"%s","status":"PERMISSION_DENIED"}}' % told.encode()
    client, _ = answering(403, body)
    made = await record_exchange(vertex(client), "Hello!")

    assert made.error is not None
    assert made.error.class_ == "Rejected"
    assert "in project recorded before" in made.error.message
    assert "secret-venture" not in made.to_bytes().decode()


class NotOurs(AnthropicModel):
    provider: ClassVar[str] = "not-ours"  # type: ignore[misc] # as a user's class may have it


async def test_a_model_that_cannot_be_played_is_refused_before_it_is_asked() -> None:
    client, asked = answering(200, SAID_BY_CLAUDE)
    model = NotOurs("m", base_url="http://127.0.0.1:1", api_key=TOKEN, http_client=client)

    with pytest.raises(ConfigError, match="provider: found 'not-ours'"):
        await record_exchange(model, "Hello!")

    assert asked == []
