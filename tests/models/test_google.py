"""Gemini through Google's own SDK, against a server that plays its wire bytes: the table for all adapters."""

from __future__ import annotations

import subprocess
import sys

import httpx2
import pytest

from tests.models.behaviours import KEY, ask
from tests.models.google_cases import SIGNATURE, TEXT, Google
from tests.models.wire_google import call, ended, said, stream
from tests.models.wire_server import Played, WireServer
from windlass import Agent, tool
from windlass.errors import Rejected
from windlass.models.google import GoogleModel


class TestGoogle(Google):
    """The table."""


async def test_a_turn_gives_back_what_was_signed() -> None:
    @tool(effect="pure")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    answers = [
        stream(
            said({"text": "Adding.", "thought": True}),
            said(call("add", SIGNATURE, args={"a": 1, "b": 2})),
            said(call("add", args={"a": 3, "b": 4})),
            ended(),
        ),
        stream(said({"text": "3 and 7"}), ended({"text": ".", "thoughtSignature": SIGNATURE})),
    ]
    async with Google().playing(answers) as (server, model):
        result = await Agent("adder", model=model, tools=[add]).run("1+2, 3+4?")
    assert result.text == "3 and 7."
    assert result.usage.input_tokens == 22
    asked, called, answered = server.requests[1].json["contents"]
    first, second = called["parts"]
    assert first["thoughtSignature"] == SIGNATURE
    assert "thoughtSignature" not in second
    given = [part["functionResponse"] for part in answered["parts"]]
    assert [one["id"] for one in given] == [part["functionCall"]["id"] for part in called["parts"]]
    assert [one["response"] for one in given] == [{"output": "3"}, {"output": "7"}]
    assert asked["parts"] == [{"text": "1+2, 3+4?"}]


async def test_a_client_of_ones_own_does_not_follow_a_redirect_with_the_key() -> None:
    async with WireServer({"POST /elsewhere": TEXT.answer}) as other:
        moved = Played(b"", 307, {"location": f"{other.url}/elsewhere"})
        async with (
            httpx2.AsyncClient(follow_redirects=True) as http,
            Google().playing(moved, http_client=http) as (_, model),
        ):
            with pytest.raises(Rejected, match="a redirect, which is not followed"):
                await ask(model, TEXT.request)
        assert other.requests == []


def test_the_name_is_the_provider_and_the_model() -> None:
    assert GoogleModel("gemini-2.5-pro", api_key=KEY).name == "google:gemini-2.5-pro"


def test_the_sdk_is_not_imported_before_the_first_call() -> None:
    code = (
        "import sys; from windlass.models.google import GoogleModel; "
        "GoogleModel('gemini-2.5-pro', api_key='some-key'); "
        "print([name for name in ('google.genai', 'httpx2', 'pydantic') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
