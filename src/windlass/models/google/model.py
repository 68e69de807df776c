"""A Gemini model: one streamed request, which Google's SDK sends, and one reply."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from windlass.errors import ProviderError
from windlass.kernel.model_call import ModelRequest
from windlass.models.google.request import body_of
from windlass.models.google.stream import ReplyReader
from windlass.models.provider_errors import from_status, malformed
from windlass.models.sdk_model import Prepared, SdkModel
from windlass.models.server_events import read_reply
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from google.genai import Client
    from httpx2 import AsyncClient, Response


class GoogleModel(SdkModel["_Clients"]):
    """A Gemini model, such as `GoogleModel("gemini-2.5-flash")`."""

    provider = "google"

    async def _prepare(self, request: ModelRequest, emit: EmitModelEvent) -> Prepared:
        reader = ReplyReader(request, self.route, emit)
        return await body_of(request, self.route, self.capabilities), reader

    async def _read(self, client: _Clients, asked: dict[str, Any], reader: ReplyReader) -> None:
        """Read the bytes, not the SDK's models: what is stored is what was sent, and no event is endless."""
        from windlass.models.google.sender import Answer  # noqa: PLC0415 - imports the HTTP client

        async with aclosing(Answer(await self._send(client.sdk, asked))) as answer:
            await read_reply(answer, reader, self.provider)

    async def _send(self, sdk: Client, body: dict[str, Any]) -> Response:
        from windlass.models.google.sender import TAKEN  # noqa: PLC0415 - as above

        taken: list[Response] = []
        taking = TAKEN.set(taken)
        try:
            stream = await sdk.aio.models.generate_content_stream(
                model=self.route.model,
                contents="",  # as is all that is sent, in the body
                config={
                    "http_options": {"extra_body": body},
                    # The runtime calls tools and asks again; the SDK does neither.
                    "automatic_function_calling": {"disable": True},
                    "automatic_continuation": False,
                },
            )
            async for _ in stream:
                pass
        finally:
            TAKEN.reset(taking)
        if not taken:
            raise malformed(self.provider, "found no answer")
        return taken[0]

    def _make_client(self) -> _Clients:
        import httpx2  # noqa: PLC0415 - comes with the SDK, which few programs need
        from google import genai  # noqa: PLC0415 - half a second

        from windlass.models.google.sender import Sender  # noqa: PLC0415 - as above

        http = self._http_client or httpx2.AsyncClient()
        sdk = genai.Client(
            **self._account(),
            http_options=genai.types.HttpOptions(
                base_url=self._base_url,
                timeout=max(1, round(self._timeout * 1000)),
                # Given, because the SDK would use aiohttp where that is installed, which asks twice.
                httpx_async_client=Sender(http),
            ),
        )
        return _Clients(sdk, http)

    def _account(self) -> dict[str, Any]:
        """Return who asks. All of it is said here, because the SDK would look for the rest in the environment."""
        return {"vertexai": False, "api_key": self._key.reveal()}

    async def _close_client(self, client: _Clients) -> None:
        client.sdk.close()
        if self._http_client is None:
            await client.http.aclose()

    def _failure(self, error: Exception) -> ProviderError:
        """Return what an exception means that came out of the SDK, or of reading what it gave."""
        from google.genai import errors  # noqa: PLC0415 - imported already when there is something to map

        if isinstance(error, errors.APIError):
            headers = getattr(error.response, "headers", None) or {}
            body = msgspec.json.encode(error.details, enc_hook=lambda _: None).decode()
            return from_status(int(error.code or 500), body, headers, provider=self.provider)
        return super()._failure(error)


class _Clients(NamedTuple):
    """The SDK's client and the connections below it."""

    sdk: Client
    http: AsyncClient
