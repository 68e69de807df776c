"""What the client gives back: addresses, statuses, media types, encodings, and why there is no answer."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zlib

import pytest

from tests.limits import HANGS_S
from tests.net.web_site import HOME, Site, page
from windlass.errors import ConfigError, NetworkError
from windlass.net import EgressRules, Fetched, HttpClient, known_charset


async def test_an_answer_has_its_address_status_headers_and_bytes() -> None:
    async with Site(
        {"/a": page(b"gone", 410, content_type="text/plain; charset=utf-8", x_odd="1")}
    ) as site:
        fetched = await site.client().get(site.url("/a?b=c#d"))

        assert fetched.url == site.url("/a?b=c")
        assert (fetched.status, fetched.body, fetched.is_whole) == (410, b"gone", True)
        assert fetched.media_type == "text/plain"
        assert fetched.headers["x-odd"] == "1"
        assert site.requests[0].target == "/a?b=c"


async def test_a_request_says_who_asks_and_holds_no_cookie_and_no_credentials() -> None:
    async with Site({"/": page(b"x", set_cookie="id=1")}) as site:
        client = site.client()
        await client.get(site.url("/"))
        await client.get(site.url("/"))

        assert site.requests[1].headers == {
            "host": f"{HOME}:{site.port}",
            "user-agent": "windlass/0.1.0",
            "accept": "*/*",
            "accept-encoding": "gzip, deflate",
            "connection": "close",
        }


# ------------------------------------------------------------------------------------- unpacking


def deflated(data: bytes, window: int) -> bytes:
    packer = zlib.compressobj(wbits=window)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("identity", b"hello" * 100),
        ("gzip", gzip.compress(b"hello" * 100)),
        ("X-GZIP", gzip.compress(b"hello" * 100)),
        ("gzip", gzip.compress(b"hello" * 40) + gzip.compress(b"hello" * 60)),
        ("gzip", gzip.compress(b"hello" * 100) + b"\x00" * 20),
        ("deflate", deflated(b"hello" * 100, 15)),
        ("deflate", deflated(b"hello" * 100, -15)),
    ],
)
async def test_what_is_packed_is_unpacked(encoding: str, body: bytes) -> None:
    async with Site({"/": page(body, content_encoding=encoding)}) as site:
        fetched = await site.client().get(site.url("/"))

        assert (fetched.body, fetched.is_whole) == (b"hello" * 100, True)


@pytest.mark.parametrize(
    ("encoding", "body", "told"),
    [
        ("br", b"x", "packed in a way that was not asked for"),
        (
            "gzip, gzip",
            gzip.compress(gzip.compress(b"x")),
            "packed in a way that was not asked for",
        ),
        ("gzip", b"not gzip", "is packed wrongly"),
        ("gzip", gzip.compress(b"hello" * 100)[:-9], "ended before it was complete"),
        ("deflate", b"\xff\xff\xff", "is packed wrongly"),
    ],
)
async def test_what_is_not_packed_as_it_says_is_an_error(
    encoding: str, body: bytes, told: str
) -> None:
    async with Site({"/": page(body, content_encoding=encoding)}) as site:
        with pytest.raises(NetworkError, match=told):
            await site.client().get(site.url("/"))


@pytest.mark.parametrize(("size", "is_whole"), [(999, True), (1_000, True), (1_001, False)])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_no_more_is_read_than_the_rules_allow(
    size: int, is_whole: bool, encoding: str
) -> None:
    body = b"x" * size if encoding == "identity" else gzip.compress(b"x" * size)
    async with Site({"/": page(body, content_encoding=encoding)}) as site:
        fetched = await site.client(max_bytes=1_000).get(site.url("/"))

        assert (len(fetched.body), fetched.is_whole) == (min(size, 1_000), is_whole)


# ------------------------------------------------------------------------------------------ text


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain", "grün".encode(), "grün"),
        ("text/plain; charset=ISO-8859-1", b"gr\xfcn", "grün"),
        ('text/plain; charset="windows-1252"', b"\x80", "€"),
        ("text/plain; charset=utf-8", "\ufeffgrün".encode(), "grün"),
        ("text/plain", "\ufeffgrün".encode("utf-16-le"), "grün"),
        ("text/plain; charset=shift_jis", "日本".encode("shift_jis"), "日本"),
        ("text/plain; charset=zlib", b"plain", "plain"),
        ("text/plain; charset=unicode_escape", rb"\x41", r"\x41"),
        ("text/plain; charset=idna", b"xn--", "xn--"),
        ("text/plain; charset=nonsense", b"plain", "plain"),
        ("text/plain", b"a\x00b\xed\xa0\x80c\xff", "a\ufffdb\ufffd\ufffd\ufffdc\ufffd"),
        ("text/plain; charset=utf-16", "grün".encode("utf-16-le"), "grün"),
        ("text/plain; charset=utf-16", "\ufeffgrün".encode("utf-16-be"), "grün"),
        ("text/plain; charset=utf-16-le", b"a\x00\x00\xd8b\x00", "a\ufffdb"),
        ("", b"plain", "plain"),
    ],
)
def test_text_is_read_in_encodings_of_a_closed_list(
    content_type: str, body: bytes, text: str
) -> None:
    fetched = Fetched(
        url="https://a.example/", status=200, headers={"content-type": content_type}, body=body
    )

    assert fetched.text() == text


@pytest.mark.parametrize("charset", ["utf-8", "utf-16-be", "gb18030", "shift_jis", "iso2022_jp"])
def test_text_is_read_no_further_than_it_is_wanted_and_whole_at_every_seam(charset: str) -> None:
    """Characters of several bytes lie across the pieces in which it is read."""
    whole = "a" + "日本" * 60_000
    headers = {"content-type": f"text/plain; charset={charset}"}
    body = whole.encode(charset)
    fetched = Fetched(url="https://a.example/", status=200, headers=headers, body=body)

    assert fetched.text() == whole
    assert fetched.text(max_chars=100_001) == whole[:100_001]
    assert fetched.text(max_chars=0) == ""


LOADED_BY = """
import asyncio, socket, sys, threading
from windlass.net import EgressRules, HttpClient, NetworkError

loop_thread = threading.get_ident()

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "httpx2":
            print("on the loop" if threading.get_ident() == loop_thread else "in a thread")

async def main():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        rules = EgressRules(private=("127.0.0.1/32",), ports=(port,))
        try:
            await HttpClient(rules).get(f"http://127.0.0.1:{port}/")
        except NetworkError:
            print("no answer")

sys.meta_path.insert(0, watch := Watch())
asyncio.run(main())
"""


def test_what_a_first_request_loads_is_loaded_off_the_event_loop() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED_BY],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=True,
    )

    assert done.stdout.split("\n")[-3:] == ["in a thread", "no answer", ""]


@pytest.mark.parametrize("name", ["punycode", "raw_unicode_escape", "utf_7", "rot13", "x" * 500])
def test_a_codec_that_is_not_an_encoding_of_pages_is_not_known(name: str) -> None:
    assert known_charset(name) is None


@pytest.mark.parametrize(
    ("content_type", "media_type"),
    [
        ("text/html; charset=x", "text/html"),
        ("TEXT/HTML", "text/html"),
        (" application/ld+json ;a=b", "application/ld+json"),
        ("nonsense", ""),
        ("text/html, text/plain", ""),
        ("text/" + "x" * 100, ""),
    ],
)
def test_a_media_type_is_what_the_header_says_if_it_is_one(
    content_type: str, media_type: str
) -> None:
    fetched = Fetched(url="", status=200, headers={"content-type": content_type}, body=b"")

    assert fetched.media_type == media_type


# ------------------------------------------------------------------------------------------ made


def test_a_client_takes_rules_and_nothing_else() -> None:
    with pytest.raises(ConfigError, match=r"HttpClient\.rules: found dict"):
        HttpClient({"allow": ()})  # type: ignore[arg-type]  # what a caller may get wrong

    assert HttpClient().rules == EgressRules()


async def test_nothing_listens_is_told_as_such() -> None:
    async with Site() as site:
        port, client = site.port, site.client()

    with pytest.raises(NetworkError) as caught:
        await client.get(f"http://{HOME}:{port}/secret-path?token=1")
    assert str(caught.value) == f"{HOME}: no connection could be made"
