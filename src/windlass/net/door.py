"""The door: a transport of httpx2 whose connections obey egress rules, for every client that leaves this process.

Law 1. A name is resolved once for a connection, every address is judged, and the connection goes to one of those
    addresses. Nothing resolves again in between; TLS still checks the certificate against the name.
Law 2. Every request is judged, also on a connection that is open already. A redirect is a request like any other.
Law 3. No proxy, no key and no certificate comes from the environment.
Law 4. What a server sends is read in small pieces, and between two of them others have their turn: what is made of a
    piece takes the time of the event loop, and a server chooses how much that is.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, cast

import h11
import httpcore2
import httpx2

from windlass.errors import EgressDenied
from windlass.net.addresses import Address, address_of
from windlass.net.rules import EgressRules
from windlass.net.target import PORTS, Target, host_of
from windlass.tools.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
_MAX_TRIED: Final = 6
# Another address of the same host may answer where one does not; the last one may take all the time there is.
_CONNECT_S: Final = 4.0
# Large enough for more than 100 MB a second, small enough for some 10 ms where it holds chunks of one byte.
_PIECE: Final = 4 * 1024
# Extensions whose effect would be to ask another host, or for another address, than what was judged.
_REDIRECTING: Final = frozenset({"sni_hostname", "target"})
_TO_HTTPX2: Final[tuple[tuple[type[Exception], type[httpx2.TransportError]], ...]] = (
    (httpcore2.ConnectTimeout, httpx2.ConnectTimeout),
    (httpcore2.ReadTimeout, httpx2.ReadTimeout),
    (httpcore2.WriteTimeout, httpx2.WriteTimeout),
    (httpcore2.PoolTimeout, httpx2.PoolTimeout),
    (httpcore2.ConnectError, httpx2.ConnectError),
    (httpcore2.ReadError, httpx2.ReadError),
    (httpcore2.WriteError, httpx2.WriteError),
    (httpcore2.LocalProtocolError, httpx2.LocalProtocolError),
    (h11.LocalProtocolError, httpx2.LocalProtocolError),  # of what is sent behind the headers
    (httpcore2.RemoteProtocolError, httpx2.RemoteProtocolError),
    (httpcore2.UnsupportedProtocol, httpx2.UnsupportedProtocol),
    (OSError, httpx2.NetworkError),
)


class EgressTransport(httpx2.AsyncBaseTransport):
    """Sends requests where rules allow it. Its connections belong to the event loop that it is used in."""

    def __init__(
        self,
        rules: EgressRules,
        *,
        resolver: Resolver | None,
        tls: ssl.SSLContext | None,
        max_read: int | None = None,
    ) -> None:
        self._rules = rules
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls or default_tls(),
            max_connections=20,
            max_keepalive_connections=10,
            keepalive_expiry=5.0,
            network_backend=_Dialer(rules, resolver or system_resolver, max_read),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, if the rules allow where it goes.

        Raises:
            EgressDenied: naming the rule and the host.
            httpx2.TransportError: there is no answer.
        """
        self._rules.check(_target_of(request))
        extensions = {
            name: it for name, it in request.extensions.items() if name not in _REDIRECTING
        }
        url = request.url
        sent = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=extensions,
        )
        with _as_httpx2():
            answer = await self._pool.handle_async_request(sent)
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Stream(answer.stream),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        with _as_httpx2():
            await self._pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.aclose()


def default_tls() -> ssl.SSLContext:
    """Return what checks certificates against the authorities that this system trusts."""
    return httpx2.create_ssl_context(trust_env=False)


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Return the addresses that the system knows a host by."""
    # In a thread of a kind that nobody joins: a lookup that hangs does not hold up the end of the program.
    looked = await in_thread(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    found = cast("list[tuple[Any, ...]]", looked)
    return [str(each[4][0]) for each in found]


class UnknownHost(httpcore2.ConnectError):
    """The resolver knows no address of a host, or something that is not one."""


class TooMuchSent(httpcore2.ReadError):
    """A server has sent more than a connection may take."""


class _Dialer(httpcore2.AsyncNetworkBackend):
    """Connects to hosts by addresses that were judged."""

    def __init__(self, rules: EgressRules, resolver: Resolver, max_read: int | None) -> None:
        self._rules = rules
        self._resolver = resolver
        self._max_read = max_read
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the port's shape
        local_address: str | None = None,  # noqa: ARG002 - as above; no client sets one
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolved(host, port)
                self._rules.check_addresses(host, addresses)
                found = await self._first(addresses[:_MAX_TRIED], port, socket_options)
                return _Connection(found, self._max_read)
        except TimeoutError:
            raise httpcore2.ConnectTimeout("timed out") from None

    async def _resolved(self, host: str, port: int) -> list[Address]:
        address = address_of(host)
        if address is not None:
            return [address]
        try:
            found: object = await self._resolver(host, port)
            each = list(found) if isinstance(found, Iterable) else []
        except (OSError, ValueError):
            each = []
        addresses = [
            address_of(one.partition("%")[0]) if isinstance(one, str) else None for one in each
        ]
        if not addresses or None in addresses:
            raise UnknownHost("no address is known for this host")
        return cast("list[Address]", list(dict.fromkeys(addresses)))

    async def _first(
        self,
        addresses: Sequence[Address],
        port: int,
        options: Iterable[httpcore2.SOCKET_OPTION] | None,
    ) -> httpcore2.AsyncNetworkStream:
        for address in addresses[:-1]:
            try:
                return await self._backend.connect_tcp(
                    str(address), port, timeout=_CONNECT_S, socket_options=options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._backend.connect_tcp(str(addresses[-1]), port, socket_options=options)


class _Connection(httpcore2.AsyncNetworkStream):
    """A connection that is read as Law 4 says; `max_read` is how many bytes may come in, headers and all."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, max_read: int | None) -> None:
        self._stream = stream
        self._max_read = max_read
        self._n_read = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the port's shape
        if self._max_read is not None and self._n_read > self._max_read:
            raise TooMuchSent("more was sent than a connection may take")
        # Behind TLS, a read does not always wait: what was decrypted before is there already.
        await asyncio.sleep(0)
        data = await self._stream.read(min(max_bytes, _PIECE), timeout)
        self._n_read += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore2.AsyncNetworkStream:
        try:
            within = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._stream.aclose()  # the pool closes it after errors, but not after a cancel
            raise
        return _Connection(within, self._max_read)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - as above
        return self._stream.get_extra_info(info)


class _Stream(httpx2.AsyncByteStream):
    """The bytes of an answer, as they come."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - httpcore2 says: iterable in one way or the other
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx2():
            chunks = cast("AsyncGenerator[bytes]", aiter(self._stream))
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextmanager
def _as_httpx2() -> Generator[None]:
    """Raise what httpcore2 raises as the errors that clients of httpx2 know."""
    try:
        yield
    except Exception as error:
        made = next((to for kind, to in _TO_HTTPX2 if isinstance(error, kind)), None)
        if made is None:
            raise
        raise made(str(error)) from error


def _target_of(request: httpx2.Request) -> Target:
    """Return where a request would go: read from what is sent, not from the text that it was made of."""
    url = request.url
    if url.userinfo:
        told = "a name or password stands in the address; send it as a header"
        raise EgressDenied(f"url: refused by the rule credentials: {told}", rule="credentials")
    host = host_of(url.raw_host.decode("ascii"))
    # Behind one address there may be many hosts: the one that is asked for has to be the one that was judged.
    named = {name.lower() for name in request.headers.get_list("host")}
    if named != {url.netloc.decode("ascii").lower()}:
        told = f"{host}: refused by the rule host: the header Host names another host than the URL"
        raise EgressDenied(told, rule="host", host=host)
    port = url.port or PORTS.get(url.scheme, 0)
    return Target(url.scheme, host, port, url.raw_path.decode("ascii"))
