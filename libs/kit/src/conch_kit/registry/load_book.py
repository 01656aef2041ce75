"""What gateways have to do, as each of them said last. Pure but for the clock it is given."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from conch_contracts.records import GatewayLoad
from conch_kit.registry.liveness import EXPIRY_S

_FORGOTTEN_S = 60.0
"""After so long in silence a record is let go; a gateway that lives nevertheless says it again."""


@dataclass(slots=True)
class _Heard:
    load: GatewayLoad
    said_at_s: float
    lives_at_s: float
    """When that showed last that it lives; after a time in which nobody could be heard, the end of that."""


class LoadBook:
    """The last record of each gateway, and when it came."""

    def __init__(self, clock: Callable[[], float], *, without: str | None = None) -> None:
        """Keep no record of the gateway of the id `without`."""
        self._without = without
        self._clock = clock
        self._heard: dict[str, _Heard] = {}

    def hear(self, load: GatewayLoad) -> bool:
        """Take a record, however old it is, and return whether it says anything new."""
        known = self._heard.get(load.id)
        if load.id == self._without or (known is not None and known.load.sequence >= load.sequence):
            return False
        now = self._clock()
        self._heard[load.id] = _Heard(load, now, now)
        return True

    def forgive(self, loads: Iterable[GatewayLoad]) -> None:
        """Give these the full time again: they could not be heard for a while."""
        now = self._clock()
        for load in loads:
            if load.id in self._heard:
                self._heard[load.id].lives_at_s = now

    def known(self) -> tuple[GatewayLoad, ...]:
        """Return the records of all, of those that are gone too until they are forgotten."""
        return tuple(heard.load for heard in self._heard.values())

    def living(self) -> tuple[GatewayLoad, ...]:
        """Return the records of those whose sequence has moved within the last 6 s."""
        now = self._clock()
        return tuple(heard.load for heard in self._heard.values() if now - heard.lives_at_s <= EXPIRY_S)

    def said_at_s(self, load: GatewayLoad) -> float:
        """Return when this record of somebody who is known came."""
        return self._heard[load.id].said_at_s

    def silent(self) -> list[str]:
        """Return the ids of those that have been silent for a minute."""
        return [name for name in self._heard if self._is_silent(name)]

    def forget(self, gone: Iterable[str]) -> None:
        """Drop these, unless they have spoken meanwhile; a record that still stands in Redis would be heard as news."""
        for name in gone:
            if name in self._heard and self._is_silent(name):
                del self._heard[name]

    def _is_silent(self, name: str) -> bool:
        return self._clock() - self._heard[name].lives_at_s > _FORGOTTEN_S
