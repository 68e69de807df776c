"""Gemini on Vertex AI, through Google's own SDK, against a server that plays its wire bytes.

That much of Vertex refuses the ids of calls rests on reports; its addresses, and that Gemini 3 searches beside tools
without a setting there, on recorded exchanges; express mode and the limits of a search on documentation.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.auth import credentials, exceptions

from tests.models import wire_google as wire
from tests.models.behaviours import KEY, ask
from tests.models.google_cases import (
    ADD,
    NOT_MINE,
    NOW,
    SIGNATURE,
    TEXT,
    assistant,
    request,
    user,
)
from tests.models.wire_google import call, ended, said, stream
from tests.models.wire_server import Answers, Played, WireServer
from windlass.errors import ConfigError, InvalidInput, ProviderError, Rejected, Unavailable
from windlass.kernel import (
    Generation,
    ServerTool,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    WebSearch,
)
from windlass.models.capabilities import capabilities_of
from windlass.models.google import GoogleModel, VertexModel
from windlass.models.names import model_named
from windlass.models.route import Route, replay_blob

TOKEN = "ya29.a-token-that-nobody-may-see"
PATH = f"/v1beta1/projects/my-project/locations/europe-west4/publishers/google/models/{wire.MODEL}"
ASKED = f"POST {PATH}:streamGenerateContent"
GEMINI = f"POST /v1/models/{wire.MODEL}:streamGenerateContent"


class Static(credentials.Credentials):
    """Credentials with a token that does not end; or with an error in the place of one."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # of google.auth
        self._error = error

    def refresh(self, _request: object) -> None:
        if self._error is not None:
            raise self._error
        self.token = TOKEN


@asynccontextmanager
async def vertex(answer: Answers, **options: Any) -> AsyncIterator[tuple[WireServer, VertexModel]]:
    """A server that plays an answer, as the Gemini API another one, and a model that asks it."""
    async with WireServer({ASKED: answer, GEMINI: TEXT.answer}) as server:
        settings = {"project": "my-project", "location": "europe-west4", "credentials": Static()}
        model = VertexModel(wire.MODEL, **{"base_url": server.url, **settings, **options})
        yield server, model
        await model.aclose()


async def test_a_project_is_asked_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    # The SDK would look for these.
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "false")
    async with vertex(TEXT.answer) as (server, model):
        reply, shown = await ask(model, TEXT.request)
    assert (reply.parts, reply.usage, shown) == (TEXT.reply.parts, TEXT.reply.usage, TEXT.shown)
    [seen] = server.requests
    assert seen.headers["authorization"] == f"Bearer {TOKEN}"
    assert "x-goog-api-key" not in seen.headers
    assert seen.json["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert (model.name, repr(model)) == (f"vertex:{wire.MODEL}", f"VertexModel('{wire.MODEL}')")


async def test_a_key_asks_without_a_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "another-project")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
    path = f"POST /v1beta1/publishers/google/models/{wire.MODEL}:streamGenerateContent"
    async with WireServer({path: TEXT.answer}) as server:
        model = VertexModel(wire.MODEL, base_url=server.url, api_key=KEY)
        reply, _ = await ask(model, TEXT.request)
        await model.aclose()
    assert reply.parts == TEXT.reply.parts
    assert server.requests[0].headers["x-goog-api-key"] == KEY
    assert "authorization" not in server.requests[0].headers


# --- where it is, and who may ask -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "host"),
    [
        (None, "aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("us-central1", "us-central1-aiplatform.googleapis.com"),
    ],
)
def test_a_location_has_its_host(location: str | None, host: str) -> None:
    model = VertexModel("gemini-3-pro", project="my-project", location=location)
    place = f"https://{host}/projects/my-project/locations/{location or 'global'}"
    assert model.route == Route("vertex", place, "gemini-3-pro")


def test_the_environment_names_project_and_location(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "theirs")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
    model = model_named("vertex:gemini-2.5-pro")
    assert isinstance(model, VertexModel)
    assert model.route.endpoint == (
        "https://europe-west4-aiplatform.googleapis.com/projects/theirs/locations/europe-west4"
    )


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"project": None}, "project"),
        ({"project": "a/b"}, "project"),
        ({"location": "evil.test/x"}, "location"),
        ({"location": "evil.test#"}, "location"),
        ({"base_url": "https://proxy.test"}, "credentials"),
        ({"base_url": "http://127.0.0.1:1"}, "credentials"),
        ({"base_url": "http://aiplatform.googleapis.com"}, "credentials"),
        ({"base_url": "https://evilgoogleapis.com"}, "credentials"),
        ({"api_key": KEY}, "api_key"),
        ({"project": None, "api_key": KEY, "credentials": Static()}, "api_key"),
    ],
)
def test_what_leads_elsewhere_is_refused(
    options: dict[str, Any], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    monkeypatch.delenv("GOOGLE_CLOUD_LOCATION", raising=False)
    with pytest.raises(ConfigError) as told:
        VertexModel(wire.MODEL, **{"project": "my-project", **options})
    assert told.value.field == field


async def test_a_token_that_the_server_repeats_is_not_told() -> None:
    refused = wire.refusal(403, "PERMISSION_DENIED", f"The token {TOKEN} may not.")
    async with vertex(Played(refused, 403, {}, "application/json")) as (_, model):
        with pytest.raises(Rejected) as told:
            await ask(model, TEXT.request)
    assert str(told.value).startswith("vertex: status 403: PERMISSION_DENIED")
    assert TOKEN not in str(told.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exceptions.DefaultCredentialsError("secret words"), Rejected),  # type: ignore[no-untyped-call]
        (exceptions.RefreshError("secret words"), Rejected),  # type: ignore[no-untyped-call]
        (exceptions.RefreshError("secret words", retryable=True), Unavailable),  # type: ignore[no-untyped-call]
        (exceptions.TransportError("secret words"), Unavailable),  # type: ignore[no-untyped-call]
    ],
)
async def test_a_token_that_is_not_given_is_a_refusal_or_passes(
    error: Exception, kind: type[ProviderError]
) -> None:
    async with vertex(TEXT.answer, credentials=Static(error)) as (server, model):
        with pytest.raises(ProviderError) as told:
            await ask(model, TEXT.request)
    assert type(told.value) is kind
    assert "secret" not in str(told.value)
    assert server.requests == []


def test_making_a_model_looks_for_no_credentials() -> None:
    code = (
        "import sys; from windlass.models.google import VertexModel; "
        "VertexModel('gemini-2.5-pro', project='p1'); "
        "print([name for name in ('google.auth', 'google.genai') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


# --- what is said differently -----------------------------------------------------------------------


async def test_calls_and_results_go_without_ids() -> None:
    history = (
        user("Hi"),
        assistant(ToolCall(call_id="c1", name="add", args={"a": 1, "b": 2}), now("c2")),
        user(result("c1", "add", "3"), result("c2", "now", "noon")),
    )
    async with vertex(TEXT.answer) as (server, model):
        await ask(model, request(*history, tools=(ADD, NOW)))
    _, called, answered = server.requests[0].json["contents"]
    assert called["parts"] == [
        {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": NOT_MINE},
        {"functionCall": {"name": "now", "args": {}}},
    ]
    assert answered["parts"] == [
        {"functionResponse": {"name": "add", "response": {"output": "3"}}},
        {"functionResponse": {"name": "now", "response": {"output": "noon"}}},
    ]


def now(call_id: str) -> ToolCall:
    return ToolCall(call_id=call_id, name="now")


def result(call_id: str, name: str, text: str) -> ToolResult:
    return ToolResult(call_id=call_id, name=name, content=(Text(text=text),))


async def test_a_search_may_leave_out_domains_and_stand_beside_tools() -> None:
    search = WebSearch(blocked_domains=("a.test", "b.test"))
    asked = request(tools=(ADD,), generation=Generation(server_tools=(search,)))
    can = capabilities_of("vertex", "gemini-3-flash")
    async with vertex(TEXT.answer, capabilities=can) as (server, model):
        await ask(model, asked)
    body = server.requests[0].json
    assert body["tools"][0] == {"googleSearch": {"excludeDomains": ["a.test", "b.test"]}}
    # Vertex does not know the setting that the Gemini API requires here.
    assert "toolConfig" not in body


async def test_a_tool_of_the_gemini_api_is_another_providers() -> None:
    wanted = Generation(server_tools=(ServerTool(provider="google", spec={"fileSearch": {}}),))
    async with vertex(TEXT.answer) as (server, model):
        with pytest.raises(InvalidInput, match="a tool of google for vertex"):
            await ask(model, request(generation=wanted))
    assert server.requests == []


# --- signatures -------------------------------------------------------------------------------------

CODE = {"executableCode": {"code": "1"}, "thoughtSignature": SIGNATURE}


async def test_what_was_signed_goes_back_to_the_same_project_alone() -> None:
    answer = stream(
        said(CODE),
        said({"text": "Adding.", "thoughtSignature": SIGNATURE}),
        said(call("now")),
        ended(),
    )
    async with vertex(answer) as (server, model):
        reply, _ = await ask(model, request(tools=(NOW,)))
        [called] = [part for part in reply.parts if isinstance(part, ToolCall)]
        history = (user("Hi"), assistant(*reply.parts), user(result(called.call_id, "now", "noon")))
        await ask(model, request(*history, tools=(NOW,)))
        at_home = server.requests[1].json["contents"][1]["parts"]
        other = VertexModel(
            wire.MODEL,
            base_url=server.url,
            project="another",
            location="europe-west4",
            credentials=Static(),
        )
        assert model.route != other.route
        gemini = GoogleModel(wire.MODEL, base_url=server.url, api_key=KEY)
        await ask(gemini, request(*history, tools=(NOW,)))
        await gemini.aclose()
    assert at_home[:2] == [CODE, {"text": "Adding.", "thoughtSignature": SIGNATURE}]
    elsewhere = server.requests[2].json["contents"][1]["parts"]
    assert [sorted(part) for part in elsewhere] == [["text"], ["functionCall", "thoughtSignature"]]
    assert elsewhere[1]["thoughtSignature"] == NOT_MINE


async def test_what_the_gemini_api_signed_stays_there() -> None:
    async with vertex(TEXT.answer) as (server, model):
        home = Route("google", model.route.endpoint, wire.MODEL)
        signed = replay_blob({"on": "text", "signature": SIGNATURE}, home)
        code = replay_blob({"on": "server", "parts": [CODE]}, home)
        then = assistant(
            ServerToolCall(name="code_execution", replay=code), Text(text="Hello", replay=signed)
        )
        await ask(model, request(user("Hi"), then, user("And?")))
    assert server.requests[0].json["contents"][1]["parts"] == [{"text": "Hello"}]
