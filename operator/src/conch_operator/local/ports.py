"""Ports of this machine: finding free ones, and saying so when a wanted one is not."""

import socket


class PortInUse(Exception):
    """Something else listens on the wanted port."""


def free_ports(count: int) -> tuple[int, ...]:
    """Return distinct ports of 127.0.0.1 that nothing listens on at this moment."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return tuple(int(probe.getsockname()[1]) for probe in probes)
    finally:
        for probe in probes:
            probe.close()


def check_free(host: str, port: int) -> None:
    """Return when a server could listen there; raises PortInUse with a sentence otherwise."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise PortInUse(f"The host {host} is not known on this machine: {error.strerror}.") from error
    for family, kind, protocol, _, address in addresses:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if family == socket.AF_INET6 and len(addresses) > 1:
                    continue  # Not every machine has IPv6; the gateway then serves IPv4 alone.
                raise PortInUse(
                    f"Port {port} on {host} cannot be used ({error.strerror}). "
                    "Stop what listens there, or choose another with --port."
                ) from error
