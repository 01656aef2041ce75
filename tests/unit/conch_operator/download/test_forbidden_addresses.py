import pytest

from conch_operator.download.forbidden_addresses import ForbiddenAddress, is_forbidden, refuse_forbidden_addresses


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "fe80::1%eth0",
        "::ffff:169.254.1.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b::6464:64c8",
        "192.0.0.192",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "100.100.100.200",
        "224.0.0.1",
    ],
)
def test_row_6_addresses_of_the_node_are_refused(host: str) -> None:
    assert is_forbidden(host)
    with pytest.raises(ForbiddenAddress):
        refuse_forbidden_addresses("socket.connect", (None, (host, 80)))


@pytest.mark.parametrize("host", ["10.0.0.1", "127.0.0.1", "fd00::9", "64:ff9b::3.5.7.9", "3.5.7.9", "hub.example.com"])
def test_other_addresses_are_not(host: str) -> None:
    assert not is_forbidden(host)
    refuse_forbidden_addresses("socket.connect", (None, (host, 80)))
    refuse_forbidden_addresses("open", ("169.254.169.254", None))
