"""TLS: the connection goes to an address, and the certificate is still checked against the name."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.net.web_site import HOME, Site, moved, page, resolver_of
from windlass.errors import EgressDenied, NetworkError
from windlass.net import EgressRules, HttpClient, transport

BEGIN, END = dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2200, 1, 1, tzinfo=dt.UTC)
NAMES = {
    "right.example": [HOME],
    "wrong.example": [HOME],
    "expired.example": [HOME],
}


def name_of(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """Signs certificates, as the ones do that a system trusts."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = name_of("An authority for tests")
        made = self._builder(self.name, self.key, END)
        only_signs = x509.BasicConstraints(ca=True, path_length=None)
        signed = made.add_extension(only_signs, critical=True).sign(self.key, hashes.SHA256())
        self.pem = signed.public_bytes(serialization.Encoding.PEM).decode()

    def server(
        self, folder: Path, host: str, end: dt.datetime = END, address: str | None = None
    ) -> ssl.SSLContext:
        """Return what a server of this name shows."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName(host)]
        if address:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        made = self._builder(name_of(host), key, end)
        signed = made.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(
            self.key, hashes.SHA256()
        )
        pem = folder / f"{host}.pem"
        pem.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + signed.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        return context

    def trusted(self) -> ssl.SSLContext:
        """Return what trusts this authority alone."""
        return ssl.create_default_context(cadata=self.pem)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, end: dt.datetime
    ) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        return builder.not_valid_before(BEGIN).not_valid_after(end)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def asked() -> list[str | None]:
    """The names that clients asked for in TLS."""
    return []


@pytest.fixture
async def site(
    authority: Authority, tmp_path: Path, asked: list[str | None]
) -> AsyncIterator[Site]:
    context = authority.server(tmp_path, "right.example")
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with Site({"/": page(b"hello")}, tls=context) as made:
        yield made


def client_of(site: Site, authority: Authority, *more: int) -> HttpClient:
    resolver, _ = resolver_of(NAMES)
    rules = site.rules(ports=(site.port, *more))
    return HttpClient(rules, resolver=resolver, tls=authority.trusted())


async def test_the_name_is_sent_and_checked_though_the_connection_goes_to_an_address(
    site: Site, authority: Authority, asked: list[str | None]
) -> None:
    fetched = await client_of(site, authority).get(site.url(host="right.example"))

    assert fetched.body == b"hello"
    assert asked == ["right.example"]


async def test_a_certificate_of_another_name_is_refused(site: Site, authority: Authority) -> None:
    with pytest.raises(NetworkError) as caught:
        await client_of(site, authority).get(site.url("/?token=1", host="wrong.example"))

    told = str(caught.value)
    assert told.startswith("wrong.example: its certificate is refused (Hostname mismatch")
    assert "token" not in told
    assert site.requests == []


async def test_an_address_is_not_a_name(site: Site, authority: Authority) -> None:
    with pytest.raises(NetworkError, match="its certificate is refused"):
        await client_of(site, authority).get(site.url())


async def test_a_certificate_may_be_for_an_address(authority: Authority, tmp_path: Path) -> None:
    context = authority.server(tmp_path, "other.example", address=HOME)
    async with Site({"/": page(b"hello")}, tls=context) as site:
        fetched = await client_of(site, authority).get(site.url())

    assert fetched.body == b"hello"


async def test_a_certificate_that_nobody_trusts_or_that_is_over_is_refused(
    site: Site, authority: Authority, tmp_path: Path
) -> None:
    resolver, _ = resolver_of(NAMES)
    client = HttpClient(site.rules(), resolver=resolver)
    with pytest.raises(NetworkError, match=r"its certificate is refused \(unable to get local"):
        await client.get(site.url(host="right.example"))
    over = dt.datetime(2021, 1, 1, tzinfo=dt.UTC)
    context = authority.server(tmp_path, "expired.example", over)
    async with Site({"/": page(b"hello")}, tls=context) as old:
        with pytest.raises(NetworkError, match="certificate has expired"):
            await client_of(old, authority).get(old.url(host="expired.example"))


async def test_authorities_do_not_come_from_the_environment(
    site: Site, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    resolver, _ = resolver_of(NAMES)

    with pytest.raises(NetworkError, match="its certificate is refused"):
        await HttpClient(site.rules(), resolver=resolver).get(site.url(host="right.example"))


async def test_https_does_not_become_http(site: Site, authority: Authority) -> None:
    async with Site({"/": page(b"read along")}) as plain:
        site.answers["/"] = moved(plain.url(host="right.example"))
        with pytest.raises(EgressDenied) as caught:
            await client_of(site, authority, plain.port).get(site.url(host="right.example"))

        assert caught.value.rule == "downgrade"
        assert await plain.n_callers() == 0


async def test_http_may_become_https(site: Site, authority: Authority) -> None:
    async with Site({"/": moved(site.url(host="right.example"))}) as plain:
        fetched = await client_of(site, authority, plain.port).get(plain.url())

    assert fetched.body == b"hello"


async def test_a_client_cannot_ask_for_another_name_in_tls(
    site: Site, authority: Authority, asked: list[str | None]
) -> None:
    resolver, _ = resolver_of(NAMES)
    door = transport(site.rules(), resolver=resolver, tls=authority.trusted())
    async with httpx2.AsyncClient(transport=door) as client:
        url = site.url(host="right.example")
        answer = await client.get(url, extensions={"sni_hostname": "intranet.example"})

    assert answer.text == "hello"
    assert asked == ["right.example"]


async def test_a_server_that_speaks_no_tls_is_an_error(authority: Authority) -> None:
    def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        writer.close()

    async with await asyncio.start_server(greet, HOME, 0) as server:
        port = server.sockets[0].getsockname()[1]
        rules = EgressRules(private=(f"{HOME}/32",), ports=(port,))
        with pytest.raises(NetworkError, match="no connection could be made"):
            await HttpClient(rules, tls=authority.trusted()).get(f"https://{HOME}:{port}/")
