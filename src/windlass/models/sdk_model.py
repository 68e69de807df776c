"""Models behind a provider's SDK: where to ask and with which key, the client, and the way from a request to a reply.

Law 1. The first call imports the SDK and connects; making a model does neither.
Law 2. What an SDK raises is mapped here. Above this door only windlass's own errors exist.
Law 3. A key goes to the host it was given for: no client follows a redirect, or retries by itself.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypedDict, TypeVar

from windlass.errors import ConfigError, LimitExceeded, ProviderError, StoreError, WindlassBug
from windlass.guards.secret import Secret
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.models.capabilities import Capabilities, capabilities_of
from windlass.models.credentials import base_url_for, key_for, redactor_of
from windlass.models.names import check_installed
from windlass.models.provider_errors import from_exception, reply_to_refusal
from windlass.models.route import Route
from windlass.ports.key_screen import KeyScreen
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from httpx2 import AsyncClient

C = TypeVar("C")
S = TypeVar("S")
Prepared: TypeAlias = tuple[Any, Any]
"""What an SDK is given for a request, and the reader of its answer."""

# Models think before they speak, and the longest for many minutes.
_TIMEOUT_S = 600.0
# Connecting needs no time to think, so its timeout is short.
CONNECT_S = 10.0


class Settings(TypedDict, total=False):
    """What every model behind an SDK may be given, as `SdkModel` explains it."""

    base_url: str | None
    api_key: str | Secret | None
    capabilities: Capabilities | None
    timeout: float
    http_client: AsyncClient | None


class SdkModel(ABC, Generic[C]):
    """A model that its provider's SDK asks.

    `base_url` is where to ask instead of at the provider, with a key of its own. `timeout` is how many seconds
    may pass without a byte. `http_client` is an `httpx2.AsyncClient` of yours, which you close.
    """

    provider: str

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
        self._base_url = base_url_for(self.provider, base_url)
        self._key = key_for(self.provider, base_url, given=api_key)
        self._redactor = redactor_of(self._key)
        self.route = Route(self.provider, self._base_url, model)
        self.name = f"{self.provider}:{model}"
        self.capabilities = capabilities or capabilities_of(self.provider, model)
        self._timeout = checked_timeout(timeout)
        self._http_client = http_client
        self._client: SdkClient[C] = SdkClient(self._new_client, self._close_client)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.route.model!r})"

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Answer a request; text and thoughts are shown as they come.

        Raises:
            ProviderError: there is no reply. Its `retry` says whether asking again later may help.
            InvalidInput: the request cannot be said to this model.
            LimitExceeded: the answer is larger than any reply.
            ConfigError: the SDK is not installed.
        """
        screen = KeyScreen(self._redactor, emit)
        asked, reader = await self._prepare(request, screen.emit)
        client = self._client.get()
        try:
            await self._read(client, asked, reader)
            return screen.reply(reader.reply())
        except (LimitExceeded, StoreError, WindlassBug):  # not the provider's doing
            raise
        except Exception as raised:  # noqa: BLE001 - an SDK's errors are many; each is mapped
            error = self._failure(raised)
        # Out here, where it does not carry what the provider said with it.
        return reply_to_refusal(error)

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        await self._client.aclose()

    @property
    def http_client(self) -> AsyncClient | None:
        """The client that it was given; None if it makes its own."""
        return self._http_client

    def over(self, client: AsyncClient) -> Self:
        """Return this model with another client below it, which is the caller's to close."""
        made = copy(self)
        made._http_client = client  # noqa: SLF001 - of the same class
        made._client = SdkClient(made._new_client, made._close_client)  # noqa: SLF001 - of the same class
        return made

    @abstractmethod
    async def _prepare(self, request: ModelRequest, emit: EmitModelEvent) -> Prepared:
        """Return what to ask with, and what reads the answer."""

    @abstractmethod
    async def _read(self, client: C, asked: Any, reader: Any) -> None:  # noqa: ANN401 - as `_prepare` made them
        """Ask, and hand what comes to the reader until the reply is whole."""

    def _new_client(self) -> C:
        check_installed(self.provider)
        return self._make_client()

    @abstractmethod
    def _make_client(self) -> C:
        """Return a client of the SDK, which is imported here."""

    async def _close_client(self, client: Any) -> None:  # noqa: ANN401 - an SDK's, which has a `close`
        if self._http_client is None:  # one that was given is closed by its owner
            await client.close()

    async def _post(
        self,
        client: Any,  # noqa: ANN401 - of one of two SDKs
        path: str,
        body: dict[str, Any],
        stream_cls: type[S],
        **options: object,
    ) -> S:
        """Post a body as the SDKs of Anthropic and of OpenAI do, and return the stream that answers."""
        how = {"cast_to": object, "stream": True, "stream_cls": stream_cls}
        options["follow_redirects"] = False
        stream: S = await client.post(path, body={**body, "stream": True}, options=options, **how)
        return stream

    def _client_options(self) -> dict[str, Any]:
        """Return what the clients of Anthropic's and of OpenAI's SDK are made with."""
        import httpx2  # noqa: PLC0415 - comes with the SDKs

        return {
            "api_key": self._key.reveal(),
            "base_url": self._base_url,
            "timeout": httpx2.Timeout(self._timeout, connect=min(self._timeout, CONNECT_S)),
            "max_retries": 0,  # the runtime retries, and takes back what was shown
            "http_client": self._http_client,
        }

    def _failure(self, error: Exception) -> ProviderError:
        return from_exception(error, provider=self.provider)


def checked_timeout(seconds: float) -> float:
    """Return how long a client may wait for the next byte.

    Raises:
        ConfigError: not more than no time at all, or not a time.
    """
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < math.inf:
        found = seconds if is_number else type(seconds).__name__
        raise ConfigError.at("timeout", found, "seconds above 0")
    return float(seconds)


class SdkClient(Generic[C]):
    """Holds one client. Its connections belong to an event loop, so another loop gets another client."""

    def __init__(self, make: Callable[[], C], close: Callable[[C], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._client: C | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> C:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            # One of a loop that is over cannot be closed any more; its sockets went with the loop.
            self._client, self._loop = self._make(), loop
        return self._client

    async def aclose(self) -> None:
        """Close the client, if there is one; the next call makes another."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await self._close(client)
