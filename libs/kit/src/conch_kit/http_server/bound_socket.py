"""The socket that a server accepts on."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from conch_kit.settings import StartupError


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """Give a socket that listens there; raises StartupError with the reason why it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
        try:
            listener.bind((host, port))
            listener.listen()
        except (OSError, OverflowError) as error:
            raise StartupError(f"Cannot listen on {host}:{port}: {_why(error)}.") from error
        listener.settimeout(0)
        yield listener


def _why(error: OSError | OverflowError) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "another process uses this port"
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error).lower()
