"""Pure: which gateways live, by whether the numbers of their beats move."""

from collections.abc import Iterable

from conch_contracts.records import GatewayBeat

GATEWAY_EXPIRY_S = 6.0
"""A gateway whose sequence has not moved for so long has died; it beats every 2 s."""


class LivingGateways:
    """Remembers when each gateway's sequence last moved, by our own clock."""

    def __init__(self) -> None:
        self._beats: dict[str, tuple[int, float]] = {}

    def look(self, beats: Iterable[GatewayBeat], now_s: float) -> list[GatewayBeat]:
        """Return the beats of those that live, of all that there are now."""
        found = list(beats)
        moved = {}
        for gateway in found:
            sequence, at_s = self._beats.get(gateway.id, (gateway.sequence, now_s))
            moved[gateway.id] = (gateway.sequence, at_s if sequence == gateway.sequence else now_s)
        self._beats = moved
        return [gateway for gateway in found if now_s - moved[gateway.id][1] < GATEWAY_EXPIRY_S]
