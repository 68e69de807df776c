"""A server that means harm: whatever it sends, the client ends in time, in little memory, with an error of its own."""

from __future__ import annotations

import asyncio
import gc
import gzip
import tracemalloc
import zlib
from typing import Self

import httpcore2
import httpx2
import pytest

from tests.limits import HANGS_S
from tests.net.web_site import HOME, Site, Writing, moved, page
from windlass.errors import EgressDenied, NetworkError
from windlass.net import EgressRules, Fetched, HttpClient, transport

OK = b"HTTP/1.1 200 OK\r\n"
MIB = 1024 * 1024


async def got(site: Site, **rules: object) -> Fetched:
    async with asyncio.timeout(HANGS_S):
        return await site.client(**rules).get(site.url("/"))


def bomb(n_mib: int) -> bytes:
    """Return what unpacks to so many MiB of zeros."""
    packer, zeros = zlib.compressobj(9, wbits=31), bytes(MIB)
    return b"".join([packer.compress(zeros) for _ in range(n_mib)]) + packer.flush()


async def test_a_bomb_of_gzip_takes_no_more_memory_than_the_limit_allows() -> None:
    packed = bomb(96)
    async with Site({"/": page(packed, content_encoding="gzip")}) as site:
        await got(site, max_bytes=1)  # what is loaded once does not count
        tracemalloc.start()
        try:
            fetched = await got(site, max_bytes=MIB)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert (len(fetched.body), fetched.is_whole) == (MIB, False)
    assert peak < 8 * MIB


async def test_the_measure_of_memory_sees_a_bomb_that_goes_off() -> None:
    packed = bomb(32)
    tracemalloc.start()
    try:
        gzip.decompress(packed)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak > 8 * MIB


async def test_many_empty_parts_of_gzip_end_at_the_limit_of_the_wire() -> None:
    packed = gzip.compress(b"") * 20_000
    async with Site({"/": page(packed, content_encoding="gzip")}) as site:
        fetched = await got(site, max_bytes=100_000)

    assert (fetched.body, fetched.is_whole) == (b"", False)


def endless(begin: bytes, again: bytes) -> Writing:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        while True:
            writer.write(again)
            await writer.drain()
            await asyncio.sleep(0)  # the client has its turn

    return write


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (OK, b"X-Header: " + b"x" * 1_000 + b"\r\n"),
        (OK + b"X-Header: ", b"x" * 1_000),
        (b"HTTP/1.1 200 ", b"x" * 1_000),
        (b"", b"x" * 1_000),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x" * 1_000),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Trailer: x\r\n"),
    ],
    ids=["headers", "one-header", "reason", "no-http", "chunk-extension", "trailers"],
)
async def test_what_never_ends_before_the_text_ends_as_an_error(begin: bytes, again: bytes) -> None:
    async with Site({"/": endless(begin, again)}) as site:
        with pytest.raises(NetworkError, match="the answer is not HTTP as it should be"):
            await got(site)


async def test_a_text_without_end_is_cut_at_the_limit() -> None:
    async with Site({"/": endless(OK + b"\r\n", b"x" * 10_000)}) as site:
        fetched = await got(site, max_bytes=50_000)

    assert (fetched.body, fetched.is_whole) == (b"x" * 50_000, False)


async def _stall(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _stall_in_text(writer: asyncio.StreamWriter) -> None:
    writer.write(OK + b"Content-Length: 10\r\n\r\nhalf")
    await writer.drain()
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "answer",
    [
        _stall,
        _stall_in_text,
        endless(OK + b"\r\n", b"x"),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        endless(OK, b""),
    ],
    ids=["no-answer", "half-an-answer", "byte-by-byte", "informational", "no-headers"],
)
async def test_all_of_it_ends_at_the_deadline(answer: Writing) -> None:
    async with Site({"/": answer}) as site, asyncio.timeout(HANGS_S):
        client = site.client(timeout_s=0.25, max_bytes=64 * MIB)
        while not site.requests:  # on a busy machine the time may be over before anything is sent
            with pytest.raises(NetworkError, match=r"was not complete after 0\.25 seconds"):
                await client.get(site.url("/"))


async def test_a_slow_resolver_ends_at_the_deadline() -> None:
    asked: list[str] = []

    async def never(host: str, port: int) -> list[str]:
        asked.append(host)
        await asyncio.Event().wait()
        return []

    async with Site() as site, asyncio.timeout(HANGS_S):
        client = HttpClient(site.rules(timeout_s=0.05), resolver=never)
        while not asked:
            with pytest.raises(NetworkError, match=r"was not complete after 0\.05 seconds"):
                await client.get(site.url(host="slow.example"))


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Connection: close\r\nContent-Length: 100\r\n\r\ntoo short",
        OK + b"Connection: close\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        OK + b"Connection: close\r\nContent-Length: -1\r\n\r\nhello",
        OK + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        OK + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
        OK + b"Connection: close\r\nTransfer-Encoding: gzip\r\n\r\nhello",
        OK + b"Connection: close\r\nBad Header: x\r\n\r\n",
        OK + b"Connection: close\r\nX: a\x00b\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade, Connection: close\r\n\r\n",
        b"HTTP/1.1 999999 OK\r\nConnection: close\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\nConnection: close\r\n\r\n",
        b"Connection: close",
    ],
)
async def test_what_is_not_http_is_an_error_that_names_the_host_alone(answer: bytes) -> None:
    async with Site({"/": answer}) as site:
        with pytest.raises(NetworkError) as caught:
            await got(site)

        assert str(caught.value).startswith(f"{site.host}: ")
        assert "hello" not in str(caught.value)


async def test_a_longer_text_than_its_length_says_is_read_as_far_as_it_says() -> None:
    answer = OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello and more"
    async with Site({"/": answer}) as site:
        assert (await got(site)).body == b"hello"


async def test_a_request_that_is_cancelled_closes_its_connection() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def drip(writer: asyncio.StreamWriter) -> None:
        begun.set()
        try:
            await endless(OK + b"\r\n", b"x")(writer)
        except ConnectionError:
            left.set()

    async with Site({"/": drip}) as site, asyncio.timeout(HANGS_S):
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(got(site, max_bytes=64 * MIB))
            await begun.wait()
            task.cancel()
        await left.wait()


async def test_a_server_that_never_begins_tls_keeps_no_connection() -> None:
    left = asyncio.Event()

    async def wait_for_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        left.set()
        writer.close()

    gc.disable()  # a collection would close what was forgotten
    try:
        async with await asyncio.start_server(wait_for_end, HOME, 0) as server:
            port = server.sockets[0].getsockname()[1]
            rules = EgressRules(private=(f"{HOME}/32",), ports=(port,), timeout_s=0.2)
            with pytest.raises(NetworkError, match=r"not complete after 0\.2 seconds"):
                await HttpClient(rules).get(f"https://{HOME}:{port}/")
            async with asyncio.timeout(HANGS_S):
                await left.wait()
    finally:
        gc.enable()


async def test_a_host_that_only_looks_like_other_letters_is_refused_and_told_by_a_redirect() -> (
    None
):
    async with Site({"/": moved("http://a_b.xn--a.example/")}) as site:
        with pytest.raises(EgressDenied) as caught:
            await got(site, ports=(site.port, 80))

    assert (caught.value.rule, caught.value.field) == ("host", "location")


# ------------------------------------------------------------- what costs more than it has of text


class Canned(httpcore2.AsyncNetworkStream):
    """A connection on which all is there already: no read ever waits, as behind a fast server and TLS."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.n_read = 0
        self.n_since_turn = 0
        self.n_most = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the port's shape
        piece = self._data[self.n_read : self.n_read + max_bytes]
        self.n_read += len(piece)
        self.n_since_turn += len(piece)
        self.n_most = max(self.n_most, self.n_since_turn)
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        pass

    async def aclose(self) -> None:
        pass

    async def start_tls(self, *args: object, **more: object) -> Self:
        return self

    async def connect_tcp(self, *args: object, **more: object) -> Self:
        return self

    async def be_beside(self) -> None:
        """Have a turn whenever there is one."""
        while True:
            self.n_since_turn = 0
            await asyncio.sleep(0)


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
COSTLY = {
    "one-byte chunks": CHUNKED + b"1\r\na\r\n" * 350_000,
    "chunks with extensions": CHUNKED + (b"1;" + b"x" * 4_000 + b"\r\na\r\n") * 500,
    "informational": b"HTTP/1.1 100 \r\n\r\n" * 130_000,
    "informational with headers": (b"HTTP/1.1 103 x\r\nA: " + b"x" * 60_000 + b"\r\n\r\n") * 35,
}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("data", COSTLY.values(), ids=COSTLY.keys())
async def test_what_has_little_text_ends_early_and_lets_others_have_their_turn(
    data: bytes, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    canned = Canned(data)
    monkeypatch.setattr(httpcore2, "AnyIOBackend", lambda: canned)
    beside = asyncio.create_task(canned.be_beside())

    with pytest.raises(NetworkError, match=r"93\.184\.215\.14: .* far more bytes than"):
        await HttpClient(EgressRules(max_bytes=500_000)).get(f"{scheme}://93.184.215.14/")
    beside.cancel()

    assert canned.n_read <= 500_000 + MIB + 4_096
    assert canned.n_most <= 8_192


async def test_how_much_another_client_reads_is_its_own_affair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(httpcore2, "AnyIOBackend", lambda: Canned(OK + b"\r\n" + b"x" * 2 * MIB))
    async with httpx2.AsyncClient(transport=transport(EgressRules(max_bytes=1_000))) as client:
        assert len((await client.get("http://93.184.215.14/")).content) == 2 * MIB
