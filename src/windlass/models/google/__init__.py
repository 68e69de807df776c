"""Gemini, by Google's SDK: one streamed request, one reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from windlass.errors import CallerError, LimitExceeded, ProviderError
from windlass.guards.secret import Secret
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.models.capabilities import Capabilities, capabilities_of
from windlass.models.credentials import base_url_for, key_for, redactor_of
from windlass.models.google.request import Asked, ask_of
from windlass.models.google.stream import ReplyReader, event_lines
from windlass.models.provider_errors import (
    cut_off,
    from_exception,
    from_status,
    malformed,
    overflow_reply,
)
from windlass.models.route import Route
from windlass.models.sdk_client import SdkClient, checked_timeout
from windlass.ports.key_screen import KeyScreen
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from google.genai import Client, types
    from httpx2 import AsyncClient, Request, Response

_PROVIDER = "google"
_TIMEOUT_S = 600.0
_CONNECT_S = 15.0
# So much of an event is missing at most where JSON stops making sense right at its end: `\ud83`, `fals`.
_SHORT = 6


class GoogleModel:
    """A Gemini model, such as `GoogleModel("gemini-2.5-flash")`.

    `timeout` is how long to wait for each next piece of the reply, in seconds.
    `http_client` is an `httpx2.AsyncClient` of yours, which you close yourself.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        capabilities: Capabilities | None = None,
        timeout: float = _TIMEOUT_S,
        http_client: AsyncClient | None = None,
    ) -> None:
        endpoint = base_url_for(_PROVIDER, base_url)
        self._key = key_for(_PROVIDER, base_url, given=api_key)
        self._redactor = redactor_of(self._key)
        self._route = Route(_PROVIDER, endpoint, model)
        self._can = capabilities or capabilities_of(_PROVIDER, model)
        self._timeout = checked_timeout(timeout)
        self._given_http = http_client
        self._client: SdkClient[_Clients] = SdkClient(self._open, self._shut)

    @property
    def name(self) -> str:
        """What requests, journals and usage call it."""
        return f"{_PROVIDER}:{self._route.model}"

    def __repr__(self) -> str:
        return f"GoogleModel({self._route.model!r})"

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Answer a request; `emit` shows what is there already.

        Raises:
            ProviderError: there is no reply. Its `retry` says whether asking again later may help.
            LimitExceeded: the answer is larger than any reply.
            InvalidInput: the request names a variant that this model does not have.
        """
        asked = await ask_of(request, self._route, self._can)
        screen = KeyScreen(self._redactor, emit)
        reader = ReplyReader(request, self._route, screen.emit)
        try:
            await self._read(asked, reader)
            return screen.reply(reader.reply())
        except LimitExceeded:
            raise
        except Exception as error:  # noqa: BLE001 - the door: above it only windlass's own errors exist
            failure = _failure(error)
        return overflow_reply(failure)

    async def aclose(self) -> None:
        """Close the connections; the next call opens others."""
        await self._client.aclose()

    async def _read(self, asked: Asked, reader: ReplyReader) -> None:
        models = self._client.get().sdk.aio.models
        stream = await models.generate_content_stream(
            model=self._route.model,
            contents=cast("Any", asked.contents),
            config=cast("Any", asked.config),
        )
        chunks = cast("AsyncGenerator[types.GenerateContentResponse, None]", stream)
        async with aclosing(chunks):
            async for chunk in chunks:
                reader.take(chunk)

    def _open(self) -> _Clients:
        import httpx2  # noqa: PLC0415 - comes with the SDK, which few programs need
        from google import genai  # noqa: PLC0415 - half a second

        http = self._given_http or httpx2.AsyncClient(
            follow_redirects=False,
            event_hooks={"request": [_connect_soon], "response": [_cut_as_events]},
        )
        sdk = genai.Client(
            # Said here, because the SDK would look for the others in the environment.
            vertexai=False,
            api_key=self._key.reveal(),
            http_options=genai.types.HttpOptions(
                base_url=self._route.endpoint,
                timeout=max(1, round(self._timeout * 1000)),
                # Given, because the SDK would use aiohttp where that is installed, which asks twice.
                httpx_async_client=http,
            ),
        )
        return _Clients(sdk, http)

    async def _shut(self, clients: _Clients) -> None:
        clients.sdk.close()
        if self._given_http is None:
            await clients.http.aclose()


class _Clients(NamedTuple):
    """The SDK's client and the connections below it."""

    sdk: Client
    http: AsyncClient


async def _connect_soon(request: Request) -> None:
    """Wait less for a connection than for an answer; the SDK knows only one number for both."""
    waits = request.extensions["timeout"]
    waits["connect"] = min(waits["connect"], _CONNECT_S)


async def _cut_as_events(response: Response) -> None:
    response.aiter_lines = partial(event_lines, response)  # type: ignore[method-assign]


def _failure(error: Exception) -> ProviderError:
    """Return what an exception means that came out of the SDK, or of reading what it gave."""
    from google.genai import errors  # noqa: PLC0415 - imported already when there is something to map

    if isinstance(error, CallerError):
        # windlass cannot keep something in the reply; the error's message names no payload.
        return malformed(_PROVIDER, f"a reply that cannot be kept: {error}")
    if isinstance(error, errors.UnknownApiResponseError):
        if _is_cut(error.__cause__):
            return cut_off(_PROVIDER)
        return malformed(_PROVIDER, "an event that is not JSON")
    if isinstance(error, errors.APIError):
        # Also those in the middle of a stream, whose response has the status 200.
        headers = getattr(error.response, "headers", None) or {}
        body = msgspec.json.encode(error.details, enc_hook=lambda _: None).decode()
        return from_status(int(error.code or 500), body, headers, provider=_PROVIDER)
    return from_exception(error, provider=_PROVIDER)


def _is_cut(error: object) -> bool:
    """Whether JSON failed because its end is missing: the stream broke off in the middle of an event."""
    text, place = getattr(error, "doc", ""), getattr(error, "pos", 0)
    unfinished = str(getattr(error, "msg", "")).startswith("Unterminated string")
    return unfinished or len(text) - place <= _SHORT
