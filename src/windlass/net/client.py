"""The client: one GET with its redirects, within bounds of time and size, and errors that say what was refused.

Law 1. Each redirect is judged like a first request. https never becomes http, and what a caller sends beyond the
    usual headers goes to the origin that it was given for, and to no other.
Law 2. No more is in memory than the rules allow, whatever an answer unpacks to, and little more is taken from the wire,
    whatever stands around it; all of it ends at one deadline.
Law 3. Nothing is kept between two requests: no cookies, no connections. Nothing is read from the environment but the
    operator's rule.
Law 4. A registered secret does not leave in a URL, in no spelling that is sent as the same.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import unquote, urljoin

from windlass.errors import ConfigError, EgressDenied, NetworkError
from windlass.guards.secret import REGISTERED
from windlass.guards.text import is_hidden, visible
from windlass.net.fetched import Fetched
from windlass.net.rules import EgressRules
from windlass.net.target import Target, bad_host, shown_host, target_of
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
# What decides which request it is, and where it ends.
_OURS: Final = frozenset({"connection", "content-length", "host", "transfer-encoding"})
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"(?:[!-~](?:[ \t!-~]*[!-~])?)?")
# What may be sent around a text: headers, and where the pieces of it begin and end.
_AROUND_BYTES: Final = 1024 * 1024
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
            ConfigError: a header cannot be sent.
            EgressDenied: the rules do not allow the address, or one that it redirects to.
            NetworkError: there is no answer, it came too late, or it is not one.
        """
        own = _checked(headers or {})
        limit = asyncio.timeout(self.rules.timeout_s)
        try:
            async with limit:
                return await self._follow(url, own)
        except TimeoutError:
            if not limit.expired():
                raise
        waited = f"{self.rules.timeout_s:g} seconds"
        raise NetworkError(f"the answer was not complete after {waited}; another try may be faster")

    async def _follow(self, url: str, own: Mapping[str, str]) -> Fetched:
        before: Target | None = None
        for _ in range(self.rules.max_redirects + 1):
            with _told_of_redirects(before):
                target = self._admitted(url if before is None else _next_url(before, url), before)
                if before is not None and target.origin != before.origin:
                    own = {}
                async with self._answer(target, own) as answer:
                    if answer.status_code not in _REDIRECTS or "location" not in answer.headers:
                        return await self._read(target, answer)
                    before, url = target, answer.headers.get_list("location")[0]
        told = f"more than {self.rules.max_redirects} redirects (max_redirects)"
        raise _denied(target, "redirects", told)

    def _admitted(self, url: str, before: Target | None) -> Target:
        _check_no_secret(url)
        target = target_of(url)
        _check_no_secret(target.url, target.host)
        self.rules.check(target)
        if before is not None and before.scheme == "https" and target.scheme != "https":
            told = "https does not become http, where others can read along"
            raise _denied(target, "downgrade", told)
        return target

    @asynccontextmanager
    async def _answer(
        self, target: Target, own: Mapping[str, str]
    ) -> AsyncIterator[httpx2.Response]:
        if not self._is_loaded:
            await in_thread(self._load)
        import httpx2  # noqa: PLC0415 - an extra, and heavy: not for those who only import this module

        from windlass.net.door import EgressTransport  # noqa: PLC0415 - imports httpx2

        headers = httpx2.Headers(_HEADERS)
        headers.update(own)
        async with EgressTransport(
            self.rules,
            resolver=self._resolver,
            tls=self._tls,
            max_read=self.rules.max_bytes + _AROUND_BYTES,
        ) as transport:
            try:
                request = _request(target, headers)
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


def _request(target: Target, headers: httpx2.Headers) -> httpx2.Request:
    import httpx2  # noqa: PLC0415 - see above

    try:
        request = httpx2.Request("GET", target.url, headers=headers)
    except UnicodeError:  # a part of the host says that it stands for other letters, and does not
        raise bad_host(target.host) from None
    _check_no_secret(str(request.url))  # without the dots of a path, as it is sent
    return request


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a caller, if they can be sent. Their values stay out of messages."""
    for place, (name, value) in enumerate(headers.items()):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError.at(f"headers[{place}]", "a name that is none", "one such as X-Key")
        field = f"headers[{name}]"
        if name.lower() in _OURS:
            raise ConfigError.at(field, "a header that windlass sends itself", "other ones")
        if not isinstance(value, str):
            raise ConfigError.at(field, type(value).__name__, "text")
        if not _VALUE.fullmatch(value):
            wanted = "printable ASCII without blanks around it"
            raise ConfigError.at(field, "characters that cannot be sent", wanted)
    return dict(headers)


# ------------------------------------------------------------------------------------- redirects


def _next_url(target: Target, location: str) -> str:
    # What `urljoin` would take out silently is refused here.
    if any(map(is_hidden, location)):
        raise EgressDenied("url: found a character that cannot be seen", rule="url")
    try:
        return urljoin(target.url, location)
    except ValueError:
        raise EgressDenied("url: found text that is not an address", rule="url") from None


@contextmanager
def _told_of_redirects(before: Target | None) -> Iterator[None]:
    """Say who redirects to what is refused: the caller did not write it, and cannot correct it."""
    try:
        yield
    except EgressDenied as error:
        if before is None:
            raise
        host = shown_host(before.host)
        told = f"{host}: redirects to an address that may not be called: {error}"
        raise EgressDenied(told, rule=error.rule, host=error.host, field="location") from None


# --------------------------------------------------------------------------------------- secrets


def _check_no_secret(url: str, host: str = "") -> None:
    if not REGISTERED.secrets:
        return
    # The case of a host is lost on the way; a resolver still reads nearly all of a secret in it.
    in_host = any(secret.reveal().lower() in host for secret in REGISTERED.secrets)
    if in_host or _has_secret(url):
        told = "the address holds a secret; send none to web pages"
        raise EgressDenied(f"url: refused by the rule secret: {told}", rule="secret")


def _has_secret(url: str) -> bool:
    for _ in range(_MAX_UNQUOTED + 1):
        # In a query, a plus stands for a blank.
        if any(
            REGISTERED.is_in(one.encode(errors="replace")) for one in (url, url.replace("+", " "))
        ):
            return True
        url = unquote(url)
    return False


def _denied(target: Target, rule: str, why: str) -> EgressDenied:
    host = shown_host(target.host)
    return EgressDenied(f"{host}: refused by the rule {rule}: {why}", rule=rule, host=host)


# --------------------------------------------------------------------------------------- failures


def _told(error: Exception) -> str:
    """Return what went wrong in words; what foreign libraries say may hold anything, so little of it is passed on."""
    import ssl  # noqa: PLC0415 - loaded with httpx2

    import httpx2  # noqa: PLC0415 - as above

    from windlass.net.door import TooMuchSent, UnknownHost  # noqa: PLC0415 - as above

    causes = list(_causes(error))
    wrong = next((one for one in causes if isinstance(one, ssl.SSLCertVerificationError)), None)
    if wrong is not None:
        return f"its certificate is refused ({visible(wrong.verify_message)[:200]})"
    garbled = "the answer is not HTTP as it should be, or ended before it was complete"
    reasons: tuple[tuple[type[Exception], str], ...] = (
        (UnknownHost, "no address is known for this host; look whether it is spelled right"),
        (TooMuchSent, "it sends far more bytes than max_bytes allows, and little text in them"),
        (httpx2.TimeoutException, "no connection in time; another try may be faster"),
        (httpx2.ConnectError, "no connection could be made"),
        (httpx2.LocalProtocolError, "the request cannot be sent like this; look at its headers"),
        (httpx2.ProtocolError, garbled),
        (httpx2.InvalidURL, garbled),
    )
    for kind, told in reasons:
        if any(isinstance(one, kind) for one in causes):
            return told
    return "the connection broke"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
