"""Pure: addresses that nobody may reach through Conch, in whatever form they are written, and those that are public.

Nobody may reach link-local and multicast addresses, and those where clouds answer about the machine and its account.
The API refuses them where they are written down; whoever connects asks again, since a name may stand for anything.
"""

import ipaddress

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

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
_ENDING_IN_IPV4 = (_NAT64, ipaddress.IPv6Network("64:ff9b:1::/48"), ipaddress.IPv6Network("::/96"))
"""What ends in the IPv4 address that it stands for: the last 32 bits."""
_NO_IPV4 = (ipaddress.IPv6Address("::"), ipaddress.IPv6Address("::1"))
"""They only look like IPv4-compatible addresses."""
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All IPv6 addresses that hosts of the internet have; there are ranges outside of it that Python calls global."""
_PRIVATE = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "224.0.0.0/3",
        ),
    )
)


def as_translated(network: ipaddress.IPv4Network) -> ipaddress.IPv6Network:
    """Return the IPv6 addresses by which a gateway of the cluster may reach an IPv4 network."""
    first = int(_NAT64.network_address) + int(network.network_address)
    return ipaddress.IPv6Network((first, network.prefixlen + _NAT64.prefixlen))


NOT_PUBLIC: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = (
    *_PRIVATE,
    *map(
        ipaddress.IPv6Network,
        ("::/16", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "4000::/2", "8000::/1"),
    ),
    *map(as_translated, _PRIVATE),
)
"""Ranges that a firewall may keep back from whoever connects to public addresses alone; `is_public` refuses more."""


def is_forbidden(host: str) -> bool:
    """Return whether an address is link-local or a metadata service; names are judged when they are resolved."""
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return False
    return any(each.is_multicast or any(each in network for network in FORBIDDEN) for each in meanings(address))


def is_public(address: IpAddress) -> bool:
    """Return whether an address leads to the public internet, in each of its meanings."""
    return not is_forbidden(str(address)) and all(map(_is_public, meanings(address)))


def _is_public(address: IpAddress) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global
    if address.ipv4_mapped is not None or address in _NAT64:
        return True  # the IPv4 address behind it is judged
    return address in _GLOBAL_UNICAST and address.is_global


def meanings(address: IpAddress) -> tuple[IpAddress, ...]:
    """Return an address, and behind it the IPv4 addresses that it stands for where it is such an IPv6 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    found: list[IpAddress] = [address]
    if address.ipv4_mapped is not None:
        found.append(address.ipv4_mapped)
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found.extend(address.teredo)
    if address not in _NO_IPV4 and any(address in network for network in _ENDING_IN_IPV4):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return tuple(found)
