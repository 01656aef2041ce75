"""Ports of this machine: finding free ones, and saying so when a wanted one is not."""

import errno
import random
import socket
from collections.abc import Iterable
from contextlib import ExitStack

_OURS = range(15_000, 30_000)
"""Below those that clients and servers are given when they ask for any: nobody gets one before it is used."""


class CannotListen(Exception):
    """No server of this machine can listen at the wanted address; the message says why and what to do."""


def free_ports(count: int) -> tuple[int, ...]:
    """Return distinct ports of 127.0.0.1 that nothing listens on at this moment."""
    found: list[int] = []
    with ExitStack() as probes:
        while len(found) < count:
            port, probe = random.choice(_OURS), probes.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue  # somebody has it
            found.append(port)
    return tuple(found)


def all_free(ports: Iterable[int]) -> bool:
    """Return whether servers could listen on these ports of 127.0.0.1 at this moment."""
    try:
        for port in ports:
            check_free("127.0.0.1", port)
    except CannotListen:
        return False
    return True


def check_free(host: str, port: int) -> None:
    """Return when a server could listen there; raises CannotListen with a sentence otherwise."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise CannotListen(f"The host {host} is not known on this machine: {error.strerror}.") from error
    for family, kind, protocol, _, address in addresses:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if family == socket.AF_INET6 and len(addresses) > 1:
                    continue  # Not every machine has IPv6; the gateway then serves IPv4 alone.
                raise CannotListen(_why(error, host, port)) from error


def _why(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRNOTAVAIL:
            return (
                f"This machine does not have the address {host}. Name one of its own with --host, or 0.0.0.0 for all."
            )
        case errno.EACCES:
            return f"Port {port} needs the rights of an administrator. Choose one above 1023 with --port."
        case _:
            found = f"Port {port} on {host} cannot be used ({error.strerror})."
            return f"{found} Stop what listens there, or choose another with --port."
