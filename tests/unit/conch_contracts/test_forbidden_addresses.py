import ipaddress

import pytest

from conch_contracts.forbidden_addresses import FORBIDDEN, NOT_PUBLIC, is_forbidden, is_public


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "fe80::1%eth0",
        "::ffff:169.254.1.1",
        "::a9fe:a9fe",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b::6464:64c8",
        "2002:a9fe:a9fe::",
        "2001:0:a9fe:a9fe::",
        "2001:0:102:304:0:0:5601:5601",
        "192.0.0.192",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "100.100.100.200",
        "224.0.0.1",
        "ff02::1",
    ],
)
def test_row_6_addresses_of_the_node_are_forbidden_in_every_form(host: str) -> None:
    assert is_forbidden(host)


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "127.0.0.1", "::1", "fd00::9", "64:ff9b::3.5.7.9", "3.5.7.9", "hub.example.com"]
)
def test_other_addresses_are_not(host: str) -> None:
    assert not is_forbidden(host)


@pytest.mark.parametrize(
    "address", ["3.5.7.9", "2606:4700::1111", "64:ff9b::3.5.7.9", "::ffff:3.5.7.9", "192.0.1.1", "100.128.0.1"]
)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


INSIDE = (
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "0.0.0.0",
    "240.0.0.1",
    "255.255.255.255",
    "169.254.0.1",
    "224.0.0.1",
    "::1",
    "::",
    "::ffff:10.0.0.1",
    "::10.0.0.1",
    "::ffff:0:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::3.5.7.9",
    "2002:a00:1::",
    "2001:0:a00:1::",
    "2001:db8::1",
    "fc00::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "4000::1",
    *(str(network[0]) for network in FORBIDDEN),
)


@pytest.mark.parametrize("address", INSIDE)
def test_all_others_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("network", NOT_PUBLIC, ids=str)
def test_a_firewall_keeps_back_nothing_that_is_public(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> None:
    assert not is_public(network[0])
    assert not is_public(network[-1])
    assert not is_public(network[network.num_addresses // 2])


@pytest.mark.parametrize("address", INSIDE)
def test_a_firewall_keeps_back_what_is_inside(address: str) -> None:
    found = ipaddress.ip_address(address)
    assert any(found in network for network in NOT_PUBLIC)
