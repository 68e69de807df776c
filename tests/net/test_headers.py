"""What a caller may send: to the origin that it was given for, once, and nothing that would make another request of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.net.web_site import HOME, Site, moved, page, resolver_of
from windlass.errors import ConfigError, NetworkError
from windlass.net import HttpClient, client

SECRET_HEADERS = {
    "Authorization": "Bearer top-secret",
    "Cookie": "session=top-secret",
    "X-Api-Token": "top-secret",
}


async def test_headers_of_the_caller_stay_with_the_origin_that_they_were_given_for() -> None:
    async with Site() as other, Site() as site:
        site.answers = {"/": moved("/same"), "/same": moved(other.url("/there"))}
        other.answers = {"/there": moved(site.url("/back"))}
        site.answers["/back"] = page(b"done")
        client = HttpClient(site.rules(ports=(site.port, other.port)))

        fetched = await client.get(site.url("/"), headers=SECRET_HEADERS)

        assert fetched.body == b"done"
        sent = [*site.requests, *other.requests]
        carried = {seen.target: "top-secret" in str(seen.headers) for seen in sent}
        assert carried == {"/": True, "/same": True, "/there": False, "/back": False}


async def test_another_host_on_the_same_address_is_another_origin() -> None:
    async with Site() as site:
        site.answers = {"/": moved(site.url("/there", host="b.example")), "/there": page(b"x")}
        resolver, _ = resolver_of({"a.example": [HOME], "b.example": [HOME]})
        client = HttpClient(site.rules(), resolver=resolver)

        await client.get(site.url("/", host="a.example"), headers=SECRET_HEADERS)

        assert "top-secret" in str(site.requests[0])
        assert "top-secret" not in str(site.requests[1])
        assert site.requests[1].headers["host"] == f"b.example:{site.port}"


async def test_a_caller_replaces_a_usual_header_in_any_case_and_does_not_add_a_second_one() -> None:
    own = {"user-agent": "me", "ACCEPT": "application/json", "accept-encoding": "identity"}
    async with Site({"/": page(b"x")}) as site:
        await site.client().get(site.url("/"), headers=own)

        seen = site.requests[0]
        assert seen.names.count("user-agent") == seen.names.count("accept") == 1
        assert {name: seen.headers[name.lower()] for name in own} == own


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"X-Key": "geheim\n"}, "headers[X-Key]"),
        ({"X-Key": "geheim\r\nHost: b.example"}, "headers[X-Key]"),
        ({"X-Key": "geheim\x00"}, "headers[X-Key]"),
        ({"X-Key": " geheim"}, "headers[X-Key]"),
        ({"X-Key": "geheim-ü"}, "headers[X-Key]"),
        ({"X-Key": b"geheim"}, "headers[X-Key]"),
        ({"X-Key": 5}, "headers[X-Key]"),
        ({"X Key": "geheim"}, "headers[0]"),
        ({"X-Own": "1", "": "geheim"}, "headers[1]"),
        ({"X-Key: geheim\r\nX": "1"}, "headers[0]"),
        ({5: "geheim"}, "headers[0]"),
        ({"Host": "geheim"}, "headers[Host]"),
        ({"connection": "geheim"}, "headers[connection]"),
        ({"Content-Length": "5"}, "headers[Content-Length]"),
        ({"TRANSFER-ENCODING": "chunked"}, "headers[TRANSFER-ENCODING]"),
    ],
)
async def test_a_header_that_cannot_be_sent_is_refused_without_its_value_before_anyone_is_called(
    headers: dict[str, Any], field: str
) -> None:
    async with Site({"/": page(b"x")}) as site:
        with pytest.raises(ConfigError) as caught:
            await site.client().get(site.url("/"), headers=headers)

        assert caught.value.field == field
        assert "geheim" not in repr(caught.value)
        assert await site.n_callers() == 0


@pytest.mark.parametrize("value", ["", "a b\tc", "!~", "x" * 2_000])
async def test_a_header_of_printable_characters_is_sent(value: str) -> None:
    async with Site({"/": page(b"x")}) as site:
        await site.client().get(site.url("/"), headers={"X-Own": value})

        assert site.requests[0].headers["x-own"] == value


async def test_what_only_the_library_refuses_to_send_is_not_blamed_on_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(client._HEADERS, "X-Planted", "a\nb")
    async with Site({"/": page(b"x")}) as site:
        with pytest.raises(NetworkError, match="the request cannot be sent like this"):
            await site.client().get(site.url("/"))
