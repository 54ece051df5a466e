"""Which addresses a description may name."""

import asyncio
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.calls.address import is_public, look_up

PRIVATE = [
    "127.0.0.1",
    "127.8.9.10",
    "10.0.0.5",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_loopback_link_local_and_metadata_addresses_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "64:ff9b::101:101"])
def test_addresses_of_the_open_internet_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3", "0x7f000001", "a" * 100])
def test_what_is_no_address_is_not_public(text):
    assert not is_public(text)


@given(st.sampled_from([a for a in PRIVATE if "." in a and ":" not in a]))
def test_a_private_address_inside_another_one_is_found(address):
    v4 = int(ipaddress.IPv4Address(address))
    hidden = [
        0xFFFF << 32 | v4,  # ::ffff:a.b.c.d
        v4,  # ::a.b.c.d
        0x64FF9B << 96 | v4,  # 64:ff9b::a.b.c.d
        0x2002 << 112 | v4 << 80,  # 6to4
        0x26064700 << 96 | 0x5EFE << 32 | v4,  # ISATAP
        0x20010000 << 96 | v4 ^ 0xFFFFFFFF,  # Teredo
    ]
    for value in hidden:
        assert not is_public(str(ipaddress.IPv6Address(value)))


@given(st.integers(0, 2**32 - 1))
def test_no_more_is_public_than_the_registry_of_addresses_says(value):
    ip = ipaddress.IPv4Address(value)
    if is_public(str(ip)):
        assert ip.is_global
        assert not ip.is_multicast


@given(st.integers(0, 2**128 - 1))
def test_no_more_of_ipv6_is_public_than_the_registry_says(value):
    ip = ipaddress.IPv6Address(value)
    if is_public(str(ip)) and ip not in ipaddress.IPv6Network("64:ff9b::/96"):
        assert ip.is_global or ip.sixtofour is not None


@pytest.mark.parametrize(
    "host", ["2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "0251.254.43518"]
)
def test_other_ways_to_write_an_address_are_looked_up_to_the_same(host):
    assert asyncio.run(look_up(host, 80)) == ["169.254.169.254"]


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "x..y"])
def test_a_host_that_can_be_no_name_is_an_os_error(host):
    with pytest.raises(OSError, match=r".+"):
        asyncio.run(look_up(host, 80))
