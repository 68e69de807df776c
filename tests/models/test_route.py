"""Blobs go back to the route that made them, and nowhere else."""

from __future__ import annotations

import logging

import pytest

from windlass.errors import ConfigError
from windlass.models.route import Route, own_blob, replay_blob

ROUTE = Route("anthropic", "https://api.anthropic.com", "claude-x")


def test_a_key_names_provider_endpoint_and_model() -> None:
    assert ROUTE.key == "anthropic|https://api.anthropic.com|claude-x"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("HTTPS://API.Anthropic.com:443/", "https://api.anthropic.com"),
        ("http://localhost:80/v1//", "http://localhost/v1"),
        ("http://localhost:8080/v1", "http://localhost:8080/v1"),
        ("http://[::1]:9/x", "http://[::1]:9/x"),
        ("", ""),
    ],
)
def test_an_endpoint_has_one_spelling(given: str, wanted: str) -> None:
    assert Route("p", given, "m").endpoint == wanted


@pytest.mark.parametrize(
    "given", ["https://me:hunter22@host", "https://me@host", "https://@host", "https://:pw@host"]
)
def test_an_endpoint_with_a_password_is_refused_without_showing_it(given: str) -> None:
    with pytest.raises(ConfigError, match="base_url") as raised:
        Route("p", given, "m")
    assert "hunter22" not in str(raised.value)


@pytest.mark.parametrize("given", ["https://host/v1?key=hunter22", "https://host/#hunter22"])
def test_what_stands_behind_an_address_is_refused_and_not_passed_over(given: str) -> None:
    with pytest.raises(ConfigError, match="base_url: found something behind") as raised:
        Route("p", given, "m")
    assert "hunter22" not in str(raised.value)


@pytest.mark.parametrize(
    "given", ["host", "ftp://host", "https://", "http://host:x", "http://[::1", "https://ho st"]
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="found no address"):
        Route("p", given, "m")


def test_a_blob_comes_back_on_its_own_route() -> None:
    assert own_blob(replay_blob({"signature": "s"}, ROUTE), ROUTE) == {"signature": "s"}


@pytest.mark.parametrize(
    "other",
    [
        Route("openai", "https://api.anthropic.com", "claude-x"),
        Route("anthropic", "https://proxy.example", "claude-x"),
        Route("anthropic", "https://api.anthropic.com", "claude-y"),
    ],
)
def test_a_blob_stays_behind_on_any_other_route(
    other: Route, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="windlass.models"):
        assert own_blob(replay_blob("secret thought", ROUTE), other) is None
    assert [record.message for record in caplog.records] == [
        f"a replay blob of another route stays behind; this one is {other.key}"
    ]


@pytest.mark.parametrize("replay", [None, "text", 7, [], {}, {"route": ROUTE.key}, {"blob": 1}])
def test_what_has_no_route_is_nobodys(replay: object) -> None:
    assert own_blob(replay, ROUTE) is None


def test_a_blob_that_no_store_takes_is_none() -> None:
    assert replay_blob({"signature": "a\0b"}, ROUTE) is None
