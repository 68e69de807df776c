"""IP addresses: which of them are public, whatever they are wrapped in.

Law 1. An IPv6 address is public only if it is in the range from which public ones are given out: what is not known is
    refused.
Law 2. An IPv4 address inside of an IPv6 address is judged as the IPv4 address.
Law 3. An address has one spelling. Another one is not read as an address, so that no two readers can differ.

The ranges are those of the special-purpose registries of IANA (RFC 6890). Some of them can be reached all the same,
such as the relays of AMT in IPv6; they are refused, because no page is served from them.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

METADATA: Final[frozenset[Address]] = frozenset({
    IPv4Address("169.254.169.254"),  # most clouds
    IPv4Address("169.254.170.2"),  # containers of AWS
    IPv4Address("169.254.170.23"),
    IPv4Address("169.254.0.23"),  # Tencent
    IPv4Address("169.254.42.42"),  # Scaleway
    IPv4Address("100.100.100.200"),  # Alibaba
    IPv4Address("168.63.129.16"),  # Azure: a public address, served by each host to its guests
    IPv4Address("192.0.0.192"),  # Oracle
    IPv6Address("fd00:ec2::254"),  # AWS
    IPv6Address("fd00:ec2::23"),
    IPv6Address("fd20:ce::254"),  # Google
    IPv6Address("fd00:c1::a9fe:a9fe"),  # Oracle
    IPv6Address("fe80::a9fe:a9fe"),  # OpenStack
    IPv6Address("fd00:42::42"),  # Scaleway
    IPv6Address("fd00:a9fe:a9fe::1"),  # Linode
    IPv6Address("fd00:100::100:200"),  # Alibaba
})  # fmt: skip
"""Where clouds hand keys to their guests. A range does not open these, only an entry for the one address."""

_IPV4: Final = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_IPV6: Final = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("2001:2::/48", "benchmarking"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
        ("2001::/23", "reserved"),
    )
)
_GIVEN_OUT: Final = IPv6Network("2000::/3")
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_COMPATIBLE: Final = IPv6Network("::/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL: Final = IPv6Network("64:ff9b:1::/48")
_TEREDO: Final = IPv6Network("2001::/32")
_6TO4: Final = IPv6Network("2002::/16")
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
_LOW: Final = 0xFFFF_FFFF


def address_of(text: str) -> Address | None:
    """Return the address that a text is; None if it is not one in its usual spelling."""
    try:
        return IPv6Address(text) if ":" in text else IPv4Address(text)
    except ValueError:
        return None


def judged(address: Address) -> tuple[Address, ...]:
    """Return what has to be public for an address to be public: mostly the address itself."""
    if isinstance(address, IPv4Address):
        return (address,)
    bits = int(address)
    if address in _NAT64_LOCAL:
        return _of_local_nat64(bits)
    inside: tuple[Address, ...] = ()
    if address in _6TO4:
        inside = (IPv4Address(bits >> 80 & _LOW),)
    elif address in _TEREDO:
        inside = (IPv4Address(bits >> 64 & _LOW), IPv4Address(~bits & _LOW))
    elif address in _MAPPED or address in _NAT64 or (address in _COMPATIBLE and bits > 1):
        inside = (IPv4Address(bits & _LOW),)
    elif (bits >> 32 & _LOW) in _ISATAP:
        inside = (address, IPv4Address(bits & _LOW))
    return inside or (address,)


def opens_nothing(network: Network) -> bool:
    """Whether a range opens no address, because all in it are judged as the IPv4 addresses inside of them."""
    if isinstance(network, IPv4Network):
        return False
    is_compatible = network.subnet_of(_COMPATIBLE) and int(network.broadcast_address) > 1
    return is_compatible or any(
        network.subnet_of(wrapped) for wrapped in (_MAPPED, _NAT64, _NAT64_LOCAL, _TEREDO, _6TO4)
    )


def kind_of(address: Address) -> str | None:
    """Return the kind of an address that is not public, by itself; None if it is public."""
    if address in METADATA:
        return "cloud metadata"
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _IPV4 if address in network), None)
    listed = next((kind for network, kind in _IPV6 if address in network), None)
    return listed or (None if address in _GIVEN_OUT else "reserved")


def refusal_of(address: Address, opened: tuple[Network, ...] = ()) -> str | None:
    """Return the kind of what is not public in an address and not `opened`; None if it may be called."""
    for one in judged(address):
        kind = kind_of(one)
        if kind is not None and not _is_open(one, opened):
            return kind
    return None


def _is_open(address: Address, opened: tuple[Network, ...]) -> bool:
    holding = [network for network in opened if address in network]
    if address in METADATA:
        return any(network.prefixlen == network.max_prefixlen for network in holding)
    return bool(holding)


def _of_local_nat64(bits: int) -> tuple[Address, ...]:
    """Return the IPv4 addresses that may be in an address of a translator whose prefix is not known (RFC 6052)."""
    found = (
        (bits >> 48 & 0xFFFF_0000) | (bits >> 40 & 0xFFFF),  # behind /48
        (bits >> 40 & 0xFF00_0000) | (bits >> 32 & 0x00FF_FFFF),  # behind /56
        bits >> 24 & _LOW,  # behind /64
        bits & _LOW,  # behind /96
    )
    # With a longer prefix, what a shorter one would find begins with zeros.
    return tuple(IPv4Address(one) for one in found if one >> 24) or (IPv4Address(0),)
