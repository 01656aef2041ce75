"""Resolves a host that a user named, and refuses it where the rules do; whoever connects dials what was checked."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from conch_contracts.forbidden_addresses import IpAddress
from conch_kit.addresses.name_lookups import NameLookups
from conch_kit.addresses.rules import AddressRules, Resolution

Resolve = Callable[[str], Awaitable[Resolution]]

FRESH_S = 5.0
"""How long a resolution holds: names of Services and of load balancers move."""
STALE_S = 300.0
"""How long the last one is used while name servers do not answer."""
_RESOLVE_S = 2.0
_MAX_HOSTS = 2048
_LOOKUPS = 16
"""Threads for lookups: about so many hosts may name servers say nothing, and others are still looked up."""


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
        self._resolve = resolve or NameLookups(_LOOKUPS, search=True)
        self._asking: dict[str, asyncio.Future[Resolution]] = {}
        """Of each host one lookup at a time: one that hangs takes one thread, however often its host is checked."""
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
                return await asyncio.shield(self._asked(host))
        except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
            if known is not None and now - known.at < STALE_S:
                return known.resolution
            cause = str(error) or f"no answer within {_RESOLVE_S:g} s"
            raise AddressRefused(f"{host} cannot be resolved: {cause}.") from error

    def _asked(self, host: str) -> asyncio.Future[Resolution]:
        asking = self._asking.get(host)
        if asking is None:
            asking = self._asking[host] = asyncio.ensure_future(self._resolve(host))
            asking.add_done_callback(partial(self._keep, host))
        return asking

    def _keep(self, host: str, answer: asyncio.Future[Resolution]) -> None:
        """Keep an answer, also one that nobody has waited for."""
        del self._asking[host]
        if answer.cancelled() or answer.exception() is not None:
            return
        self._known[host] = _Known(answer.result(), time.monotonic())
        self._known.move_to_end(host)
        if len(self._known) > _MAX_HOSTS:
            self._known.popitem(last=False)
