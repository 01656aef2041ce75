import socket

import pytest

from conch_operator.local.ports import CannotListen, check_free, free_ports


def test_a_free_port_of_this_machine_can_be_listened_on() -> None:
    check_free("127.0.0.1", free_ports(1)[0])
    check_free("localhost", 0)


def test_what_cannot_be_listened_on_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"Port {port} on 127.0.0.1 cannot be used .*--port"):
            check_free("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "says"),
    [
        ("192.0.2.1", r"does not have the address 192\.0\.2\.1\. .*--host"),
        ("no-such-host.invalid", "is not known on this machine"),
    ],
)
def test_an_address_of_another_machine_is_no_port_in_use(host: str, says: str) -> None:
    with pytest.raises(CannotListen, match=says):
        check_free(host, 8000)
