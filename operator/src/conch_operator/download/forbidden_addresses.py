"""Keeps a download from what only the node or the cloud account should reach, whatever a name resolves to.

The API refuses such addresses where they are written down; this sees each connection as it is made, so it also holds
for redirects and for names that resolve to something else each time. Behind a proxy, the proxy must do the same.
"""

import ipaddress

FORBIDDEN = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.0.0/16",
            "100.100.100.200/32",
            "192.0.0.192/32",
            "168.63.129.16/32",
            "fe80::/10",
            "fd00:ec2::/32",
            "fd20:ce::254/128",
        ),
    )
)
"""Link-local addresses, and where clouds answer about the machine and its account."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 addresses as a gateway of the cluster translates them."""


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
    address = _plain(address)
    return address.is_multicast or any(address in network for network in FORBIDDEN)


def as_translated(network: ipaddress.IPv4Network) -> ipaddress.IPv6Network:
    """Return the IPv6 addresses by which a gateway of the cluster may reach an IPv4 network."""
    first = int(_NAT64.network_address) + int(network.network_address)
    return ipaddress.IPv6Network((first, network.prefixlen + _NAT64.prefixlen))


def _plain(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address
