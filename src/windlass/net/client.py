"""The client: one GET with its redirects, within bounds of time and size, and errors that say what was refused.

Law 1. Each redirect is judged like a first request. https never becomes http, and what a caller sends beyond the
    usual headers goes to the origin that it was given for, and to no other.
Law 2. No more is in memory than the rules allow, whatever an answer unpacks to; all of it ends at one deadline.
Law 3. Nothing is kept between two requests: no cookies, no connections. Nothing is read from the environment but the
    operator's rule.
Law 4. A registered secret does not leave in a URL.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import unquote, urljoin

from windlass.errors import ConfigError, EgressDenied, NetworkError
from windlass.guards.secret import REGISTERED
from windlass.guards.text import is_hidden, visible
from windlass.net.fetched import Fetched
from windlass.net.rules import EgressRules
from windlass.net.target import Target, shown_host
from windlass.net.unpacking import ACCEPTED, unpacker_of
from windlass.release import DISTRIBUTION, RELEASE, install_hint
from windlass.tools.threads import in_thread

if TYPE_CHECKING:
    import ssl

    import httpx2

    from windlass.net.door import Resolver

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {
    "User-Agent": f"windlass/{RELEASE}",
    "Accept": "*/*",
    "Accept-Encoding": ACCEPTED,
    "Connection": "close",
}
# Escapes may be escaped themselves; a secret that is hidden deeper is hidden from this guard.
_MAX_UNQUOTED: Final = 3


class HttpClient:
    """Reads from the web, as far as rules allow.

    Args:
        rules: What may be called, and how much may come back; by default every public host.
        resolver: Returns the addresses of a host, for `(host, port)`; by default the system's.
        tls: What checks certificates; by default the authorities that this system trusts.
    """

    def __init__(
        self,
        rules: EgressRules | None = None,
        *,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        check_installed()
        if rules is not None and not isinstance(rules, EgressRules):
            raise ConfigError.at("HttpClient.rules", type(rules).__name__, "EgressRules(...)")
        self.rules = rules or EgressRules()
        self._resolver = resolver
        self._tls = tls
        self._is_loaded = False

    def __repr__(self) -> str:
        return f"HttpClient({self.rules!r})"

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Fetched:
        """Return the answer to a GET, also if its status says that something is wrong.

        Args:
            url: The address.
            headers: What to send to the host of this address; not sent on to another one.

        Raises:
            EgressDenied: the rules do not allow the address, or one that it redirects to.
            NetworkError: there is no answer, it came too late, or it is not one.
        """
        limit = asyncio.timeout(self.rules.timeout_s)
        try:
            async with limit:
                return await self._follow(url, dict(headers or {}))
        except TimeoutError:
            if not limit.expired():
                raise
        waited = f"{self.rules.timeout_s:g} seconds"
        raise NetworkError(f"the answer was not complete after {waited}; another try may be faster")

    async def _follow(self, url: str, own: Mapping[str, str]) -> Fetched:
        target = self._admitted(url)
        origin = target.origin
        for _ in range(self.rules.max_redirects + 1):
            if target.origin != origin:
                own = {}
            async with self._answer(target, own) as answer:
                if answer.status_code not in _REDIRECTS or "location" not in answer.headers:
                    return await self._read(target, answer)
                url = _next_url(target, answer.headers.get_list("location")[0])
            before, target = target, self._admitted(url)
            if before.scheme == "https" and target.scheme != "https":
                told = "the page redirects from https to http, where others can read along"
                raise _denied(target, "downgrade", told)
        told = f"more than {self.rules.max_redirects} redirects (max_redirects)"
        raise _denied(target, "redirects", told)

    def _admitted(self, url: str) -> Target:
        target = self.rules.admit(url)
        if REGISTERED.secrets and _has_secret(url):
            raise _denied(target, "secret", "the address holds a secret; send none to web pages")
        return target

    @asynccontextmanager
    async def _answer(
        self, target: Target, own: Mapping[str, str]
    ) -> AsyncIterator[httpx2.Response]:
        if not self._is_loaded:
            await in_thread(self._load)
        import httpx2  # noqa: PLC0415 - an extra, and heavy: not for those who only import this module

        from windlass.net.door import EgressTransport  # noqa: PLC0415 - imports httpx2

        async with EgressTransport(self.rules, resolver=self._resolver, tls=self._tls) as transport:
            try:
                request = httpx2.Request("GET", target.url, headers={**_HEADERS, **own})
                answer = await transport.handle_async_request(request)
                try:
                    yield answer
                finally:
                    await answer.aclose()
            except (httpx2.TransportError, httpx2.InvalidURL) as error:
                raise NetworkError(f"{shown_host(target.host)}: {_told(error)}") from None

    def _load(self) -> None:
        """Load what requests need: the library, and the authorities. It takes long enough for others to notice."""
        from windlass.net.door import default_tls  # noqa: PLC0415 - imports httpx2

        self._tls = self._tls or default_tls()
        self._is_loaded = True

    async def _read(self, target: Target, answer: httpx2.Response) -> Fetched:
        host = shown_host(target.host)
        limit = self.rules.max_bytes
        body, n_wire, is_whole = bytearray(), 0, True
        unpacker = unpacker_of(answer.headers.get("content-encoding", ""), host)
        chunks = cast("AsyncGenerator[bytes]", aiter(cast("httpx2.AsyncByteStream", answer.stream)))
        async with aclosing(chunks):
            async for chunk in chunks:
                n_wire += len(chunk)
                body += unpacker.feed(chunk, limit - len(body))
                if len(body) > limit or n_wire > limit:
                    is_whole = False
                    break
            else:
                unpacker.finish()
        return Fetched(
            url=target.url,
            status=answer.status_code,
            headers={name.lower(): value for name, value in reversed(answer.headers.multi_items())},
            body=bytes(body[:limit]),
            is_whole=is_whole,
        )


def transport(
    rules: EgressRules | None = None,
    *,
    resolver: Resolver | None = None,
    tls: ssl.SSLContext | None = None,
) -> httpx2.AsyncBaseTransport:
    """Return a transport for `httpx2.AsyncClient(transport=...)`: what that client sends obeys the rules.

    Each of its requests is judged by scheme, host, port and address, redirects included. `max_redirects`, `max_bytes`
    and `timeout_s` are for `HttpClient`: this client has limits of its own.

    Args:
        rules: What may be called; by default every public host.
        resolver: Returns the addresses of a host, for `(host, port)`; by default the system's.
        tls: What checks certificates; by default the authorities that this system trusts.

    Raises:
        ConfigError: httpx2 is not installed.
    """
    check_installed()
    from windlass.net.door import EgressTransport  # noqa: PLC0415 - imports httpx2, an extra

    return EgressTransport(rules or EgressRules(), resolver=resolver, tls=tls)


def check_installed(*packages: str) -> None:
    """Look for httpx2, and for other packages of the extra `web`.

    Raises:
        ConfigError: one is not there, with how to install it.
    """
    for package in ("httpx2", *packages):
        if importlib.util.find_spec(package) is None:
            told = f"web: {package} is not installed: {install_hint('web')}"
            raise ConfigError(told, field="web", wanted=f"{DISTRIBUTION}[web]")


def _next_url(target: Target, location: str) -> str:
    # What `urljoin` would take out silently is refused here.
    if any(map(is_hidden, location)):
        told = "the page redirects to an address with characters that cannot be seen"
        raise _denied(target, "url", told)
    try:
        return urljoin(target.url, location)
    except ValueError:
        raise _denied(
            target, "url", "the page redirects to something that is not an address"
        ) from None


def _has_secret(url: str) -> bool:
    for _ in range(_MAX_UNQUOTED):
        if REGISTERED.is_in(url.encode(errors="replace")):
            return True
        url = unquote(url)
    return REGISTERED.is_in(url.encode(errors="replace"))


def _denied(target: Target, rule: str, why: str) -> EgressDenied:
    host = shown_host(target.host)
    return EgressDenied(f"{host}: refused by the rule {rule}: {why}", rule=rule, host=host)


def _told(error: Exception) -> str:
    """Return what went wrong in words; what foreign libraries say may hold anything, so little of it is passed on."""
    import ssl  # noqa: PLC0415 - loaded with httpx2

    import httpx2  # noqa: PLC0415 - as above

    from windlass.net.door import UnknownHost  # noqa: PLC0415 - as above

    causes = list(_causes(error))
    wrong = next((one for one in causes if isinstance(one, ssl.SSLCertVerificationError)), None)
    if wrong is not None:
        return f"its certificate is refused ({visible(wrong.verify_message)[:200]})"
    if any(isinstance(one, UnknownHost) for one in causes):
        return "no address is known for this host; look whether it is spelled right"
    if isinstance(error, httpx2.TimeoutException):
        return "no connection in time; another try may be faster"
    if isinstance(error, httpx2.ConnectError):
        return "no connection could be made"
    if isinstance(error, (httpx2.ProtocolError, httpx2.InvalidURL)):
        return "the answer is not HTTP as it should be, or ended before it was complete"
    return "the connection broke"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
