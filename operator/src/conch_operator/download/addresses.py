"""Keeps a download from what only the node or the cloud account should reach, whatever a name resolves to.

The API refuses such addresses where they are written down; this sees each connection as it is made, so it also holds
for redirects and for names that resolve to something else each time. Behind a proxy, the proxy must do the same.
"""

import ipaddress

_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16")))


class ForbiddenAddress(ConnectionError):
    """A connection that no model is worth."""


def refuse_forbidden_addresses(event: str, arguments: tuple[object, ...]) -> None:
    """Raise ForbiddenAddress before such a connection is made; for `sys.addaudithook`."""
    if event == "socket.connect" and isinstance(arguments[1], tuple) and is_forbidden(str(arguments[1][0])):
        raise ForbiddenAddress(f"{arguments[1][0]} is a link-local address or a cloud's metadata service")


def is_forbidden(host: str) -> bool:
    """Return whether an address is link-local or a metadata service; names are judged when they are resolved."""
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_link_local or address.is_multicast or address in _METADATA
