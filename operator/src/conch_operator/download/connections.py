"""Keeps a download from what its author may not name, whatever a name resolves to.

The API refuses what must never be reached where it is written down; this sees each connection as it is made, so it also
holds for redirects and for names that resolve to something else each time. Behind a proxy, the proxy must do the same.
"""

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from conch_contracts.forbidden_addresses import IpAddress, is_forbidden
from conch_kit.addresses.name_lookups import read_resolution
from conch_kit.addresses.rules import AddressRules, Resolution


class ForbiddenConnection(ConnectionError):
    """A connection to an address that nobody may reach through Conch, whatever a cluster's rules are."""


class RefusedConnection(ConnectionError):
    """A connection that the cluster's rules refuse; its author hears no more of it than of one that fails."""


def refuse_forbidden_addresses(event: str, arguments: tuple[object, ...]) -> None:
    """Raise ForbiddenConnection before such a connection is made; for `sys.addaudithook`."""
    if (host := _connected(event, arguments)) is not None and is_forbidden(host):
        raise ForbiddenConnection(f"{host} is a link-local address or a cloud's metadata service")


@dataclass(slots=True)
class RuledConnections:
    """Lets only those connections be made that the cluster's rules allow, and those to its own mirror and proxies."""

    rules: AddressRules
    namespace: str
    """Of the ModelDeployment."""
    named: str
    """The host that it names."""
    trusted: tuple[str, ...]
    """Hosts that the cluster's settings name."""
    _open: set[IpAddress] = field(default_factory=set)

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        """Raise RefusedConnection before another connection is made; for `sys.addaudithook`."""
        host = _connected(event, arguments)
        if host is None:
            return
        address = ipaddress.ip_address(host.split("%")[0])
        if address not in self._open and not self._allows(address):
            raise RefusedConnection
        self._open.add(address)

    def allows_named(self) -> bool:
        """Return whether the host that was named may be, as far as its name can be resolved: a proxy would ask it."""
        found = _resolved(self.named)
        return not found.addresses or self.rules.why_refused(found, self.namespace, self._own()) is None

    def _own(self) -> frozenset[IpAddress]:
        return frozenset(each for host in self.rules.own for each in _resolved(host).addresses)

    def _allows(self, address: IpAddress) -> bool:
        if any(address in _resolved(host).addresses for host in self.trusted):
            return True
        named = _resolved(self.named)
        found = named if address in named.addresses else Resolution(str(address), str(address), (address,))
        return self.rules.why_refused(found, self.namespace, self._own()) is None


def _connected(event: str, arguments: tuple[object, ...]) -> str | None:
    """Return to which address a socket of the network is about to be connected; None for all other events."""
    if event != "socket.connect" or not isinstance(arguments[1], tuple):
        return None
    return str(arguments[1][0])


def hosts_of(urls: Iterable[str]) -> tuple[str, ...]:
    """Return the hosts of those that name one."""
    found = (urlsplit(url if "//" in url else f"//{url}").hostname for url in urls if url)
    return tuple(host for host in found if host)


def _resolved(host: str) -> Resolution:
    try:
        rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    except (OSError, UnicodeError):
        return Resolution(host, host, ())
    return read_resolution(host, rows)
