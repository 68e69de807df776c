"""The way to a server that speaks one of OpenAI's protocols: the SDK sends, and its faults end here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    suppress,
)
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec

from windlass.errors import ConfigError, InvalidInput, ProviderError, WindlassError
from windlass.guards.secret import Secret, register_secret
from windlass.kernel.model_call import ModelReply
from windlass.kernel.value import Json
from windlass.models.credentials import KEY_SOURCES, base_url_for, key_for, redactor_of
from windlass.models.provider_errors import (
    from_error_object,
    from_exception,
    malformed,
    overflow_reply,
)
from windlass.models.route import Route, endpoint_of
from windlass.models.sdk_client import SdkClient, checked_timeout
from windlass.models.server_events import check_is_stream, json_events
from windlass.ports.key_screen import KeyScreen
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from openai import AsyncAPIResponse, AsyncOpenAI

Api: TypeAlias = Literal["responses", "chat"]

DEFAULT_TIMEOUT_S = 600.0
"""How long nothing may come: models think before they speak, and the longest for many minutes."""

CONNECT_TIMEOUT_S = 10.0
"""How long connecting may take: it needs no time to think, so this is short."""

# A stream that has said its last word is read to its end for so long, so that its connection can be used again.
_DRAIN_S = 0.05
_MAX_ERROR_BYTES = 64 * 1024


class ReplyReader(Protocol):
    """Reads the events of one reply."""

    @property
    def is_over(self) -> bool:
        """Whether the provider has said that there is no more."""
        ...

    def take(self, event: dict[str, Any] | None) -> None:
        """Read one event; None is `[DONE]`."""
        ...

    def reply(self) -> ModelReply:
        """Return what was read, once it is whole."""
        ...


class OpenAIConnection:
    """One server and the key for it. Nothing is imported or opened before it is used."""

    def __init__(
        self,
        provider: str,
        *,
        base_url: str | None,
        api_key: str | Secret | None,
        timeout: float,
        http_client: AsyncClient | None = None,
    ) -> None:
        self.provider = provider
        self.base_url, self._key = _address_and_key(provider, base_url, api_key)
        self._redactor = redactor_of(self._key)
        self._timeout = checked_timeout(timeout)
        self._http_client = http_client
        self._client: SdkClient[AsyncOpenAI] = SdkClient(self._make, self._close)

    def route(self, model: str) -> Route:
        """Return the route of a model there."""
        return Route(self.provider, self.base_url, model)

    def screen(self, emit: EmitModelEvent) -> KeyScreen:
        """Return what a reply is shown through."""
        return KeyScreen(self._redactor, emit)

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        await self._client.aclose()

    async def _close(self, client: AsyncOpenAI) -> None:
        if self._http_client is None:  # one that was given is closed by its owner
            await client.close()

    async def ask(self, api: Api, body: dict[str, Any], reader: ReplyReader) -> ModelReply:
        """Send a request and return the reply that the reader makes of its events.

        Raises:
            ProviderError: there was no answer, or one that cannot be read.
            LimitExceeded: the answer is larger than any reply.
        """
        try:
            await self._read(api, body, reader)
            return self._whole(reader)
        except ProviderError as error:
            return overflow_reply(error)

    def _whole(self, reader: ReplyReader) -> ModelReply:
        try:
            return reader.reply()
        except InvalidInput as error:  # text in a blob or in usage that cannot be stored
            raise malformed(self.provider, str(error)) from None

    async def _read(self, api: Api, body: dict[str, Any], reader: ReplyReader) -> None:
        """Read events until the reader has seen the end, or there are no more."""
        async with self._events(api, body) as events:
            async for event in events:
                reader.take(event)
                if reader.is_over:
                    break
            with suppress(WindlassError, TimeoutError):
                async with asyncio.timeout(_DRAIN_S):
                    async for _ in events:
                        pass

    @asynccontextmanager
    async def _events(
        self, api: Api, body: dict[str, Any]
    ) -> AsyncIterator[AsyncIterator[dict[str, Any] | None]]:
        async with AsyncExitStack() as stack:
            failure: Exception | None = None
            try:
                response = await stack.enter_async_context(self._open(api, body))
                await self._check_type(response)
            except Exception as error:  # noqa: BLE001 - an SDK's exceptions are mapped here
                failure = self._failure(error)
            if (
                failure is not None
            ):  # out here, where it does not carry what the provider said with it
                raise failure
            events = self._mapped(json_events(response.iter_bytes(), self.provider))
            yield await stack.enter_async_context(aclosing(events))

    def _open(
        self, api: Api, body: dict[str, Any]
    ) -> AbstractAsyncContextManager[AsyncAPIResponse[Any]]:
        client = self._client.get()
        # By the SDK's methods, whose arguments are types of its own: what is sent is tested on the wire.
        resource: Any = client.responses if api == "responses" else client.chat.completions
        opened: AbstractAsyncContextManager[AsyncAPIResponse[Any]] = (
            resource.with_streaming_response.create(
                **body, stream=True, extra_headers=self._extra_headers()
            )
        )
        return opened

    def _extra_headers(self) -> dict[str, Any]:
        if self._key is not None:
            return {}
        from openai import Omit  # noqa: PLC0415 - see _make

        return {"Authorization": Omit()}

    async def _mapped(
        self, events: AsyncIterator[dict[str, Any] | None]
    ) -> AsyncGenerator[dict[str, Any] | None, None]:
        try:
            async for event in events:
                yield event
        except Exception as error:  # noqa: BLE001 - the HTTP client's, in mid-stream
            failure = self._failure(error)
        else:
            return
        raise failure

    def _failure(self, error: Exception) -> Exception:
        is_ours = isinstance(error, WindlassError)
        return error if is_ours else from_exception(error, provider=self.provider)

    async def _check_type(self, response: AsyncAPIResponse[Any]) -> None:
        """Refuse an answer that is not a stream; an error that came with status 200 is raised as one.

        Raises:
            ProviderError: always, unless it is a stream of events.
        """
        found = str(response.headers.get("content-type", ""))
        if found.partition(";")[0].strip().lower() == "application/json":
            error = _error_in(await _beginning(response))
            if error is not None:
                raise from_error_object(error, provider=self.provider)
        check_is_stream(found, self.provider)

    def _make(self) -> AsyncOpenAI:
        try:
            # Importing it takes half a second, so the first call does it.
            import openai  # noqa: PLC0415
        except ImportError:
            raise ConfigError(
                "model: the OpenAI SDK is not installed; run pip install 'windlass[openai]'",
                field="model",
                wanted="pip install 'windlass[openai]'",
            ) from None

        # No redirects: a key goes to the host it was given for.
        http_client = self._http_client or openai.DefaultAsyncHttpxClient(follow_redirects=False)
        client = openai.AsyncOpenAI(
            api_key=self._key.reveal() if self._key is not None else "none",
            base_url=self.base_url,
            timeout=openai.Timeout(self._timeout, connect=min(self._timeout, CONNECT_TIMEOUT_S)),
            max_retries=0,  # the runtime retries, and journals that it did
            http_client=http_client,
        )
        if self.base_url != KEY_SOURCES["openai"].base_url:
            # The SDK sends the environment's OpenAI headers to every server; only OpenAI may see them.
            client.organization = client.project = None
            client._custom_headers = {}  # noqa: SLF001 - there is no other way to be rid of them
        client.admin_api_key = None
        return client


def _address_and_key(
    provider: str, base_url: str | None, api_key: str | Secret | None
) -> tuple[str, Secret | None]:
    """Return where to ask and with which key; None: without one.

    Raises:
        ConfigError: no address, or no key for it.
    """
    if provider not in KEY_SOURCES:
        if base_url is None:
            raise ConfigError.at("base_url", "none", f"the address of the {provider} server")
        if api_key is None:
            return endpoint_of(base_url), None
        given = api_key if isinstance(api_key, Secret) else Secret(api_key, name="api_key")
        return endpoint_of(base_url), register_secret(given)
    key = key_for(provider, base_url, given=api_key)
    return base_url_for(provider, base_url), None if key.name == "no key" else key


async def _beginning(response: AsyncAPIResponse[Any]) -> bytes:
    found = b""
    async for piece in response.iter_bytes():
        found += piece
        if len(found) > _MAX_ERROR_BYTES:
            break
    return found


def _error_in(body: bytes) -> Json:
    try:
        said = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    return said.get("error") if isinstance(said, dict) else None
