"""Secrets and credentials: they do not leave in a URL, and no message shows them."""

from __future__ import annotations

import pytest

from tests.net.web_site import Site, moved, resolver_of
from windlass.errors import EgressDenied
from windlass.guards.secret import Secret, register_secret
from windlass.net import EgressRules, HttpClient


@pytest.mark.parametrize(
    "url",
    [
        "/?key=sk-1234567890abcdef",
        "/sk-1234567890abcdef/x",
        "/?key=%73k-1234567890abcdef",
        "/?key=%2573k-1234567890abcdef",
        "/?key=c2stMTIzNDU2Nzg5MGFiY2RlZg==",
        "/#sk-1234567890abcdef",
    ],
)
async def test_a_registered_secret_does_not_leave_in_a_url(url: str) -> None:
    register_secret(Secret("sk-1234567890abcdef", name="KEY"))
    async with Site() as site:
        with pytest.raises(EgressDenied) as caught:
            await site.client().get(site.url(url))

        assert caught.value.rule == "secret"
        assert "1234567890" not in str(caught.value)
        assert await site.n_callers() == 0


@pytest.mark.parametrize("spelled", ["correct%20horse%20battery!", "correct+horse+battery!"])
async def test_a_secret_with_blanks_does_not_leave_in_any_spelling_of_them(spelled: str) -> None:
    register_secret(Secret("correct horse battery!", name="KEY"))
    async with Site() as site:
        with pytest.raises(EgressDenied) as caught:
            await site.client().get(site.url(f"/?q={spelled}"))

        assert caught.value.rule == "secret"
        assert await site.n_callers() == 0


async def test_a_redirect_does_not_carry_a_secret_either() -> None:
    register_secret(Secret("sk-1234567890abcdef", name="KEY"))
    async with Site({"/": moved("/next?key=sk-1234567890abcdef")}) as site:
        with pytest.raises(EgressDenied) as caught:
            await site.client().get(site.url("/"))

        assert caught.value.rule == "secret"
        assert len(site.requests) == 1


WIDE = "".join(chr(ord(char) + 0xFEE0) for char in "sk-live-abc123def456")


@pytest.mark.parametrize(
    "url",
    [
        "https://sk-live-abc123def456.evil.example/",
        "https://SK-LIVE-ABC123DEF456.evil.example/",
        f"https://{WIDE}.evil.example/",
        "https://sk-mixed-abc123.evil.example/",
        "https://evil.example/wJalrXUtnFEMI/K7MDENG/bPxRfiCY",
        "https://evil.example/wJalrXUtnFEMI/./K7MDENG/bPxRfiCY",
        "https://evil.example/wJalrXUtnFEMI/x/../K7MDENG/bPxRfiCY",
        "https://user:sk-live-abc123def456/x@evil.example/",
        "https://sk-live-abc123def456$.evil.example/",
        "sk-live-abc123def456://evil.example/",
    ],
)
@pytest.mark.parametrize("allow", [None, ("a.example",)])
async def test_a_secret_in_another_spelling_of_a_url_is_neither_sent_nor_shown(
    url: str, allow: tuple[str, ...] | None
) -> None:
    for value in ("sk-live-abc123def456", "SK-Mixed-abc123", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY"):
        register_secret(Secret(value, name="KEY"))
    resolver, asked = resolver_of({})

    with pytest.raises(EgressDenied) as caught:
        await HttpClient(EgressRules(allow=allow), resolver=resolver).get(url)

    assert asked == []
    assert allow is not None or (caught.value.rule, caught.value.host) == ("secret", "")
    shown = str(caught.value).lower()
    assert not any(part in shown for part in ("abc123", "wjalr", "k7md", WIDE[:7]))


# ----------------------------------------------------------------------------------- credentials


@pytest.mark.parametrize(
    "url",
    [
        "https://user:Tr0ub4dor@example.org/",
        "https://user:Tr0ub4dor#3@example.org/",
        "https://user:Tr0ub4dor/x@example.org/",
        "https://user:Tr0ub4dor?x@example.org/",
        "https://user:Tr0ub4dor%40example.org/",
        "https://user:Tr0ub4dor\uff20example.org/",
        "https://user:Tr0ub4dor\ufe6bexample.org/",
        "https://api.example\uff20Tr0ub4dor/",
        "https://[Tr0ub4dor/x@example.org/",
    ],
)
def test_credentials_are_refused_as_such_and_not_shown(url: str) -> None:
    with pytest.raises(EgressDenied) as caught:
        EgressRules().admit(url)

    error = caught.value
    assert (error.rule, error.host) == ("credentials", "")
    assert str(error).startswith("url: refused by the rule credentials: ")
    assert not any(part in repr(error) for part in ("user", "Tr0ub4dor", "example.org"))


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://user:12345/x@example.org/", "port"),
        ("https://user:hunter2", "host"),
        ("https://user%3Ahunter2/", "host"),
        ("https://hünter2$/", "host"),
        ("hunter2://x", "scheme"),
        ("hunter2:x@example.org", "scheme"),
        ("hunter2", "url"),
    ],
)
def test_what_may_be_a_password_is_not_shown_either(url: str, rule: str) -> None:
    with pytest.raises(EgressDenied) as caught:
        EgressRules().admit(url)

    assert caught.value.rule == rule
    for part in ("12345", "hunter2", "hünter2"):
        assert part not in repr(caught.value) + caught.value.host


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("FTP://example.org/", "ftp: refused by the rule scheme: "),
        ("mailto:a@example.org", "mailto: refused by the rule scheme: "),
        ("https://exa$mple.org/", "exa$mple.org: refused by the rule host: "),
        ("https://example.org:22/", "example.org: refused by the rule port: "),
    ],
)
def test_what_is_surely_no_password_is_shown(url: str, shown: str) -> None:
    with pytest.raises(EgressDenied) as caught:
        EgressRules().admit(url)

    assert str(caught.value).startswith(shown)
