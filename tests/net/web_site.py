"""A web server on loopback that answers with the very bytes that a test writes, and counts who came.

async with Site({"/": page(b"hello")}) as site:
    fetched = await site.client().get(site.url("/"))
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from windlass.net import EgressRules, HttpClient

HOME = "127.0.0.2"
"""Where sites live that tests may call. What is on 127.0.0.1 or ::1 stays refused."""


class Seen(NamedTuple):
    """One request, as it came."""

    target: str
    headers: dict[str, str]
    names: list[str]


Writing: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None]]
Answer: TypeAlias = bytes | Writing


def page(body: bytes = b"", status: int = 200, **headers: str) -> bytes:
    """Return an answer with a length; `content_type="…"` and the like are its headers."""
    lines = [f"HTTP/1.1 {status} Odd", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def moved(to: str, status: int = 302) -> bytes:
    """Return a redirect."""
    return page(b"", status, location=to)


class Site:
    """Answers each path with what it was given; other paths with 404."""

    def __init__(
        self,
        answers: Mapping[str, Answer] | None = None,
        *,
        host: str = HOME,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answers = dict(answers or {})
        self.host = host
        self.requests: list[Seen] = []
        self.n_connections = 0
        self.port = 0
        self._tls = tls
        self._tasks: set[asyncio.Task[Any]] = set()
        self._came = asyncio.Condition()

    def url(self, path: str = "/", host: str | None = None, scheme: str | None = None) -> str:
        found = host or (f"[{self.host}]" if ":" in self.host else self.host)
        return f"{scheme or ('https' if self._tls else 'http')}://{found}:{self.port}{path}"

    def rules(self, **more: Any) -> EgressRules:
        """Return rules that open this site's address and port, and nothing else that is not public."""
        opened = {"private": (f"{HOME}/32",), "ports": (self.port,), "timeout_s": 20.0}
        return EgressRules(**{**opened, **more})

    def client(self, **more: Any) -> HttpClient:
        return HttpClient(self.rules(**more))

    async def n_callers(self) -> int:
        """Return how many have connected. A connection of our own comes last, so that all before it are counted."""
        async with asyncio.timeout(20):
            before = self.n_connections
            _, writer = await asyncio.open_connection(self.host, self.port)
            async with self._came:
                await self._came.wait_for(lambda: self.n_connections > before)
            writer.close()
            await writer.wait_closed()
            self.n_connections -= 1
        return self.n_connections

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self.host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        async with self._came:
            self.n_connections += 1
            self._came.notify_all()
        try:
            while (seen := await _request(reader)) is not None:
                self.requests.append(seen)
                if not await self._answered(seen, writer):
                    break
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answered(self, seen: Seen, writer: asyncio.StreamWriter) -> bool:
        """Answer; return whether the connection stays open."""
        answer = self.answers.get(seen.target.partition("?")[0], page(b"", 404))
        if not isinstance(answer, bytes):
            await answer(writer)
            await writer.drain()
            return False
        writer.write(answer)
        await writer.drain()
        return b"Connection: close" not in answer


async def _request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.lower().split(": ", 1) for line in lines if line]
    return Seen(first.split(" ")[1], dict(pairs), [name for name, _ in pairs])


def resolver_of(
    answers: Mapping[str, Sequence[str] | Sequence[Sequence[str]]],
) -> tuple[Callable[[str, int], Awaitable[Sequence[str]]], list[str]]:
    """Return a resolver that knows these hosts, and the list of those that it was asked for.

    A list of lists is answered one after the other; the last one stays.
    """
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        found = answers.get(host, ())
        if found and not isinstance(found[0], str):
            place = min(asked.count(host), len(found)) - 1
            return found[place]
        return found  # type: ignore[return-value]  # a plain list

    return resolve, asked
