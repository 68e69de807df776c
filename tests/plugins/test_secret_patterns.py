"""Patterns: what gives people and secrets away is found, what only looks like it is not, and no text takes long."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.plugins.secret_patterns import DEFAULTS, KINDS, Patterns

ALL = Patterns(KINDS, {})
# Written in two halves, so that nobody who looks for keys in source finds one here.
GITHUB = "ghp_" + "a1B2" * 9
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
OPENAI = "sk-" + "proj-" + "abcDEF1234567890abcd"
ANTHROPIC = "sk-" + "ant-api03-" + "abcDEF1234567890abcd"
SLACK = "xoxb-" + "1234567890-abcdefghij"
GOOGLE = "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"


# What some pattern looks for before it begins at all.
TRACES = (
    " 0123456789 @ + . : :// sk- sk-ant- gh github_pat_ xox hooks.slack.com akia aiza ya29. gocspx- eyj private key"
    " authorization bearer passw passphrase pwd secret key token glpat- npm_ hf_ k_live_ k_test_ sg. xapp- "
)


def found(text: str, patterns: Patterns = ALL) -> list[tuple[str, str]]:
    return [(hit.kind, text[hit.start : hit.end]) for hit in patterns.hits(text)]


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        ("email", "bob@example.com"),
        ("email", "bob.o'neil@example.co.uk".replace("o'n", "on")),
        ("email", "Bob+tag%x@mail-1.Example.COM"),
        ("email", "jörg@müller.de"),
        ("email", "用户@例子.中国"),
        ("phone", "+49 30 1234567"),
        ("phone", "+49 (0)30 123 45 67"),
        ("phone", "+1-415-555-2671"),
        ("phone", "+1.415.555.2671"),
        ("phone", "+4915112345678"),
        ("card", "4111 1111 1111 1111"),
        ("card", "4111-1111-1111-1111"),
        ("card", "5555555555554444"),
        ("card", "2223003122003222"),
        ("card", "3782 822463 10005"),
        ("card", "6011111111111117"),
        ("iban", "DE89370400440532013000"),
        ("iban", "DE89 3704 0044 0532 0130 00"),
        ("iban", "GB82 WEST 1234 5698 7654 32"),
        ("iban", "NO93 8601 1117 947"),
        ("iban", "FR14 2004 1010 0505 0001 3M02 606"),
        ("ipv4", "192.168.0.1"),
        ("ipv6", "2001:db8::ff00:42:8329"),
        ("ipv6", "::1"),
        ("ipv6", "2001:0db8:0000:0000:0000:ff00:0042:8329"),
        ("aws-key", AWS),
        ("github-token", GITHUB),
        ("github-token", "github_pat_" + "11ABCDEFG0abcdefghijkl_mnop"),
        ("slack-token", SLACK),
        ("slack-token", "xapp-" + "1-A0123456789-abcdef"),
        ("gitlab-token", "glpat-" + "abcdefghij0123456789"),
        ("npm-token", "npm_" + "a1B2" * 9),
        ("huggingface-token", "hf_" + "aBcD" * 9),
        ("stripe-key", "sk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc"),
        ("stripe-key", "rk_" + "test_" + "4eC39HqLyjWDarjt"),
        ("sendgrid-key", "SG." + "abcdefghijklmnopqrstuv." + "ABCDEFGHIJKLMNOPqrst-_uv"),
        ("openai-key", OPENAI),
        ("anthropic-key", ANTHROPIC),
        ("google-key", GOOGLE),
        ("google-key", "ya29." + "a0AfH6SMBx1234567890abc"),
        ("jwt", JWT),
        ("private-key", PEM),
        ("private-key", PEM.replace("\n", "\\n")),
        ("private-key", PEM[:50]),  # cut in the middle: all that is left of it
    ],
    ids=lambda one: one[:20].replace("\n", " "),
)
@pytest.mark.parametrize("around", ["{}", "see {} here", "<{}>", '"{}"', "({})", "at:\n{}\n"])
def test_this_is_found(kind: str, secret: str, around: str) -> None:
    if kind == "private-key" and "END" not in secret:
        assert found(f"a {secret}, and more") == [(kind, f"{secret}, and more")]
        return
    assert found(around.format(secret)) == [(kind, secret)]


@pytest.mark.parametrize(
    ("text", "kind", "secret"),
    [
        ("password=hunter2", "password", "hunter2"),
        ("DB_PASSWORD: hunter2, x", "password", "hunter2"),
        ('{"password": "hunter two", "b": 1}', "password", "hunter two"),
        ('{"password": "a\\"b"}', "password", 'a\\"b'),
        ('"{\\"password\\": \\"hunter2\\", \\"b\\": 1}"', "password", "hunter2"),
        ("pwd='it is a secret'", "password", "it is a secret"),
        ("client_secret=abc&x=1", "password", "abc"),
        ("aws_secret_access_key = wJalr/XUtn+FEMI", "password", "wJalr/XUtn+FEMI"),
        ("api-key: 1234", "password", "1234"),
        ("access_token=abc.def", "password", "abc.def"),
        ("SLACK_BOT_TOKEN=abc", "password", "abc"),
        ('{"api_token": "abc"}', "password", "abc"),
        ("password=nullify", "password", "nullify"),
        ("postgres://bob:s3cret@db.example.com/x", "password", "s3cret"),
        ("redis://:s3cret@localhost", "password", "s3cret"),
        ("Authorization: Bearer abc.def", "authorization", "abc.def"),
        ("authorization: Basic Ym9iOng=", "authorization", "Ym9iOng="),
        ('{"Authorization": "Token 12345"}', "authorization", "12345"),
        ("curl -H 'Authorization: abcdef' x", "authorization", "abcdef"),
        ("Bearer abcdefghijklmnop1", "authorization", "abcdefghijklmnop1"),
        (f"Authorization: Bearer {JWT}", "jwt", JWT),  # the first that hits gives the name
        (f"password={OPENAI}", "openai-key", OPENAI),
        ("password=4111 1111 1111 1111", "password", "4111 1111 1111 1111"),
        ("https://hooks.slack.com/services/T0/B0/x1y2", "slack-webhook", "T0/B0/x1y2"),
        ("1234 4111 1111 1111 1111", "card", "4111 1111 1111 1111"),
        ("2235 4111 1111 1111 1111", "card", "4111 1111 1111 1111"),
        ("4111 1111 1111 1111 123", "card", "4111 1111 1111 1111"),  # and its code
        ("DE89 3704 0044 0532 0130 00 AND MORE", "iban", "DE89 3704 0044 0532 0130 00"),
        ("ping 10.0.0.1.", "ipv4", "10.0.0.1"),
        ("Mail to bob@example.com.", "email", "bob@example.com"),
    ],
)
def test_of_a_longer_text_this_is_meant(text: str, kind: str, secret: str) -> None:
    assert found(text) == [(kind, secret)]


@pytest.mark.parametrize(
    "text",
    [
        "react@18.2.0",
        "a@b",
        "@mention and @other.one",
        "x = a@b.T",
        "+1.23456789",
        "1e+1000000000",
        "030 1234567",
        "4111 1111 1111 1112",  # a wrong check digit
        "1234567890123452",  # right, but no brand begins so
        "1700000000000",
        "0.4111111111111111",
        "DE88 3704 0044 0532 0130 00",
        "XX89 3704 0044 0532 0130 00",
        "DE893704004405320130001",
        "1.2.3",
        "1.2.3.4.5",
        "256.1.1.1",
        "12:30:45",
        "std::vector",
        "task-abcdefghijklmnopqrstuvwxyz1",
        "sk-fading-circle-and-more-words",
        "AKIASHORT",
        "ghp_short",
        "eyJhbGciOiJIUzI1NiJ9",
        "-----BEGIN PUBLIC KEY-----",
        "the password is not told",
        "tokens: 512",
        "a bearer of responsibilities",
        "https://example.com:8080/a@b",
        "secretary: Bob",
        '{"password": null, "api_key": false}',
        "password=None",
        "origin git@github.com:ada/engine.git",
        "hf_hub_download",
        "npm_config_registry",
        "",
        "é" * 50,
    ],
)
def test_this_is_left_alone(text: str) -> None:
    assert found(text) == []


def test_addresses_of_machines_are_left_alone_unless_asked_for() -> None:
    assert found("10.0.0.1 ::1 bob@example.com", Patterns(DEFAULTS, {})) == [
        ("email", "bob@example.com")
    ]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("password", "password"),
        ("db_password", "password"),
        ("userPassword", "password"),
        ("apiKey", "password"),
        ("client_secret", "password"),
        ("Authorization", "authorization"),
        ("password_hint", None),
        ("tokens", None),
        ("name", None),
    ],
)
def test_some_keys_say_what_is_under_them(key: str, kind: str | None) -> None:
    assert ALL.kind_of_key(key) == kind
    assert Patterns(["email"], {}).kind_of_key(key) is None


# Each of these makes some pattern begin, and fail, at every step. A pattern that looks back takes hours for them.
@pytest.mark.parametrize(
    "piece",
    [
        "a@", "a@a.", "x.com@", "a", "1", "1 ", "4111 1111 ", "4111-", "DE89 ", "DE89", "sk-", "sk-a", "eyJ",
        "eyJaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "password ", "password=", 'password="',
        'password=\\"', "authorization: ", "bearer ", "bearer a", "+1", "+1 ", "+", "a:", "::", "1.", "255.", "://",
        "://a:", "ghp_", "github_pat_", "xoxb-", "AKIA", "AIza", "ya29.", "\n", " ", "bob@x.com ", "secret_access_key",
        "hooks.slack.com/services/T", "sk_live_", "SG.", "SG.aaaaaaaaaaaaaaaa.", "glpat-", "npm_", "hf_", "git@",
        "password=null", "a@a.é",
    ],
)  # fmt: skip
def test_no_text_takes_longer_than_its_length(piece: str) -> None:
    check(piece, 2**18)


@pytest.mark.parametrize("piece", ["a@", "bob@x.com ", "sk-a", "password="])
def test_a_mebibyte_is_looked_through(piece: str) -> None:
    check(piece, 2**20)


def check(piece: str, n_chars: int) -> None:
    """Look through a long text; what is said of it at the end is less than that there is an end."""
    text = (piece * (n_chars // len(piece) + 1))[: n_chars - len(TRACES)] + TRACES

    hits = ALL.hits(text)

    assert all(0 <= one.start < one.end <= n_chars for one in hits)
    assert all(one.end <= other.start for one, other in pairwise(hits))


@given(st.text(st.sampled_from("a1@.:=+- \n\"'\\/_[]D8sk4"), max_size=200))
def test_hits_are_in_order_and_none_is_over_another(text: str) -> None:
    hits = ALL.hits(text)

    assert all(0 <= one.start < one.end <= len(text) for one in hits)
    assert all(one.end <= other.start for one, other in pairwise(hits))
