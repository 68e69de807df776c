"""What is private is not reached: a server that must not be called counts who came, and it is nobody."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.net.web_site import HOME, Site, moved, page, resolver_of
from windlass.errors import EgressDenied, NetworkError
from windlass.net import EgressRules, HttpClient

NAMES = {
    "localhost": ["::1", "127.0.0.1"],
    "loopback.example": ["127.0.0.1"],
    "loopback6.example": ["::1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "both.example": ["93.184.215.14", "127.0.0.1"],
    "both6.example": ["::1", "93.184.215.14"],
    "metadata.example": ["169.254.169.254"],
    "any.example": ["0.0.0.0"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "scoped.example": ["fe80::1%lo"],
    "nothing.example": [],
    "nonsense.example": ["localhost"],
    "half.example": ["93.184.215.14", "not an address"],
    "127.0.0.1.nip.example": ["127.0.0.1"],
}


@pytest.fixture
async def inside() -> AsyncIterator[Site]:
    """A server on 127.0.0.1, which no rule opens."""
    async with Site({"/": page(b"the crown jewels")}, host="127.0.0.1") as site:
        yield site


@pytest.fixture
async def outside() -> AsyncIterator[Site]:
    """A server that stands for the web: its address is opened."""
    async with Site() as site:
        yield site


def client_of(
    *sites: Site, names: dict[str, Sequence[str] | Sequence[Sequence[str]]] | None = None
) -> tuple[HttpClient, list[str]]:
    resolver, asked = resolver_of(names or NAMES)
    ports = (80, 443, *(site.port for site in sites))
    rules = EgressRules(private=(f"{HOME}/32",), ports=ports, timeout_s=20)
    return HttpClient(rules, resolver=resolver), asked


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://127.0.0.1.:{port}/",
        "http://localhost:{port}/",
        "http://LOCALHOST:{port}/",
        "http://localhost.:{port}/",
        "http://127.1:{port}/",
        "http://127.0.1:{port}/",
        "http://2130706433:{port}/",
        "http://017700000001:{port}/",
        "http://0x7f000001:{port}/",
        "http://0x7f.1:{port}/",
        "http://0177.0.0.1:{port}/",
        "http://00000177.0.0.1:{port}/",
        "http://0:{port}/",
        "http://0.0.0.0:{port}/",
        "http://127.0.0.1%2f:{port}/",
        "http://127%2e0.0.1:{port}/",
        "http://127。0。0。1:{port}/",
        "http://\uff11\uff12\uff17.0.0.1:{port}/",
        "http://①②⑦.⓪.⓪.①:{port}/",
        "http://127.0.0.1\t:{port}/",
        "http://127.0.0.1\\@example.org:{port}/",
        "http://example.org@127.0.0.1:{port}/",
        "http://user:pw@127.0.0.1:{port}/",
        "http://[::1]:{port}/",
        "http://[0000::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://[::ffff:7f00:1]:{port}/",
        "http://[::127.0.0.1]:{port}/",
        "http://[::]:{port}/",
        "http://[::1%25lo]:{port}/",
        "http://[64:ff9b::127.0.0.1]:{port}/",
        "http://[64:ff9b:1::127.0.0.1]:{port}/",
        "http://[2002:7f00:1::]:{port}/",
        "http://[2001::80ff:fefe]:{port}/",
        "http://[fe80::1]:{port}/",
        "http://[fd00:ec2::254]:{port}/",
        "http://169.254.169.254:{port}/latest/meta-data/",
        "http://100.100.100.200:{port}/",
        "http://loopback.example:{port}/",
        "http://loopback6.example:{port}/",
        "http://mapped.example:{port}/",
        "http://both.example:{port}/",
        "http://both6.example:{port}/",
        "http://metadata.example:{port}/",
        "http://any.example:{port}/",
        "http://nat64.example:{port}/",
        "http://scoped.example:{port}/",
        "http://127.0.0.1.nip.example:{port}/",
        "https://127.0.0.1:{port}/",
        "ftp://127.0.0.1:{port}/",
        "gopher://127.0.0.1:{port}/_x",
    ],
)
async def test_no_spelling_reaches_what_is_private(inside: Site, url: str) -> None:
    client, _ = client_of(inside)

    with pytest.raises(EgressDenied):
        await client.get(url.format(port=inside.port))
    assert await inside.n_callers() == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://nothing.example:{port}/",
        "http://nonsense.example:{port}/",
        "http://half.example:{port}/",
        "http://unheard-of.example#@127.0.0.1:{port}/",
    ],
)
async def test_a_host_without_an_address_that_can_be_judged_is_not_called(
    inside: Site, url: str
) -> None:
    client, _ = client_of(inside)

    with pytest.raises(NetworkError, match="no address is known for this host"):
        await client.get(url.format(port=inside.port))
    assert await inside.n_callers() == 0


@pytest.mark.parametrize(
    "found",
    [None, b"127.0.0.2", [b"127.0.0.2"], [2130706434], [None], "127.0.0.2", 7, ValueError("no"), OSError("no")],
    ids=repr,
)  # fmt: skip
async def test_what_is_no_list_of_addresses_is_no_address(outside: Site, found: object) -> None:
    async def resolver(_host: str, _port: int) -> Any:  # noqa: ANN401 - the fault
        if isinstance(found, Exception):
            raise found
        return found

    client = HttpClient(outside.rules(), resolver=resolver)

    with pytest.raises(NetworkError, match=r"odd\.example: .*address"):
        await client.get(outside.url(host="odd.example"))
    assert await outside.n_callers() == 0


HANGING_LOOKUP = """
import asyncio, socket, threading
from windlass.net import HttpClient, NetworkError, EgressRules

socket.getaddrinfo = lambda *args, **more: threading.Event().wait()

async def main():
    try:
        await HttpClient(EgressRules(timeout_s=1)).get("http://hangs.example/")
    except NetworkError:
        print("given up")

asyncio.run(main())
print("ended")
"""


def test_a_lookup_that_hangs_does_not_hold_up_the_end_of_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING_LOOKUP],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=True,
    )

    assert done.stdout == "given up\nended\n"


async def test_the_system_resolver_is_judged_like_any_other(inside: Site) -> None:
    client = HttpClient(EgressRules(ports=(inside.port,)))

    with pytest.raises(EgressDenied) as caught:
        await client.get(f"http://localhost:{inside.port}/")
    assert caught.value.rule == "private-address"
    assert await inside.n_callers() == 0


async def test_the_server_inside_can_be_reached_by_those_for_whom_it_is_opened(
    inside: Site,
) -> None:
    resolver, _ = resolver_of(NAMES)
    rules = EgressRules(private=("127.0.0.0/8",), ports=(inside.port,))

    fetched = await HttpClient(rules, resolver=resolver).get(
        f"http://loopback.example:{inside.port}/"
    )

    assert fetched.body == b"the crown jewels"
    assert await inside.n_callers() == 1


@pytest.mark.parametrize("found", ["127.0.0.1", "::ffff:127.0.0.1"])
async def test_a_name_does_not_reach_an_address_in_deny(inside: Site, found: str) -> None:
    resolver, _ = resolver_of({"named.example": [found]})
    rules = EgressRules(deny=("127.0.0.1",), private=("127.0.0.0/8",), ports=(inside.port,))

    with pytest.raises(EgressDenied) as caught:
        await HttpClient(rules, resolver=resolver).get(f"http://named.example:{inside.port}/")
    assert caught.value.rule == "host-denied"
    assert await inside.n_callers() == 0


# --------------------------------------------------------------------------------- DNS rebinding


async def test_a_name_is_resolved_once_and_the_connection_goes_where_it_was_judged(
    inside: Site, outside: Site
) -> None:
    outside.answers["/"] = page(b"hello")
    client, asked = client_of(
        inside, outside, names={"rebind.example": [[HOME], ["127.0.0.1"], ["127.0.0.1"]]}
    )

    fetched = await client.get(f"http://rebind.example:{outside.port}/")

    assert fetched.body == b"hello"
    assert asked == ["rebind.example"]
    assert await inside.n_callers() == 0


async def test_a_redirect_to_the_same_name_is_judged_by_its_new_address(
    inside: Site, outside: Site
) -> None:
    outside.answers["/"] = moved(f"http://rebind.example:{inside.port}/")
    client, asked = client_of(
        inside, outside, names={"rebind.example": [[HOME], ["127.0.0.1"]]}
    )  # fmt: skip

    with pytest.raises(EgressDenied) as caught:
        await client.get(f"http://rebind.example:{outside.port}/")
    assert caught.value.rule == "private-address"
    assert asked == ["rebind.example", "rebind.example"]
    assert await inside.n_callers() == 0


async def test_an_address_that_does_not_answer_is_followed_by_the_next(outside: Site) -> None:
    outside.answers["/"] = page(b"hello")
    resolver, _ = resolver_of({"two.example": ["127.0.0.3", HOME]})
    rules = outside.rules(private=("127.0.0.2/31",))

    fetched = await HttpClient(rules, resolver=resolver).get(outside.url(host="two.example"))

    assert fetched.body == b"hello"


# ------------------------------------------------------------------------------------- redirects


@pytest.mark.parametrize(
    ("to", "rule"),
    [
        ("http://127.0.0.1:{port}/", "private-address"),
        ("//127.0.0.1:{port}/", "private-address"),
        ("http://localhost:{port}/", "private-address"),
        ("http://loopback.example:{port}/", "private-address"),
        ("http://both.example:{port}/", "private-address"),
        ("http://[::ffff:127.0.0.1]:{port}/", "private-address"),
        ("http://169.254.169.254/latest/meta-data/", "private-address"),
        ("http://2130706433:{port}/", "host"),
        ("http://127.1:{port}/", "host"),
        ("http://user:pw@127.0.0.1:{port}/", "credentials"),
        ("http://example.org:80@127.0.0.1:{port}/", "credentials"),
        ("\\\\127.0.0.1:{port}/", "url"),
        ("/\\127.0.0.1:{port}/", "url"),
        ("http://127.0.0.1:{port}/\tx", "url"),
        ("http://[::1", "url"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://127.0.0.1:{port}/", "scheme"),
        ("http://example.org:22/", "port"),
        ("/again", "redirects"),
        ("", "redirects"),
    ],
)
@pytest.mark.parametrize("status", [301, 307])
async def test_each_redirect_is_a_new_check(
    inside: Site, outside: Site, to: str, rule: str, status: int
) -> None:
    outside.answers["/"] = moved("/again", status)
    outside.answers["/again"] = moved(to.format(port=inside.port), status)
    if not to:
        outside.answers["/again"] = moved("/", status)
    client, _ = client_of(inside, outside)

    with pytest.raises(EgressDenied) as caught:
        await client.get(outside.url("/"))
    assert caught.value.rule == rule
    if rule != "redirects":
        begin = f"{HOME}: redirects to an address that may not be called: "
        assert str(caught.value).startswith(begin)
        assert caught.value.field == "location"
    assert await inside.n_callers() == 0
    assert [seen.target for seen in outside.requests][:2] == ["/", "/again"]


@pytest.mark.parametrize(("n", "is_followed"), [(5, True), (6, False)])
async def test_five_redirects_are_followed_and_a_sixth_is_not(
    outside: Site, n: int, is_followed: bool
) -> None:
    outside.answers = {f"/{place}": moved(str(place + 1)) for place in range(n)}
    outside.answers[f"/{n}"] = page(b"there")

    if is_followed:
        fetched = await outside.client().get(outside.url("/0"))
        assert (fetched.body, fetched.url) == (b"there", outside.url(f"/{n}"))
    else:
        with pytest.raises(EgressDenied) as caught:
            await outside.client().get(outside.url("/0"))
        assert caught.value.rule == "redirects"
    assert len(outside.requests) == 6


# ----------------------------------------------------------------------------- the environment


async def test_the_operator_closes_a_client_that_was_made_before(
    outside: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside.answers["/"] = page(b"hello")
    client = outside.client()
    assert (await client.get(outside.url("/"))).body == b"hello"

    monkeypatch.setenv("WINDLASS_EGRESS", "closed")
    with pytest.raises(EgressDenied) as caught:
        await client.get(outside.url("/"))
    assert caught.value.rule == "closed"
    monkeypatch.setenv("WINDLASS_EGRESS", f"docs.python.org,{HOME}")
    assert (await client.get(outside.url("/"))).body == b"hello"
    assert await outside.n_callers() == 2


async def test_no_proxy_and_no_password_come_from_the_environment(
    inside: Site, outside: Site, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:  # fmt: skip
    outside.answers["/"] = page(b"hello")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{inside.port}")
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text(f"machine {HOME} login me password secret-word\n")
    monkeypatch.setenv("NETRC", str(netrc))

    fetched = await outside.client().get(outside.url("/"))

    assert fetched.body == b"hello"
    assert "authorization" not in outside.requests[0].headers
    assert await inside.n_callers() == 0


# ------------------------------------------------------------------------------ planted: no checks


async def test_a_client_that_judges_only_the_url_is_caught_by_a_name(inside: Site) -> None:
    """What `rules.admit` alone would let through, the connection refuses: so a test of both is needed."""
    client, _ = client_of(inside)
    url = f"http://loopback.example:{inside.port}/"

    assert client.rules.admit(url).host == "loopback.example"
    with pytest.raises(EgressDenied):
        await client.get(url)
    assert await inside.n_callers() == 0
