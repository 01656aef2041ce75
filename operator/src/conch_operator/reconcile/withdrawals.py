"""Remembers which engines were left out of their routes, and when every gateway has seen it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from conch_contracts.records import GatewayBeat
from conch_operator.reconcile.living_gateways import LivingGateways
from conch_operator.state import EngineName

LONGEST_WAIT_S = 2.0
"""A gateway that does not report is not waited for longer: an engine that drains serves what it has anyway."""


@dataclass(frozen=True, slots=True)
class _Withdrawal:
    revision: int | None
    """The registry's revision that first left the engine out; None while the registry could not be written."""
    at_s: float


class Withdrawals:
    """Keeps a ledger of the engines that are on their way out."""

    def __init__(self, longest_wait_s: float = LONGEST_WAIT_S) -> None:
        self._longest_wait_s = longest_wait_s
        self._ledger: dict[EngineName, _Withdrawal] = {}
        self._living = LivingGateways()
        self.gateways: frozenset[str] = frozenset()
        """The gateways that lived when it was last looked."""

    def note(self, names: Collection[EngineName], revision: int | None, now_s: float) -> None:
        """Keep when these engines were first withdrawn, and forget all others."""
        ledger = {}
        for name in names:
            first = self._ledger.get(name)
            if first is None:
                first = _Withdrawal(revision, now_s)
            elif first.revision is None:
                first = _Withdrawal(revision, first.at_s)
            ledger[name] = first
        self._ledger = ledger

    def seen(self, gateways: Iterable[GatewayBeat], now_s: float) -> frozenset[EngineName]:
        """Return the engines that no gateway sends anything new."""
        alive = self._living.look(gateways, now_s)
        self.gateways = frozenset(gateway.id for gateway in alive)
        applied = [gateway.revision for gateway in alive]
        return frozenset(
            name
            for name, withdrawal in self._ledger.items()
            if now_s - withdrawal.at_s >= self._longest_wait_s
            or (withdrawal.revision is not None and applied and min(applied) >= withdrawal.revision)
        )
