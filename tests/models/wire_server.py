"""A server that plays wire bytes to real SDKs: HTTP/1.1, chunked, cut wherever the test wants.

async with WireServer({"POST /v1/messages": [Played(body=sse(...))]}) as server:
    model = SomeModel("m", base_url=server.url, api_key="test-key")
    ...
    server.requests[0].json
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

Cut = Callable[[bytes], list[bytes]]


def whole(body: bytes) -> list[bytes]:
    """All at once."""
    return [body] if body else []


def every_byte(body: bytes) -> list[bytes]:
    """Byte by byte."""
    return [body[at : at + 1] for at in range(len(body))]


def in_random_pieces(seed: int) -> Cut:
    """In pieces of 1 to 40 bytes, the same for the same seed."""

    def cut(body: bytes) -> list[bytes]:
        chosen, pieces, place = random.Random(seed), [], 0
        while place < len(body):
            size = chosen.randint(1, 40)
            pieces.append(body[place : place + size])
            place += size
        return pieces

    return cut


class Played(NamedTuple):
    """One answer.

    `then`: `end` closes it well, `abort` drops the connection where the body stops, `hang` keeps it open
    until the client goes away. `status` 0: the connection is dropped before any answer.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = {}
    content_type: str = "text/event-stream"
    cut: Cut = whole
    then: Literal["end", "abort", "hang"] = "end"


class Seen(NamedTuple):
    """One request, as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever was sent
        return json.loads(self.body)


Answers = Played | Sequence[Played] | Callable[[Seen], Played]


def sse(*events: tuple[str | None, object] | str | dict[str, Any]) -> bytes:
    """Server-sent events: `(event, data)`, data alone, or text that is written as it is after `data: `."""
    lines = []
    for each in events:
        name, data = each if isinstance(each, tuple) else (None, each)
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        lines.append((f"event: {name}\n" if name else "") + f"data: {text}\n\n")
    return "".join(lines).encode()


class WireServer:
    """Answers `METHOD /path` (without the query) with what it was given: one answer for ever, a list in order
    (the last one stays), or a function of the request. `cut` overrides that of every answer.
    """

    def __init__(self, routes: Mapping[str, Answers]) -> None:
        self._routes = routes
        self._counts: dict[str, int] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.requests: list[Seen] = []
        self.n_connections = 0
        self.cut: Cut | None = None
        self.hanging = asyncio.Event()
        """Set when an answer hangs: all of its body is on the way."""
        self.left = asyncio.Event()
        """Set when a client went away from an answer that hangs."""
        self.idle = asyncio.Event()
        """Set when the last client has hung up."""
        self.url = ""

    @property
    def n_open(self) -> int:
        """How many clients are connected now."""
        return len(self._connections)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for each in self._connections:
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.idle.clear()
        self.n_connections += 1
        try:
            while (request := await _request(reader)) is not None:
                self.requests.append(request)
                if not await self._answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            if not self._connections:
                self.idle.set()
            writer.transport.abort()

    def _next(self, request: Seen) -> Played:
        key = f"{request.method} {request.path.partition('?')[0]}"
        answers = self._routes.get(key)
        if answers is None:
            return Played(b'{"error": {"message": "no such route"}}', 404, {}, "application/json")
        if isinstance(answers, Played):
            return answers
        if callable(answers):
            return answers(request)
        place = self._counts[key] = self._counts.get(key, 0) + 1
        return answers[min(place, len(answers)) - 1]

    async def _answer(
        self, request: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Play one answer; return whether the connection may be used again."""
        played = self._next(request)
        if played.status == 0:
            return False
        head = {
            "content-type": played.content_type,
            "transfer-encoding": "chunked",
            **played.headers,
        }
        lines = [
            f"HTTP/1.1 {played.status} Played",
            *(f"{name}: {value}" for name, value in head.items()),
        ]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        for piece in (self.cut or played.cut)(played.body):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        if played.then == "end":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        if played.then == "hang":
            self.hanging.set()
            await reader.read()
            self.left.set()
        else:
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        return False


async def _request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        first = await reader.readexactly(1)
        if first == b"\x16":  # the beginning of TLS, which is not spoken here
            return None
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = head[0].split(" ", 2)
    headers = _headers(head[1:])
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join([piece async for piece in _chunks(reader)])
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, path, headers, body)


def _headers(lines: Iterable[str]) -> dict[str, str]:
    pairs = [line.partition(":") for line in lines if line]
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readline()).split(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
