"""Claude on Vertex AI and on Amazon Bedrock, through Anthropic's SDK, against a server that stands in for them.

Paths, headers and the place of the model's name are those of the SDK and of the hosts' documentation.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, ClassVar

import pytest
from google.auth import exceptions

from tests.models import wire_anthropic as wire
from tests.models.anthropic_cases import CASES, CITY, ENDPOINT, request, sent_text, user
from tests.models.behaviours import KEY, Behaviours, ask
from tests.models.test_anthropic import TestAnthropic as AtAnthropic
from tests.models.wire_server import WireServer
from windlass.errors import ConfigError, ProviderError, Rejected, Unavailable
from windlass.kernel import Generation, WebSearch
from windlass.models.anthropic import AnthropicBedrockModel, AnthropicVertexModel
from windlass.models.capabilities import capabilities_of
from windlass.models.names import model_named

NAME = "claude-sonnet-4-5@20250929"
PLACE = "/projects/my-project/locations/europe-west1/publishers/anthropic/models"
VERTEX = f"POST {PLACE}/{wire.MODEL}:streamRawPredict"
BEDROCK_NAME = "anthropic.claude-sonnet-4-5"
HELLO = wire.answer(wire.text(0, "Hello!"))


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_BEARER_TOKEN_BEDROCK",
        "ANTHROPIC_AWS_API_KEY",
    ):
        monkeypatch.delenv(variable, raising=False)


class Credentials:
    """As those of google-auth: good until they were used, and renewed by `refresh`."""

    def __init__(self, *tokens: str, error: Exception | None = None) -> None:
        self._tokens = list(tokens)
        self._error = error
        self.token: str | None = None
        self.valid = False

    def refresh(self, _request: object) -> None:
        if self._error is not None:
            raise self._error
        self.token = self._tokens.pop(0)
        self.valid = not self._tokens


def vertex(url: str, **options: Any) -> AnthropicVertexModel:
    where = {"project": "my-project", "location": "europe-west1", "base_url": url}
    return AnthropicVertexModel(NAME, **{**where, **options})


def sent_at_vertex(body: dict[str, Any]) -> None:
    """The model stands in the path, the version of the API in the body."""
    assert body.pop("anthropic_version")
    sent_text({"model": wire.MODEL, **body})


class TestVertex(Behaviours):
    endpoint = VERTEX
    terminal = AtAnthropic.terminal
    mid_stream_error = AtAnthropic.mid_stream_error
    overflow = AtAnthropic.overflow
    quota_400 = AtAnthropic.quota_400
    refusal = AtAnthropic.refusal
    cases: ClassVar = {**CASES, "text": CASES["text"]._replace(sent=sent_at_vertex)}

    def model(self, base_url: str, **options: Any) -> AnthropicVertexModel:
        known = capabilities_of("anthropic", wire.MODEL)
        credentials = Credentials(KEY)
        made = vertex(base_url, credentials=credentials, capabilities=known, **options)
        # Blobs are bound to an address, and the server's is another each time.
        made.route = type(made.route)("anthropic", ENDPOINT, wire.MODEL)
        return made


class TestBedrock(Behaviours):
    endpoint = "POST /v1/messages"
    terminal = AtAnthropic.terminal
    mid_stream_error = AtAnthropic.mid_stream_error
    overflow = AtAnthropic.overflow
    quota_400 = AtAnthropic.quota_400
    refusal = AtAnthropic.refusal
    cases = CASES

    def model(self, base_url: str, **options: Any) -> AnthropicBedrockModel:
        made = AnthropicBedrockModel(
            BEDROCK_NAME, region="eu-west-1", base_url=base_url, api_key=KEY, **options
        )
        made.route = type(made.route)("anthropic", ENDPOINT, wire.MODEL)
        return made


# --- Vertex AI --------------------------------------------------------------------------------------


async def test_a_dated_name_stands_in_the_path_as_vertex_has_it() -> None:
    async with WireServer({f"POST {PLACE}/{NAME}:streamRawPredict": HELLO}) as server:
        model = vertex(server.url, api_key=KEY)
        found, _ = await ask(model, request())
        await model.aclose()
    assert found.text == "Hello!"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert model.name == f"vertex-anthropic:{NAME}"


async def test_a_token_that_has_run_out_is_renewed_and_never_shown() -> None:
    tokens = ("canary-token-one-12345", "canary-token-two-12345")
    echo = wire.answer(wire.text(0, *tokens))
    async with WireServer({f"POST {PLACE}/{NAME}:streamRawPredict": echo}) as server:
        model = vertex(server.url, credentials=Credentials(*tokens))
        replies = [(await ask(model, request()))[0] for _ in range(3)]
        await model.aclose()
    sent = [each.headers["authorization"] for each in server.requests]
    assert sent == [f"Bearer {tokens[0]}", f"Bearer {tokens[1]}", f"Bearer {tokens[1]}"]
    assert tokens[0] not in replies[0].text
    assert tokens[1] not in replies[1].text + replies[2].text


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (exceptions.DefaultCredentialsError, Rejected, "gcloud auth"),
        (exceptions.TransportError, Unavailable, "the connection failed"),
        (exceptions.RefreshError, Rejected, "refused \\(RefreshError"),
    ],
)
async def test_no_token_is_told_without_what_the_server_said(
    error: type[Exception], kind: type[ProviderError], told: str
) -> None:
    model = vertex("http://127.0.0.1:9", credentials=Credentials(error=error("secret body")))
    with pytest.raises(kind, match=told) as raised:
        await ask(model, request())
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_vertex_keeps_to_googles_hosts_and_needs_a_project() -> None:
    with pytest.raises(ConfigError, match="GOOGLE_CLOUD_PROJECT"):
        AnthropicVertexModel(NAME)
    with pytest.raises(ConfigError, match="go to Google alone"):
        vertex("https://elsewhere.example")
    with pytest.raises(ConfigError, match="location"):
        AnthropicVertexModel(NAME, project="p", location="evil.example/")
    with pytest.raises(ConfigError, match="one of the two"):
        vertex("https://elsewhere.example", api_key=KEY, credentials=Credentials(KEY))


@pytest.mark.parametrize(
    ("location", "host"),
    [
        (None, "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("europe-west1", "europe-west1-aiplatform.googleapis.com"),
    ],
)
def test_a_location_has_its_host(location: str | None, host: str) -> None:
    model = AnthropicVertexModel(NAME, project="p", location=location)
    assert model.route.endpoint.startswith(f"https://{host}/v1/projects/p/locations/")


async def test_a_schema_is_kept_by_a_tool_on_vertex() -> None:
    """By the documentation: a project has to allow the API's own way first."""
    said = wire.answer(
        wire.tool_use(0, "toolu_1", "final_answer", '{"city": "Rome"}'), reason="tool_use"
    )
    async with WireServer({f"POST {PLACE}/{NAME}:streamRawPredict": said}) as server:
        model = vertex(server.url, api_key=KEY)
        found, _ = await ask(model, request(output=CITY))
        await model.aclose()
    assert found.text == '{"city":"Rome"}'
    assert "output_config" not in server.requests[0].json


# --- Bedrock ----------------------------------------------------------------------------------------


async def test_bedrock_is_asked_with_its_key_and_its_name() -> None:
    async with WireServer({"POST /v1/messages": HELLO}) as server:
        model = AnthropicBedrockModel(
            BEDROCK_NAME, region="eu-west-1", base_url=server.url, api_key=KEY
        )
        searching = Generation(server_tools=(WebSearch(),))
        found, _ = await ask(model, request(user("Hi"), generation=searching))
        await model.aclose()
    [seen] = server.requests
    assert found.text == "Hello!"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in seen.headers
    assert seen.json["model"] == BEDROCK_NAME


def test_bedrock_lives_in_a_region_and_has_its_key_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", f"{KEY}\n")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    model = model_named(f"bedrock-anthropic:{BEDROCK_NAME}")
    assert isinstance(model, AnthropicBedrockModel)
    assert model.route.endpoint == "https://bedrock-mantle.us-east-1.api.aws/anthropic"
    assert model.name == f"bedrock-anthropic:{BEDROCK_NAME}"
    with pytest.raises(ConfigError, match="go to Bedrock alone"):
        AnthropicBedrockModel(BEDROCK_NAME, base_url="https://elsewhere.example")
    with pytest.raises(ConfigError, match="one of the two"):
        AnthropicBedrockModel(BEDROCK_NAME, api_key=KEY, profile="me")


@pytest.mark.parametrize("region", [None, "evil.example/x", "eu"])
def test_bedrock_needs_a_region(region: str | None) -> None:
    with pytest.raises(ConfigError, match="AWS_REGION"):
        AnthropicBedrockModel(BEDROCK_NAME, region=region, api_key=KEY)


async def test_without_a_key_and_without_boto3_bedrock_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", _without("botocore"))
    model = AnthropicBedrockModel(BEDROCK_NAME, region="eu-west-1")
    with pytest.raises(ConfigError, match=r"AWS_BEARER_TOKEN_BEDROCK|\[bedrock\]"):
        await ask(model, request())


class BotoCoreError(Exception):
    """As that of botocore, which need not be installed here."""


@pytest.mark.parametrize("error", [BotoCoreError, RuntimeError])
async def test_credentials_that_aws_does_not_find_are_told(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def sign(**_: object) -> dict[str, str]:
        raise error("in secret/.aws")

    monkeypatch.setattr("anthropic.lib.bedrock._mantle.get_auth_headers", sign)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    model = AnthropicBedrockModel(
        BEDROCK_NAME, region="eu-west-1", base_url="http://127.0.0.1:9", profile="me"
    )
    with pytest.raises(Rejected, match=f"no credentials of AWS \\({error.__name__}") as raised:
        await ask(model, request())
    assert "secret" not in str(raised.value)


async def test_a_request_is_signed_by_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    def sign(**given: Any) -> dict[str, str]:
        return {"authorization": f"AWS4 {given['profile']} {given['region']}"}

    monkeypatch.setattr("anthropic.lib.bedrock._mantle.get_auth_headers", sign)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    async with WireServer({"POST /v1/messages": HELLO}) as server:
        model = AnthropicBedrockModel(
            BEDROCK_NAME, region="eu-west-1", base_url=server.url, profile="me"
        )
        await ask(model, request())
        await model.aclose()
    assert server.requests[0].headers["authorization"] == "AWS4 me eu-west-1"
    assert KEY not in str(server.requests[0].headers)


def _without(missing: str) -> Callable[[str], object]:
    return lambda name: None if name == missing else find_spec(name)


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("anthropic.claude-opus-4-8", "claude-opus-4-8"),
        ("us.anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku"),
        ("global.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
    ],
)
def test_a_name_of_bedrock_is_understood(name: str, like: str) -> None:
    model = AnthropicBedrockModel(name, region="eu-west-1", api_key=KEY)
    assert model.capabilities == capabilities_of("anthropic", like)


def test_a_host_imports_neither_the_sdk_nor_what_signs_before_the_first_call() -> None:
    code = (
        "import sys\n"
        "from windlass.models.anthropic import AnthropicBedrockModel, AnthropicVertexModel\n"
        "AnthropicVertexModel('claude-x', project='p')\n"
        "AnthropicBedrockModel('claude-x', region='eu-west-1', api_key='some-key-123')\n"
        "print([name in sys.modules for name in ('anthropic', 'google.auth', 'botocore')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[False, False, False]"
