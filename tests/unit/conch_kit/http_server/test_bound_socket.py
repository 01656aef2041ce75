import socket

import pytest

from conch_kit.http_server.bound_socket import bound
from conch_kit.settings import StartupError


def test_a_port_that_another_process_listens_on_is_named() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(StartupError, match="another process uses this port"),
        bound("127.0.0.1", other.getsockname()[1]),
    ):
        pass


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("192.0.2.1", 0)], ids=["no port", "not ours"])
def test_where_nobody_can_listen_the_reason_is_told(host: str, port: int) -> None:
    with pytest.raises(StartupError, match=rf"Cannot listen on {host}:{port}: (?!another process)"), bound(host, port):
        pass
