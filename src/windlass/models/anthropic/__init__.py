"""Anthropic's Messages API, through its own SDK (`windlass[anthropic]`)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from windlass.errors import LimitExceeded
from windlass.guards.secret import Secret
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.models.anthropic.request import body_of
from windlass.models.anthropic.stream import StreamReader
from windlass.models.capabilities import Capabilities, capabilities_of
from windlass.models.credentials import base_url_for, key_for, redactor_of
from windlass.models.provider_errors import from_exception, malformed, overflow_reply
from windlass.models.route import Route
from windlass.models.sdk_client import SdkClient, checked_timeout
from windlass.models.server_events import EventReader, check_is_stream
from windlass.ports.key_screen import KeyScreen
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from httpx2 import AsyncClient

_PROVIDER = "anthropic"
_TIMEOUT_S = 300.0
# Connecting needs no time to think, so its timeout is short.
_CONNECT_S = 10.0
_DRAIN_S = 0.05


class AnthropicModel:
    """A model of Anthropic, such as `AnthropicModel("claude-sonnet-4-5")`.

    `base_url` is where to ask instead of at Anthropic, with a key of its own. `timeout` is how many seconds
    may pass without a byte. `http_client` is an `httpx2.AsyncClient` of yours, which you close. Nothing is
    imported or connected before the first call.
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
        self._model = model
        self._base_url = base_url_for(_PROVIDER, base_url)
        self._key = key_for(_PROVIDER, base_url, given=api_key)
        self._redactor = redactor_of(self._key)
        self._route = Route(_PROVIDER, self._base_url, model)
        self._capabilities = capabilities or capabilities_of(_PROVIDER, model)
        self._timeout = checked_timeout(timeout)
        self._http_client = http_client
        self._client = SdkClient(self._make_client, self._close_client)

    @property
    def name(self) -> str:
        """What requests, journals and usage call it."""
        return f"{_PROVIDER}:{self._model}"

    def __repr__(self) -> str:
        return f"AnthropicModel({self._model!r})"

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Answer a request; text and thoughts are shown as they come.

        Raises:
            ProviderError: there is no reply.
            LimitExceeded: the answer is larger than any reply.
        """
        sent = await body_of(request, route=self._route, capabilities=self._capabilities)
        screen = KeyScreen(self._redactor, emit)
        reader = StreamReader(self._route, screen.emit, answer_tool=sent.answer_tool)
        try:
            await self._read(sent.body, reader)
            return screen.reply(reader.reply())
        except LimitExceeded:
            raise
        except Exception as raised:  # noqa: BLE001 - an SDK's errors are many; each is mapped
            error = from_exception(raised, provider=_PROVIDER)
        return overflow_reply(error)

    async def _read(self, body: dict[str, object], reader: StreamReader) -> None:
        """Ask, and hand each event to the reader until the reply is whole.

        The bytes are read, not the SDK's models: what is stored is what was sent, and no event is endless.
        """
        from anthropic import AsyncStream  # noqa: PLC0415 - takes a second, so the first call imports it

        stream = await self._client.get().post(
            "/v1/messages",
            cast_to=object,
            body=body,
            options={"follow_redirects": False},  # a key must not travel on
            stream=True,
            stream_cls=AsyncStream[object],
        )
        async with stream:
            check_is_stream(stream.response.headers.get("content-type", ""), _PROVIDER)
            pieces = stream.response.aiter_bytes()
            events = EventReader(_PROVIDER)
            while not reader.is_over and (piece := await anext(pieces, None)) is not None:
                for data in events.feed(piece):
                    reader.take(data)
            if not events.n_bytes:
                raise malformed(_PROVIDER, "found an empty body, wanted events")
            # The reply is whole; read to the end of the answer, so that the connection can be used again.
            with suppress(Exception):
                async with asyncio.timeout(_DRAIN_S):
                    async for _ in pieces:
                        pass

    def _make_client(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic, Timeout  # noqa: PLC0415 - as above

        return AsyncAnthropic(
            api_key=self._key.reveal(),
            base_url=self._base_url,
            timeout=Timeout(self._timeout, connect=min(self._timeout, _CONNECT_S)),
            max_retries=0,  # the runtime retries, and takes back what was shown
            http_client=self._http_client,
        )

    async def _close_client(self, client: AsyncAnthropic) -> None:
        if self._http_client is None:
            await client.close()

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        await self._client.aclose()
