"""Resolves a host that a user named, and refuses it where the rules do; whoever connects dials what was checked."""

import asyncio
import ipaddress
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from conch_contracts.forbidden_addresses import IpAddress
from conch_kit.addresses.rules import AddressRules, Resolution

Resolve = Callable[[str], Awaitable[Resolution]]

FRESH_S = 5.0
"""How long a resolution holds: names of Services and of load balancers move."""
STALE_S = 300.0
"""How long the last one is used while name servers do not answer."""
_RESOLVE_S = 2.0
_MAX_HOSTS = 2048


class AddressRefused(Exception):
    """What a user named is not to be connected to, or stands for nothing; the message is for the log."""


@dataclass(frozen=True, slots=True)
class _Known:
    resolution: Resolution
    at: float


class AddressChecker:
    """Checks hosts by the rules of one release, and remembers for a moment what they stand for."""

    def __init__(self, rules: AddressRules, resolve: Resolve | None = None) -> None:
        self._rules = rules
        self._resolve = resolve or resolve_host
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def check(self, host: str, namespace: str) -> tuple[IpAddress, ...]:
        """Return the addresses of a host that somebody in this namespace named; raises AddressRefused."""
        found = await self._find(host)
        own = await asyncio.gather(*(self._own(name) for name in self._rules.own))
        refused = self._rules.why_refused(found, namespace, frozenset(address for each in own for address in each))
        if refused is not None:
            raise AddressRefused(f"{host} ({', '.join(map(str, found.addresses))}) may not be named: {refused}.")
        return found.addresses

    async def _own(self, host: str) -> tuple[IpAddress, ...]:
        try:
            return (await self._find(host)).addresses
        except AddressRefused:
            return ()

    async def _find(self, host: str) -> Resolution:
        known, now = self._known.get(host), time.monotonic()
        if known is not None and now - known.at < FRESH_S:
            return known.resolution
        try:
            async with asyncio.timeout(_RESOLVE_S):
                found = await self._resolve(host)
        except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
            if known is not None and now - known.at < STALE_S:
                return known.resolution
            raise AddressRefused(f"{host} cannot be resolved: {error}.") from error
        self._known[host] = _Known(found, now)
        self._known.move_to_end(host)
        if len(self._known) > _MAX_HOSTS:
            self._known.popitem(last=False)
        return found


async def resolve_host(host: str) -> Resolution:
    """Ask the system's resolver; raises OSError."""
    loop = asyncio.get_running_loop()
    rows = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    return read_resolution(host, rows)


def read_resolution(host: str, rows: Sequence[tuple[Any, Any, int, str, tuple[Any, ...]]]) -> Resolution:
    """Return what `getaddrinfo` said, asked for the canonical name."""
    addresses = sorted({ipaddress.ip_address(str(row[4][0]).split("%")[0]) for row in rows}, key=_order)
    canonical = next((row[3] for row in rows if row[3]), host)
    return Resolution(host, canonical, tuple(addresses))


def _order(address: IpAddress) -> tuple[int, int]:
    return address.version, int(address)
