"""Gemini, by Google's SDK: one streamed request, one reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from windlass.errors import ProviderError
from windlass.kernel.model_call import ModelRequest
from windlass.models.google.request import Asked, ask_of
from windlass.models.google.stream import ReplyReader, event_lines
from windlass.models.provider_errors import cut_off, from_status, malformed
from windlass.models.sdk_model import Prepared, SdkModel
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from google.genai import Client, types
    from httpx2 import AsyncClient, Request, Response

_PROVIDER = "google"
_CONNECT_S = 15.0
# So much of an event is missing at most where JSON stops making sense right at its end: `\ud83`, `fals`.
_SHORT = 6


class GoogleModel(SdkModel["_Clients"]):
    """A Gemini model, such as `GoogleModel("gemini-2.5-flash")`."""

    provider = _PROVIDER

    async def _prepare(self, request: ModelRequest, emit: EmitModelEvent) -> Prepared:
        reader = ReplyReader(request, self.route, emit)
        return await ask_of(request, self.route, self.capabilities), reader

    async def _read(self, client: _Clients, asked: Asked, reader: ReplyReader) -> None:
        stream = await client.sdk.aio.models.generate_content_stream(
            model=self.route.model,
            contents=cast("Any", asked.contents),
            config=cast("Any", asked.config),
        )
        chunks = cast("AsyncGenerator[types.GenerateContentResponse, None]", stream)
        async with aclosing(chunks):
            async for chunk in chunks:
                reader.take(chunk)

    def _make_client(self) -> _Clients:
        import httpx2  # noqa: PLC0415 - comes with the SDK, which few programs need
        from google import genai  # noqa: PLC0415 - half a second

        http = self._http_client or httpx2.AsyncClient(
            follow_redirects=False,
            event_hooks={"request": [_connect_soon], "response": [_cut_as_events]},
        )
        sdk = genai.Client(
            # Said here, because the SDK would look for the others in the environment.
            vertexai=False,
            api_key=self._key.reveal(),
            http_options=genai.types.HttpOptions(
                base_url=self._base_url,
                timeout=max(1, round(self._timeout * 1000)),
                # Given, because the SDK would use aiohttp where that is installed, which asks twice.
                httpx_async_client=http,
            ),
        )
        return _Clients(sdk, http)

    async def _close_client(self, client: _Clients) -> None:
        client.sdk.close()
        if self._http_client is None:
            await client.http.aclose()

    def _failure(self, error: Exception) -> ProviderError:
        """Return what an exception means that came out of the SDK, or of reading what it gave."""
        from google.genai import errors  # noqa: PLC0415 - imported already when there is something to map

        if isinstance(error, errors.UnknownApiResponseError):
            if _is_cut(error.__cause__):
                return cut_off(_PROVIDER)
            return malformed(_PROVIDER, "an event that is not JSON")
        if isinstance(error, errors.APIError):
            # Also those in the middle of a stream, whose response has the status 200.
            headers = getattr(error.response, "headers", None) or {}
            body = msgspec.json.encode(error.details, enc_hook=lambda _: None).decode()
            return from_status(int(error.code or 500), body, headers, provider=_PROVIDER)
        return super()._failure(error)


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


def _is_cut(error: object) -> bool:
    """Whether JSON failed because its end is missing: the stream broke off in the middle of an event."""
    text, place = getattr(error, "doc", ""), getattr(error, "pos", 0)
    unfinished = str(getattr(error, "msg", "")).startswith("Unterminated string")
    return unfinished or len(text) - place <= _SHORT
