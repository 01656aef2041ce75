import pytest

from conch_contracts.forbidden_addresses import is_forbidden


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
