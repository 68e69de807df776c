"""Rules: what they take when they are made, and what they say of a URL before anything is looked up."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.errors import ConfigError, EgressDenied
from windlass.net import EgressRules


def refused(url: str, rules: EgressRules | None = None) -> EgressDenied:
    with pytest.raises(EgressDenied) as caught:
        (rules or EgressRules()).admit(url)
    return caught.value


# ------------------------------------------------------------------------------- what a URL may be


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        # One host in many spellings.
        ("http://127.0.0.1/", "private-address"),
        ("http://127.0.0.1./", "private-address"),
        ("http://2130706433/", "host"),
        ("http://017700000001/", "host"),
        ("http://0x7f000001/", "host"),
        ("http://0x7f.0.0.1/", "host"),
        ("http://0177.0.0.1/", "host"),
        ("http://127.1/", "host"),
        ("http://127.0.1/", "host"),
        ("http://127.0.0.1.2/", "host"),
        ("http://127.0.0.0x1/", "host"),
        ("http://0x/", "host"),
        ("http://256.0.0.1/", "host"),
        ("http://127。0。0。1/", "private-address"),
        ("http://\uff11\uff12\uff17.0.0.1/", "private-address"),
        ("http://①②⑦.0.0.1/", "private-address"),
        ("http://127%2e0%2e0%2e1/", "host"),
        ("http://%31%32%37.0.0.1/", "host"),
        ("http://0/", "host"),
        ("http://[::1]/", "private-address"),
        ("http://[0:0:0:0:0:0:0:1]/", "private-address"),
        ("http://[::ffff:127.0.0.1]/", "private-address"),
        ("http://[::ffff:7f00:1]/", "private-address"),
        ("http://[fe80::1%25eth0]/", "host"),
        ("http://[fe80::1%eth0]/", "host"),
        ("http://[::1", "host"),
        ("http://[::1]x/", "host"),
        ("http://[127.0.0.1]/", "host"),
        ("http://::1/", "host"),
        ("HTTP://LOCALHOST.:99999/", "port"),
        # Credentials, and what looks like them.
        ("http://user:pw@example.org/", "credentials"),
        ("http://example.org@127.0.0.1/", "credentials"),
        ("http://example.org:80@127.0.0.1/", "credentials"),
        ("http://@example.org/", "credentials"),
        ("http://example.org\uff20127.0.0.1/", "credentials"),
        # Backslashes, blanks, and what cannot be seen.
        ("http://example.org\\@127.0.0.1/", "url"),
        ("http:\\\\127.0.0.1/", "url"),
        ("http://exa\tmple.org/", "url"),
        ("http://example.org/\r\nHost: x", "url"),
        ("ht\ntp://example.org/", "url"),
        ("http://exam\u200bple.org/", "url"),
        ("http://example.org/\x00", "url"),
        (" http://example.org/", "url"),
        ("http://example.org/a b", "url"),
        # Not a URL of the web.
        ("file:///etc/passwd", "scheme"),
        ("ftp://example.org/", "scheme"),
        ("gopher://127.0.0.1:6379/_x", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("data:text/html,x", "scheme"),
        ("ws://example.org/", "scheme"),
        ("http:example.org", "url"),
        ("//example.org/", "url"),
        ("example.org", "url"),
        ("", "url"),
        ("http:///path", "host"),
        ("http://?q", "host"),
        ("http://.example.org/", "host"),
        ("http://example..org/", "host"),
        ("http://-example.org/", "host"),
        ("http://exa$mple.org/", "host"),
        ("http://" + "a" * 64 + ".org/", "host"),
        ("http://" + "a." * 200 + "org/", "host"),
        ("http://example.org/" + "x" * 9_000, "url"),
        ("http://example.org/" + "文" * 1_000, "url"),
        # Ports.
        ("http://example.org:22/", "port"),
        ("http://example.org:0/", "port"),
        ("http://example.org:٨٠/", "host"),
        ("http://example.org:-1/", "host"),
        ("http://example.org:80:80/", "host"),
    ],
)  # fmt: skip
def test_a_url_that_could_be_read_in_two_ways_or_leads_inside_is_refused(
    url: str, rule: str
) -> None:
    error = refused(url)

    assert error.rule == rule
    assert rule == "url" or f"refused by the rule {rule}" in str(error)


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://docs.python.org/3/", "docs.python.org", 443, "/3/"),
        ("HTTPS://Docs.Python.ORG", "docs.python.org", 443, "/"),
        ("https://docs.python.org./?q=1#frag", "docs.python.org", 443, "/?q=1"),
        ("http://example.org:443/", "example.org", 443, "/"),
        ("http://example.org:/", "example.org", 80, "/"),
        ("https://bücher.example/ü?q=ß", "xn--bcher-kva.example", 443, "/%C3%BC?q=%C3%9F"),
        ("https://a_b.example.org/a%20b", "a_b.example.org", 443, "/a%20b"),
        ("https://8.8.8.8/", "8.8.8.8", 443, "/"),
        ("https://[2606:4700:0::1111]/", "2606:4700::1111", 443, "/"),
        ("https://[::ffff:8.8.8.8]/", "::ffff:808:808", 443, "/"),
        # These only look like places inside: which addresses they have is asked when they are called.
        ("https://127.0.0.1.example.org/", "127.0.0.1.example.org", 443, "/"),
        ("https://localhost.example.org/", "localhost.example.org", 443, "/"),
        ("https://10.example.org/", "10.example.org", 443, "/"),
        ("https://0x7f.1e/", "0x7f.1e", 443, "/"),
        ("https://example.org/@127.0.0.1", "example.org", 443, "/@127.0.0.1"),
        ("https://example.org/?u=http://127.0.0.1/", "example.org", 443, "/?u=http://127.0.0.1/"),
    ],
)
def test_a_url_is_read_in_one_spelling(url: str, host: str, port: int, path: str) -> None:
    target = EgressRules().admit(url)

    assert (target.host, target.port, target.path) == (host, port, path)
    assert EgressRules().admit(target.url) == target


# ------------------------------------------------------------------------------- hosts and ports


@pytest.mark.parametrize(
    ("allow", "host", "is_allowed"),
    [
        (("docs.python.org",), "docs.python.org", True),
        (("docs.python.org",), "DOCS.python.org.", True),
        (("docs.python.org",), "evil-docs.python.org", False),
        (("docs.python.org",), "docs.python.org.evil.example", False),
        (("*.example.org",), "a.example.org", True),
        (("*.example.org",), "a.b.example.org", True),
        (("*.example.org",), "example.org", False),
        (("*.example.org",), "evilexample.org", False),
        (("bücher.example",), "xn--bcher-kva.example", True),
        (("8.8.8.8",), "8.8.8.8", True),
        (("8.8.8.8",), "[::ffff:8.8.8.8]", False),
        ((), "docs.python.org", False),
    ],
)
def test_only_hosts_in_allow_may_be_called(
    allow: tuple[str, ...], host: str, is_allowed: bool
) -> None:
    rules = EgressRules(allow=allow)

    if is_allowed:
        assert rules.admit(f"https://{host}/")
    else:
        assert refused(f"https://{host}/", rules).rule == "host-not-allowed"


def test_a_name_in_allow_does_not_open_a_private_address() -> None:
    rules = EgressRules(allow=("127.0.0.1",))

    assert refused("http://127.0.0.1/", rules).rule == "private-address"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1.", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]"],
)  # fmt: skip
def test_an_address_in_deny_is_refused_in_every_spelling_although_a_range_opens_it(
    host: str,
) -> None:
    rules = EgressRules(deny=("127.0.0.1",), private=("127.0.0.0/8",))

    assert rules.admit("http://127.0.0.2/")
    assert refused(f"http://{host}/", rules).rule == "host-denied"


def test_an_address_that_is_too_long_once_it_is_written_is_told_as_such() -> None:
    error = refused("https://a.example/" + "文" * 8_000)

    assert str(error) == (
        "url: found 72,018 characters once it is written in ASCII; the limit is 8,192; "
        "wanted an address such as https://docs.python.org/3/"
    )
    longest = "https://a.example/" + "x" * (8_192 - len("https://a.example/"))
    assert EgressRules().admit(longest).url == longest


def test_deny_overrules_allow() -> None:
    rules = EgressRules(allow=("*.example.org",), deny=("secret.example.org",))

    assert rules.admit("https://a.example.org/")
    assert refused("https://secret.example.org/", rules).rule == "host-denied"


def test_schemes_and_ports_are_those_of_the_rules() -> None:
    rules = EgressRules(schemes=("https",), ports=(443, 8443))

    assert rules.admit("https://example.org:8443/")
    assert refused("http://example.org:443/", rules).rule == "scheme"
    assert refused("https://example.org:80/", rules).rule == "port"


def test_a_refusal_names_rule_and_host_and_what_would_allow_it_but_not_the_rest_of_the_url() -> (
    None
):
    error = refused("https://a.example/path?token=abc", EgressRules(allow=("docs.python.org",)))

    assert str(error) == (
        "a.example: refused by the rule host-not-allowed: the hosts in allow are: docs.python.org"
    )
    assert (error.rule, error.host) == ("host-not-allowed", "a.example")
    assert "pw" not in str(refused("http://user:pw@example.org/"))


# ------------------------------------------------------------------------------------ the operator


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("closed", "closed"),
        (" closed ", "closed"),
        ("docs.python.org", "operator"),
        ("", "operator"),
        (" , ", "operator"),
        ("example.org,http://x/", "operator"),
        ("example.org,*", "operator"),
        ("open", "operator"),
    ],
)
def test_the_operator_refuses_what_the_rules_of_a_client_allow(
    monkeypatch: pytest.MonkeyPatch, value: str, rule: str
) -> None:
    rules = EgressRules(allow=("example.org",))
    monkeypatch.setenv("WINDLASS_EGRESS", value)

    error = refused("https://example.org/", rules)

    assert error.rule == rule
    assert "WINDLASS_EGRESS" in str(error)


def test_a_list_that_cannot_be_understood_refuses_also_what_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WINDLASS_EGRESS", "example.org, http://x/")

    assert "an entry 2 that is not a host" in str(refused("https://example.org/"))


def test_the_operator_only_narrows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_EGRESS", "*.example.org, 127.0.0.1, docs.python.org")

    assert EgressRules().admit("https://a.example.org/")
    assert refused("http://127.0.0.1/").rule == "private-address"
    assert refused("https://docs.python.org/", EgressRules(allow=())).rule == "host-not-allowed"


# ------------------------------------------------------------------------------- made or refused


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"allow": "docs.python.org"}, "allow"),
        ({"allow": ("*",)}, "allow[0]"),
        ({"allow": ("*.8.8.8.8",)}, "allow[0]"),
        ({"allow": ("a.example", "https://b.example/")}, "allow[1]"),
        ({"allow": ("a.example:80",)}, "allow[0]"),
        ({"allow": (3,)}, "allow[0]"),
        ({"deny": None}, "deny"),
        ({"schemes": ()}, "schemes"),
        ({"schemes": ("ftp",)}, "schemes"),
        ({"schemes": "https"}, "schemes"),
        ({"ports": ()}, "ports"),
        ({"ports": (0,)}, "ports[0]"),
        ({"ports": (80, "443")}, "ports[1]"),
        ({"ports": (True,)}, "ports[0]"),
        ({"private": "10.0.0.0/8"}, "private"),
        ({"private": ("10.0.0.0",)}, "private[0]"),
        ({"private": ("10.0.0.1/8",)}, "private[0]"),
        ({"private": (["10.0.0.0/8"],)}, "private[0]"),
        ({"deny": ("a.example", "[::ffff:127.0.0.1]")}, "deny[1]"),
        ({"deny": ("64:ff9b::7f00:1",)}, "deny[0]"),
        ({"schemes": ([],)}, "schemes"),
        ({"private": ("::ffff:127.0.0.1/128",)}, "private[0]"),
        ({"private": ("fd00::/8", "::ffff:0:0/96")}, "private[1]"),
        ({"private": ("::7f00:1/128",)}, "private[0]"),
        ({"private": ("64:ff9b::/96",)}, "private[0]"),
        ({"private": ("64:ff9b:1::/48",)}, "private[0]"),
        ({"private": ("2002:7f00:1::/48",)}, "private[0]"),
        ({"private": ("2001::/32",)}, "private[0]"),
        ({"max_redirects": -1}, "max_redirects"),
        ({"max_redirects": 1.5}, "max_redirects"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_bytes": 2**40}, "max_bytes"),
        ({"max_bytes": True}, "max_bytes"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"timeout_s": float("inf")}, "timeout_s"),
        ({"timeout_s": None}, "timeout_s"),
    ],
)
def test_a_wrong_rule_is_refused_when_it_is_made(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        EgressRules(**fields)

    assert caught.value.field == f"EgressRules.{field}"


def test_a_range_that_would_open_nothing_is_refused_with_what_to_write() -> None:
    with pytest.raises(ConfigError, match="wanted the IPv4 range"):
        EgressRules(private=("::ffff:10.0.0.0/104",))

    ranges = ("::1/128", "::/127", "::/0", "fd00::/8", "2001:db8::/32")
    assert EgressRules(private=ranges).private == ranges


def test_hosts_are_kept_in_one_spelling() -> None:
    rules = EgressRules(allow=["DOCS.python.org.", "*.Bücher.example"])  # type: ignore[arg-type]  # a list does, too

    assert rules.allow == ("docs.python.org", "*.xn--bcher-kva.example")
