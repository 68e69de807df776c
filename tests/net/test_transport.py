"""Other clients leave by the same door: an `httpx2.AsyncClient` on the transport obeys the rules, redirects included."""

from __future__ import annotations

import httpx2
import pytest

from tests.net.web_site import HOME, Site, moved, page, resolver_of
from windlass.errors import EgressDenied
from windlass.net import transport

KEPT = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


async def test_a_client_of_httpx2_reads_through_it() -> None:
    async with Site({"/": KEPT}) as site:
        async with httpx2.AsyncClient(transport=transport(site.rules())) as client:
            first = await client.get(site.url("/?a=1"), headers={"X-Own": "1"})
            second = await client.post(site.url(), content=b"")

        assert (first.text, second.text) == ("hello", "hello")
        assert site.requests[0].headers["x-own"] == "1"
        assert await site.n_callers() == 1  # the connection was used again


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://2130706433:{port}/",
        "http://127.1:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://loopback.example:{port}/",
        "http://user:pw@127.0.0.1:{port}/",
        "ws://127.0.0.1:{port}/",
    ],
)
async def test_it_does_not_reach_what_is_private(url: str) -> None:
    resolver, _ = resolver_of({"loopback.example": ["127.0.0.1"]})
    async with Site({"/": page(b"x")}, host="127.0.0.1") as inside:
        door = transport(inside.rules(), resolver=resolver)
        async with httpx2.AsyncClient(transport=door, follow_redirects=True) as client:
            with pytest.raises(EgressDenied):
                await client.get(url.format(port=inside.port))

        assert await inside.n_callers() == 0


async def test_a_redirect_that_the_client_follows_is_judged_too() -> None:
    async with Site({"/": page(b"x")}, host="127.0.0.1") as inside, Site() as site:
        site.answers["/"] = moved(inside.url())
        door = transport(site.rules(ports=(site.port, inside.port)))
        async with httpx2.AsyncClient(transport=door, follow_redirects=True) as client:
            with pytest.raises(EgressDenied) as caught:
                await client.get(site.url())

        assert caught.value.rule == "private-address"
        assert await inside.n_callers() == 0


async def test_a_request_on_an_open_connection_is_judged_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Site({"/": KEPT}) as site:
        async with httpx2.AsyncClient(transport=transport(site.rules())) as client:
            await client.get(site.url())
            monkeypatch.setenv("WINDLASS_EGRESS", "closed")
            with pytest.raises(EgressDenied):
                await client.get(site.url())

        assert len(site.requests) == 1


async def test_a_header_asks_for_no_other_host() -> None:
    async with Site({"/": KEPT}) as site:
        async with httpx2.AsyncClient(transport=transport(site.rules())) as client:
            with pytest.raises(EgressDenied):
                await client.get(site.url(), headers={"Host": "intranet"})

        assert site.requests == []


async def test_an_extension_asks_for_no_other_address() -> None:
    async with Site({"/": KEPT}) as site:
        async with httpx2.AsyncClient(transport=transport(site.rules())) as client:
            asked = {"target": b"http://169.254.169.254/latest/meta-data/"}
            await client.get(site.url("/?a=1"), extensions=asked)

        assert [seen.target for seen in site.requests] == ["/?a=1"]


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Site({"/": page(b"x")}, host="127.0.0.1") as proxy, Site({"/": KEPT}) as site:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        async with httpx2.AsyncClient(transport=transport(site.rules())) as client:
            assert (await client.get(site.url())).text == "hello"

        assert await proxy.n_callers() == 0


@pytest.mark.parametrize("headers", [{"Content-Length": "5"}, {"X-Own": "a\nb"}, {"X Own": "1"}])
async def test_a_request_that_cannot_be_sent_is_a_failure_that_clients_of_httpx2_know(
    headers: dict[str, str],
) -> None:
    async with (
        Site({"/": KEPT}) as site,
        httpx2.AsyncClient(transport=transport(site.rules())) as client,
    ):
        with pytest.raises(httpx2.LocalProtocolError):
            await client.get(site.url(), headers=headers)


async def test_failures_are_those_that_clients_of_httpx2_know() -> None:
    async with Site({"/": b"nonsense\r\n\r\nConnection: close"}) as site:
        resolver, _ = resolver_of({})
        door = transport(site.rules(), resolver=resolver)
        async with httpx2.AsyncClient(transport=door) as client:
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.get(site.url())
            with pytest.raises(httpx2.ConnectError):
                await client.get(site.url(host="unknown.example"))
    async with httpx2.AsyncClient(transport=transport(site.rules())) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(f"http://{HOME}:{site.port}/")
