"""What goes over the wire, kept and played again: below an adapter, where the SDK's HTTP client ends.

Law 1. Who reads a response while it is kept reads the same pieces at the same time as without. Nothing is read ahead.
Law 2. Nothing is kept without a bound.
Law 3. Playing opens no connection.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from itertools import accumulate
from typing import Any

import httpx2
import msgspec

from windlass.errors import LimitExceeded
from windlass.guards.limits import INPUT_LIMITS
from windlass.kernel import canonical
from windlass.models.recording import (
    KEPT_ANSWER_HEADERS,
    KEPT_HEADERS,
    Exchange,
    Request,
    Response,
)
from windlass.models.recording.scrubbing import Scrubber, applied, moved

MAX_BODY_BYTES = 16 * INPUT_LIMITS.server_event_bytes
WHOLE = "whole"
LEFT = "left"


class Kept(msgspec.Struct, kw_only=True):
    """One request and what came of it, as it was: not yet for any file.

    `ended` is `whole`, `left` (the reader had enough), or the name of the exception that ended the response.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    status: int | None = None
    response_headers: dict[str, str] = {}
    pieces: list[bytes] = []
    ended: str = LEFT


class KeepingTransport(httpx2.AsyncBaseTransport):
    """Sends by a client that knows the way, its proxies and certificates, and keeps what goes over it."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.kept: list[Kept] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request on; return its response, which is kept as far as it is read."""
        # What is compressed could not be read by people, nor be scrubbed.
        request.headers["accept-encoding"] = "identity"
        kept = Kept(
            method=request.method,
            path=request.url.path,
            query=request.url.query.decode("ascii", "replace"),
            headers=dict(request.headers),
            body=await request.aread(),
        )
        self.kept.append(kept)
        try:
            response = await self.client.send(request, stream=True, follow_redirects=False)
        except httpx2.HTTPError as error:
            kept.ended = type(error).__name__
            raise
        kept.status = response.status_code
        kept.response_headers = dict(response.headers)
        return httpx2.Response(
            response.status_code,
            headers=_without_encoding(response.headers),
            stream=_Keeping(response, kept),
            request=request,
            extensions=response.extensions,
        )


class _Keeping(httpx2.AsyncByteStream):
    """The bytes of a response, kept as they pass."""

    def __init__(self, response: httpx2.Response, kept: Kept) -> None:
        self._response = response
        self._kept = kept

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kept, n_bytes = self._kept, 0
        kept.pieces = []
        try:
            # Decoded, for a server that compresses all the same.
            async for piece in self._response.aiter_bytes():
                n_bytes += len(piece)
                if n_bytes > MAX_BODY_BYTES:
                    raise _too_large(n_bytes)
                kept.pieces.append(piece)
                yield piece
        except httpx2.HTTPError as error:
            kept.ended = type(error).__name__
            raise
        kept.ended = WHOLE

    async def aclose(self) -> None:
        await self._response.aclose()


def _without_encoding(headers: httpx2.Headers) -> list[tuple[str, str]]:
    gone = ("content-encoding", "content-length", "transfer-encoding")
    return [(name, value) for name, value in headers.multi_items() if name.lower() not in gone]


def _too_large(n_bytes: int) -> LimitExceeded:
    told = f"response: found over {MAX_BODY_BYTES:,} bytes, which is more than a recording may have"
    return LimitExceeded(told, field="response", found=n_bytes, wanted=MAX_BODY_BYTES)


class PlayingTransport(httpx2.AsyncBaseTransport):
    """Answers requests with what was kept, in its order; what is asked for beyond that cannot be reached."""

    def __init__(self, kept: Iterable[Kept]) -> None:
        self._left = list(kept)
        self.bodies: list[bytes] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer with the next of what was kept."""
        self.bodies.append(await request.aread())
        if not self._left:
            raise httpx2.ConnectError("the recording has no more exchanges", request=request)
        kept = self._left.pop(0)
        if kept.status is None:
            raise _error_named(kept.ended, request)
        return httpx2.Response(
            kept.status,
            headers=kept.response_headers,
            stream=_Playing(kept, request),
            request=request,
        )


class _Playing(httpx2.AsyncByteStream):
    def __init__(self, kept: Kept, request: httpx2.Request) -> None:
        self._kept = kept
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._kept.pieces:
            yield piece
        if self._kept.ended not in (WHOLE, LEFT):
            raise _error_named(self._kept.ended, self._request)


# What a recording may name: the client's own errors, and nothing else that can be called.
_ERRORS: dict[str, type[httpx2.RequestError]] = {
    kind.__name__: kind
    for kind in (
        httpx2.CloseError,
        httpx2.ConnectError,
        httpx2.ConnectTimeout,
        httpx2.DecodingError,
        httpx2.LocalProtocolError,
        httpx2.PoolTimeout,
        httpx2.ProxyError,
        httpx2.ReadError,
        httpx2.ReadTimeout,
        httpx2.RemoteProtocolError,
        httpx2.UnsupportedProtocol,
        httpx2.WriteError,
        httpx2.WriteTimeout,
    )
}


def _error_named(name: str, request: httpx2.Request) -> httpx2.RequestError:
    return _ERRORS.get(name, httpx2.ReadError)("as recorded", request=request)


def keeping(client: httpx2.AsyncClient | None) -> tuple[httpx2.AsyncClient, KeepingTransport]:
    """Return a client that keeps what goes over it, by way of another one if there is such, and what keeps it."""
    transport = KeepingTransport(client or httpx2.AsyncClient(follow_redirects=False))
    return httpx2.AsyncClient(transport=transport, follow_redirects=False), transport


def playing(kept: Iterable[Kept]) -> tuple[httpx2.AsyncClient, PlayingTransport]:
    """Return a client that answers with what was kept, and what answers."""
    transport = PlayingTransport(kept)
    return httpx2.AsyncClient(transport=transport, follow_redirects=False), transport


# ---------------------------------------------------------------------- to a file, and out of one


def exchange_of(kept: Kept, scrubber: Scrubber, endpoint: str) -> Exchange:
    """Return what was kept as a file may say it: scrubbed, with the path below the endpoint."""
    base = "/" + endpoint.partition("://")[2].partition("/")[2]
    # Not only at the beginning: a cloud's version stands before the project that its endpoint names.
    path = kept.path.replace(base, "", 1) if base != "/" else kept.path
    query = "?alt=sse" if "alt=sse" in kept.query.split("&") else ""
    request = Request(
        method=kept.method,
        path=scrubber.text(path) + query,
        headers=_headers(kept.headers, KEPT_HEADERS, scrubber),
        body=_body(kept.body, scrubber),
    )
    response = None if kept.status is None else _response(kept, scrubber)
    return Exchange(request=request, response=response, ended=kept.ended)


def _headers(found: Mapping[str, str], kept: Iterable[str], scrubber: Scrubber) -> dict[str, str]:
    return {name: scrubber.text(found[name]) for name in kept if name in found}


def _body(sent: bytes, scrubber: Scrubber) -> Any:  # noqa: ANN401 - JSON
    text = scrubber.text(sent.decode(errors="replace"))
    try:
        return canonical.parse(text) if text else None
    except ValueError:
        return text


def _response(kept: Kept, scrubber: Scrubber) -> Response:
    headers = _headers(kept.response_headers, KEPT_ANSWER_HEADERS, scrubber)
    if "retry-after" in headers and not headers["retry-after"].isdigit():
        headers |= _headers(kept.response_headers, ("date",), scrubber)  # what the time is told by
    about = partial(Response, status=kept.status or 0, headers=headers)
    raw = b"".join(kept.pieces)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        # One character for each byte: whatever it is, keys in it are found.
        scrubbed = scrubber.text(raw.decode("latin-1")).encode("latin-1", "replace")
        return about(base64=base64.b64encode(scrubbed).decode())
    edits = scrubber.edits(text)
    ends = list(accumulate(map(len, kept.pieces)))[:-1]
    cuts = " ".join(map(str, dict.fromkeys(moved(ends, text, edits))))
    return about(body=tuple(applied(text, edits).splitlines(keepends=True)), cuts=cuts)


def kept_of(exchange: Exchange) -> Kept:
    """Return what a file says was kept, so that it can be played."""
    sent, got = exchange.request, exchange.response
    headers = {} if got is None else got.headers
    return Kept(
        method=sent.method,
        path=sent.path,
        query="",
        headers={},
        body=b"",
        status=None if got is None else got.status,
        # No others: what a stranger's file names must not unpack anything.
        response_headers={
            name: headers[name] for name in (*KEPT_ANSWER_HEADERS, "date") if name in headers
        },
        pieces=[] if got is None else got.pieces(),
        ended=exchange.ended,
    )
