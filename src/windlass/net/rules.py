"""Egress rules: which hosts and addresses may be called, and how much may come back.

Law 1. Rules are checked when they are made, and never change.
Law 2. What is not public is refused, unless a range in `private` opens it. Names do not open addresses.
Law 3. If one of a host's addresses is refused, the host is refused: which one is taken would be chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_network
from math import inf
from typing import Final

import msgspec

from windlass.errors import ConfigError, EgressDenied
from windlass.kernel.value import set_field
from windlass.net.addresses import (
    Address,
    Network,
    address_of,
    judged,
    opens_nothing,
    refusal_of,
)
from windlass.net.operator import check_operator, is_listed, pattern_of
from windlass.net.target import PORTS, Target, shown_host, target_of

_MIB: Final = 1024 * 1024
_MAX_BYTES: Final = 64 * _MIB
_MAX_REDIRECTS: Final = 20
_MAX_TIMEOUT_S: Final = 600.0
_MAX_SHOWN: Final = 5
_HOST: Final = "a host such as docs.python.org or *.example.org"
_RANGE: Final = "a range such as 10.1.0.0/16, or 127.0.0.1/32"
_WRAPPED: Final = "an IPv4 address inside of an IPv6 address is judged as the IPv4 address"


class EgressRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which hosts and addresses may be called, and how much may come back.

    Attributes:
        allow: The hosts that may be called: `docs.python.org`, or `*.example.org` for all below it. None: every host.
        deny: Hosts that may not be called, whatever `allow` says; for an address, also under a name that has it.
        schemes: `https`, `http`, or both.
        ports: The ports that may be called.
        private: Ranges of addresses that may be called although they are not public, such as `10.1.0.0/16`.
        max_redirects: How many redirects a request of `HttpClient` follows.
        max_bytes: How many bytes of an answer `HttpClient` reads, on the wire and unpacked; on the wire, what stands
            around the text may be 1 MiB more.
        timeout_s: How many seconds a request of `HttpClient` may take, with all its redirects.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("https", "http")
    ports: tuple[int, ...] = (80, 443)
    private: tuple[str, ...] = ()
    max_redirects: int = 5
    max_bytes: int = 5 * _MIB
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        """Check each field, and spell hosts in one way."""
        if self.allow is not None:
            set_field(self, "allow", _hosts(self.allow, "allow"))
        set_field(self, "deny", _hosts(self.deny, "deny"))
        _check_not_wrapped(self.deny)
        set_field(self, "schemes", _schemes(self.schemes))
        set_field(self, "ports", _ports(self.ports))
        set_field(self, "private", _ranges(self.private))
        _check_number(self.max_redirects, "max_redirects", 0, _MAX_REDIRECTS)
        _check_number(self.max_bytes, "max_bytes", 1, _MAX_BYTES)
        _check_number(self.timeout_s, "timeout_s", 0.001, _MAX_TIMEOUT_S)

    def admit(self, url: str) -> Target:
        """Return where a URL leads, if it may be called as far as the URL alone can tell.

        Raises:
            EgressDenied: naming the rule, the host, and what would allow it.
        """
        target = target_of(url)
        self.check(target)
        return target

    def check(self, target: Target) -> None:
        """Refuse a target for its scheme, port or host; and for its address, if the host is one.

        Raises:
            EgressDenied: naming the rule, the host, and what would allow it.
        """
        host = target.host
        check_operator(host)
        if target.scheme not in self.schemes:
            raise _denied(host, "scheme", f"{target.scheme} is not in schemes")
        if target.port not in self.ports:
            # In https://user:12345/x@host it is a password, so it is not shown.
            raise _denied(host, "port", f"its port is not in ports: {_listed(self.ports)}")
        if is_listed(host, self.deny):
            raise _denied(host, "host-denied", "the host is in deny")
        if self.allow is not None and not is_listed(host, self.allow):
            allowed = _listed(self.allow) or "no host at all"
            raise _denied(host, "host-not-allowed", f"the hosts in allow are: {allowed}")
        address = address_of(host)
        if address is not None:
            self.check_addresses(host, [address])

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """Refuse a host for one of its addresses.

        Raises:
            EgressDenied: one of them is in `deny`, or not public and not opened.
        """
        opened = _networks(self.private)
        for address in addresses:
            if any(str(one) in self.deny for one in (address, *judged(address))):
                raise _denied(host, "host-denied", "its address is in deny")
            kind = refusal_of(address, opened)
            if kind is not None:
                why = f"the address is not public ({kind}); only a range in private would open it"
                raise _denied(host, "private-address", why)


def _denied(host: str, rule: str, why: str) -> EgressDenied:
    shown = shown_host(host)
    return EgressDenied(f"{shown}: refused by the rule {rule}: {why}", rule=rule, host=shown)


def _listed(items: Iterable[object]) -> str:
    shown = [str(item) for item in items]
    more = f" and {len(shown) - _MAX_SHOWN} more" if len(shown) > _MAX_SHOWN else ""
    return ", ".join(shown[:_MAX_SHOWN]) + more


# --------------------------------------------------------------------------------------- fields


def _items(found: object, field: str) -> tuple[object, ...]:
    if isinstance(found, (tuple, list, set, frozenset)):
        return tuple(found)
    raise ConfigError.at(f"EgressRules.{field}", type(found).__name__, "a tuple")


def _hosts(found: object, field: str) -> tuple[str, ...]:
    hosts = []
    for place, item in enumerate(_items(found, field)):
        pattern = pattern_of(item)
        if pattern is None:
            told = shown_host(item) if isinstance(item, str) else type(item).__name__
            raise ConfigError.at(f"EgressRules.{field}[{place}]", told, _HOST)
        hosts.append(pattern)
    return tuple(hosts)


def _check_not_wrapped(deny: Iterable[str]) -> None:
    for place, host in enumerate(deny):
        address = address_of(host)
        if address is not None and address not in judged(address):
            wanted = f"the IPv4 address: {_WRAPPED}"
            raise ConfigError.at(f"EgressRules.deny[{place}]", host, wanted)


def _schemes(found: object) -> tuple[object, ...]:
    schemes = _items(found, "schemes")
    if not schemes or not all(isinstance(one, str) and one in PORTS for one in schemes):
        raise ConfigError.at("EgressRules.schemes", "other ones", "https, http or both")
    return schemes


def _ports(found: object) -> tuple[object, ...]:
    ports = _items(found, "ports")
    for place, port in enumerate(ports):
        if type(port) is not int or not 1 <= port <= 65_535:
            told = port if type(port) is int else type(port).__name__
            raise ConfigError.at(f"EgressRules.ports[{place}]", told, "a port from 1 to 65,535")
    if not ports:
        raise ConfigError.at("EgressRules.ports", "none", "the ports that may be called")
    return ports


def _check_number(found: object, field: str, low: float, high: float) -> None:
    is_number = isinstance(found, int if isinstance(low, int) else (int, float))
    if not is_number or isinstance(found, bool) or not low <= found <= high:  # type: ignore[operator]  # a number
        shown = found if is_number and abs(found) < inf else type(found).__name__  # type: ignore[arg-type]  # a number
        raise ConfigError.at(f"EgressRules.{field}", shown, f"{low:,} to {high:,}")


def _ranges(found: object) -> tuple[object, ...]:
    ranges = _items(found, "private")
    for place, item in enumerate(ranges):
        if not isinstance(item, str) or not _is_range(item):
            told = shown_host(item) if isinstance(item, str) else type(item).__name__
            raise ConfigError.at(f"EgressRules.private[{place}]", told, _RANGE)
        if opens_nothing(ip_network(item)):
            wanted = f"the IPv4 range: {_WRAPPED}"
            raise ConfigError.at(f"EgressRules.private[{place}]", item, wanted)
    return ranges


def _is_range(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return "/" in text


@lru_cache(maxsize=64)
def _networks(private: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(map(ip_network, private))
