"""Which addresses are public: a table by hand, and another way to say it for any address there is."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import times
from windlass.net.addresses import Address, address_of, kind_of, refusal_of

REFUSED = {
    "0.0.0.0": "unspecified",
    "0.255.255.255": "unspecified",
    "10.0.0.0": "private",
    "10.255.255.255": "private",
    "100.64.0.0": "shared",
    "100.127.255.255": "shared",
    "100.100.100.200": "cloud metadata",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "cloud metadata",
    "169.254.0.1": "link-local",
    "169.254.169.254": "cloud metadata",
    "169.254.170.2": "cloud metadata",
    "169.254.42.42": "cloud metadata",
    "172.16.0.0": "private",
    "172.31.255.255": "private",
    "192.0.0.8": "reserved",
    "192.0.0.192": "cloud metadata",
    "192.0.2.1": "documentation",
    "192.88.99.1": "reserved",
    "192.168.1.1": "private",
    "198.18.0.1": "benchmarking",
    "198.19.255.255": "benchmarking",
    "198.51.100.7": "documentation",
    "203.0.113.7": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "::": "unspecified",
    "::1": "loopback",
    "::7f00:1": "loopback",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:a9fe:a9fe": "cloud metadata",
    "::ffff:0:127.0.0.1": "reserved",
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b::169.254.169.254": "cloud metadata",
    "64:ff9b:1::192.168.0.1": "private",
    "64:ff9b:1:a00:0:100::": "private",
    "64:ff9b:1::": "unspecified",
    "64:ff9b:1:7f:0:1::": "loopback",
    "64:ff9b:1:ab0a:0:1::": "private",
    "64:ff9b:1:abcd:a:0:100:0": "private",
    "64:ff9b:2::8.8.8.8": "reserved",
    "100::1": "reserved",
    "2001::1": "unspecified",
    "2001:0:808:808:0:0:80ff:fefe": "loopback",
    "2001:0:a00:1:0:0:f7f7:f7f7": "private",
    "2001:2::1": "benchmarking",
    "2001:10::1": "reserved",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "loopback",
    "2002:c0a8:101::1": "private",
    "2606:4700::5efe:10.0.0.1": "private",
    "2606:4700::200:5efe:127.0.0.1": "loopback",
    "3fff:fff::1": "documentation",
    "4000::1": "reserved",
    "5f00::1": "reserved",
    "fc00::1": "private",
    "fd00:ec2::254": "cloud metadata",
    "fd00:42::42": "cloud metadata",
    "fd00:a9fe:a9fe::1": "cloud metadata",
    "fd00:100::100:200": "cloud metadata",
    "fe80::1": "link-local",
    "fe80::5efe:8.8.8.8": "link-local",
    "fec0::1": "private",
    "ff02::1": "multicast",
}
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
    "168.63.129.15", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0",
    "192.88.98.1", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "203.0.114.0",
    "223.255.255.255", "2000::1", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111", "3ffe::1",
    "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b:1::8.8.8.8", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7",
    "2606:4700::5efe:8.8.8.8",
]  # fmt: skip


def read(text: str) -> Address:
    found = address_of(text)
    assert found is not None
    return found


@pytest.mark.parametrize(("text", "kind"), REFUSED.items())
def test_an_address_that_is_not_public_is_refused_with_its_kind(text: str, kind: str) -> None:
    assert refusal_of(read(text)) == kind


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_that_only_looks_like_one_of_them_is_public(text: str) -> None:
    assert refusal_of(read(text)) is None


@pytest.mark.parametrize(
    "text",
    ["127.1", "0177.0.0.1", "010.0.0.1", "0x7f.0.0.1", "2130706433", "1.2.3", "1.2.3.4.5", "", " 1.1.1.1", "1.1.1.256"],
)  # fmt: skip
def test_an_odd_spelling_is_not_an_address(text: str) -> None:
    assert address_of(text) is None


# ------------------------------------------------------------------- the same, said in another way

BESIDE_IS_GLOBAL_4 = [
    IPv4Network(each) for each in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")
]
BESIDE_IS_GLOBAL_6 = [IPv6Network(each) for each in ("2001::/23", "2001:db8::/32", "3fff::/20")]


def is_public_4(address: IPv4Address) -> bool:
    listed = any(address in network for network in BESIDE_IS_GLOBAL_4)
    return address.is_global and not address.is_multicast and not listed


def inside(address: IPv6Address) -> list[IPv4Address]:
    packed = address.packed
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    if packed[:12] in (bytes(12), bytes.fromhex("0064ff9b0000000000000000")):
        return [IPv4Address(packed[12:])]
    if packed[:6] == bytes.fromhex("0064ff9b0001"):
        cut = [packed[6:8] + packed[9:11], packed[7:8] + packed[9:12], packed[9:13], packed[12:]]
        return [IPv4Address(each) for each in cut if each[0]] or [IPv4Address("0.0.0.0")]
    return []


def is_public_6(address: IPv6Address) -> bool:
    if str(address) in ("::", "::1"):
        return False
    within = inside(address)
    if within:
        return all(map(is_public_4, within))
    if address.packed[8:12] in (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe"):
        within = [IPv4Address(address.packed[12:])]
    listed = any(address in network for network in BESIDE_IS_GLOBAL_6)
    given_out = address.packed[0] >> 5 == 1
    return given_out and address.is_global and not listed and all(map(is_public_4, within))


NEAR_4 = [int(ip_network(each).network_address) for each in (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
)]  # fmt: skip
PREFIXES_6 = (
    "::", "::ffff:0:0", "64:ff9b::", "64:ff9b:1::", "2002::", "2001::", "2001:db8::", "2606:4700::5efe:0:0",
    "2606:4700::200:5efe:0:0", "fe80::", "fc00::", "ff00::", "2001:2::", "3fff::", "100::", "2000::", "64:ff9b:1:a00::",
)  # fmt: skip


def near(start: int, bits: int, step: int) -> int:
    return (start + step) % (1 << bits)


FOURS = st.one_of(
    st.integers(0, 2**32 - 1),
    st.builds(near, st.sampled_from(NEAR_4), st.just(32), st.integers(-300, 300)),
    st.builds(near, st.sampled_from(NEAR_4), st.just(32), st.integers(-(2**24), 2**24)),
).map(IPv4Address)
SIXES = st.one_of(
    st.integers(0, 2**128 - 1),
    st.builds(
        lambda prefix, four, shift: int(IPv6Address(prefix)) | int(four) << shift,
        st.sampled_from(PREFIXES_6),
        FOURS,
        st.sampled_from((0, 0, 24, 32, 48, 64, 80)),
    ).map(lambda bits: bits % 2**128),
    st.builds(lambda rest: 1 << 125 | rest, st.integers(0, 2**125 - 1)),
).map(IPv6Address)


@settings(max_examples=times(600))
@given(FOURS)
def test_any_ipv4_address_is_judged_as_the_library_and_a_short_list_judge_it(
    address: IPv4Address,
) -> None:
    assert (refusal_of(address) is None) == is_public_4(address)


@settings(max_examples=times(1_000))
@given(SIXES)
def test_any_ipv6_address_is_judged_as_the_library_and_a_short_list_judge_it(
    address: IPv6Address,
) -> None:
    assert (refusal_of(address) is None) == is_public_6(address)


# ------------------------------------------------------------------------------------ opening


@pytest.mark.parametrize(
    ("text", "opened", "kind"),
    [
        ("10.1.2.3", "10.1.0.0/16", None),
        ("10.2.2.3", "10.1.0.0/16", "private"),
        ("::ffff:10.1.2.3", "10.1.0.0/16", None),
        ("64:ff9b::10.1.2.3", "10.1.0.0/16", None),
        ("fd12::1", "fd12::/16", None),
        ("fd12::1", "0.0.0.0/0", "private"),
        ("169.254.1.1", "169.254.0.0/16", None),
        ("169.254.169.254", "169.254.0.0/16", "cloud metadata"),
        ("169.254.169.254", "0.0.0.0/0", "cloud metadata"),
        ("169.254.169.254", "169.254.169.254/32", None),
        ("fd00:ec2::254", "fd00::/8", "cloud metadata"),
        ("fd00:ec2::254", "fd00:ec2::254/128", None),
    ],
)
def test_a_range_opens_what_is_in_it_but_metadata_only_by_its_own_address(
    text: str, opened: str, kind: str | None
) -> None:
    assert refusal_of(read(text), (ip_network(opened),)) == kind


def test_a_judge_that_forgets_what_is_inside_an_address_is_seen() -> None:
    planted = [text for text in REFUSED if kind_of(read(text)) is None]

    assert "2606:4700::5efe:10.0.0.1" in planted
