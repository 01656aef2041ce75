"""The address at which an engine is dialled: where its author named it, the one that was resolved and checked.

gRPC and aiohttp would resolve a name once more, and might get another answer than the one that was checked. So they
are given addresses, with the name behind `#` for the server's sake.
"""

from urllib.parse import urlsplit

from conch_contracts.forbidden_addresses import IpAddress
from conch_contracts.names import EngineAddress
from conch_kit.addresses.checker import AddressChecker, AddressRefused
from conch_kit.addresses.rules import AddressRules
from conch_kit.triton.errors import EngineUnavailable

HTTP = "http://"
"""How the address of an engine begins that is asked over HTTP."""
_NAME = "#"


class CheckedAddresses:
    """Checks the engines that authors of ModelDeployments name; without rules, and for Conch's own, does nothing."""

    def __init__(self, rules: AddressRules | None) -> None:
        self._checker = None if rules is None else AddressChecker(rules)

    def guards(self, named_in: str | None) -> bool:
        """Return whether an address of this origin is checked, so that its author learns nothing else about it."""
        return self._checker is not None and named_in is not None

    async def dialled(self, address: EngineAddress, named_in: str | None) -> EngineAddress:
        """Return where to dial an engine that somebody in a namespace named, None where Conch runs it itself.

        Raises EngineUnavailable.
        """
        if self._checker is None or named_in is None:
            return address
        place = urlsplit(address if address.startswith(HTTP) else f"//{address}")
        if place.hostname is None or place.port is None:
            raise EngineUnavailable(f"{address} is no host with a port.")
        try:
            addresses = await self._checker.check(place.hostname, named_in)
        except AddressRefused as refused:
            raise EngineUnavailable(str(refused)) from refused
        family = [each for each in addresses if each.version == addresses[0].version]
        ends = [_end(each, place.port) for each in family]
        target = f"{HTTP}{ends[0]}" if address.startswith(HTTP) else f"ipv{addresses[0].version}:{','.join(ends)}"
        return EngineAddress(f"{target}{_NAME}{place.netloc}")


NO_RULES = CheckedAddresses(None)
"""Any address may be named."""


def without_name(address: EngineAddress) -> tuple[str, str | None]:
    """Return what to dial, and the name under which the server is asked where that is another."""
    target, _, name = address.partition(_NAME)
    return target, name or None


def _end(address: IpAddress, port: int) -> str:
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"
