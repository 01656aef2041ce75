"""The Lease that one of several operators holds while it works.

Others watch whether it is renewed by their own clock, so clocks need not agree. When it was made and how often it
changed hands are the fence of everything that its holder writes to Redis; towards Kubernetes the holder stops writing
as soon as it could not renew for a while, which is well before anybody else may take over.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import LEASE, Object
from conch_operator.timestamps import micro_timestamp

log = logging.getLogger(__name__)

_MOST_TRANSITIONS = 2**20
"""With a time in seconds above it a fence has 51 bits, and Redis' scripts count exactly up to 53."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """In seconds; the same three numbers as Kubernetes' own controllers."""

    duration_s: float = 15.0
    """Others may take it when it has not been renewed for so long."""
    renew_deadline_s: float = 10.0
    """Its holder stops working when it could not renew it for so long."""
    retry_s: float = 2.0


class Leadership:
    """Holds the Lease or waits for it."""

    def __init__(
        self,
        api: KubernetesApi,
        place: tuple[str, str],
        identity: str,
        times: LeaseTimes = LeaseTimes(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._namespace, self._name = place
        self._identity = identity
        self._times = times
        self._clock = clock
        self._renewed_at: float | None = None
        self._seen: tuple[object, float] | None = None
        self._created_s = 0
        self.transitions = 0
        """How often the Lease has changed hands, when we got it."""

    @property
    def fence(self) -> int:
        """Return a number that grows each time the Lease changes hands, and when it is deleted and made again."""
        return self._created_s * _MOST_TRANSITIONS + min(self.transitions, _MOST_TRANSITIONS - 1)

    def is_held(self) -> bool:
        """Return whether we may write: false as soon as a renewal is overdue, even while nothing else runs."""
        return self._renewed_at is not None and self._clock() - self._renewed_at < self._times.renew_deadline_s

    async def acquire(self, *, by_force: bool = False) -> None:
        """Wait until we hold it."""
        while not await self.take_or_renew(by_force=by_force):  # noqa: ASYNC110 - nothing tells us when somebody else lets go
            await asyncio.sleep(self._times.retry_s)
        log.info("This operator works now.", extra={"lease": self._name, "transitions": self.transitions})

    async def take_over(self) -> None:
        """Take it from whoever holds it, and wait until that one has noticed for certain."""
        await self.acquire(by_force=True)
        await asyncio.sleep(self._times.renew_deadline_s)
        await self.acquire(by_force=True)

    async def hold(self) -> None:
        """Renew it until that has failed for too long."""
        while self.is_held():
            await asyncio.sleep(self._times.retry_s)
            if self.is_held():
                await self.take_or_renew()
        self._renewed_at = None
        log.warning("This operator has lost its Lease.", extra={"lease": self._name})

    async def release(self) -> None:
        """Let others have it at once."""
        if not self.is_held():
            return
        try:
            lease = await self._api.get(LEASE, self._namespace, self._name)
            if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self._api.replace(LEASE, lease)
        except ApiError as error:
            log.info("The Lease was not given back.", extra={"error": str(error)})
        self._renewed_at = None

    async def take_or_renew(self, *, by_force: bool = False) -> bool:
        """Take or renew it; `_renewed_at` becomes None when somebody else has it."""
        began = self._clock()
        try:
            async with asyncio.timeout(self._times.renew_deadline_s / 2):
                lease = await self._api.get(LEASE, self._namespace, self._name)
                spec = dict((lease or {}).get("spec") or {})
                if not by_force and not self._may_take(spec):
                    self._renewed_at = None
                    return False
                await self._write(lease, spec)
        except (ApiError, TimeoutError) as error:
            log.info("The Lease could not be written.", extra={"error": str(error)})
            return False
        self._renewed_at = began
        return True

    def _may_take(self, spec: Object) -> bool:
        holder = spec.get("holderIdentity") or ""
        state = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if self._seen is None or self._seen[0] != state:
            self._seen = (state, self._clock())
        if holder in ("", self._identity):
            return True
        return self._clock() - self._seen[1] >= self._times.duration_s

    async def _write(self, lease: Object | None, spec: Object) -> None:
        now = micro_timestamp()
        ours = spec.get("holderIdentity") == self._identity and self._renewed_at is not None
        transitions = int(spec.get("leaseTransitions") or 0) + (0 if ours else 1)
        spec |= {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._times.duration_s),
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        if not ours:
            spec["acquireTime"] = now
        meta = {"name": self._name, "namespace": self._namespace}
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.name, "metadata": meta} | (lease or {}) | {"spec": spec}
        if lease is None:
            written = await self._api.create(LEASE, body)
        else:
            written = await self._api.replace(LEASE, body)
        self._created_s = int(datetime.fromisoformat(written["metadata"]["creationTimestamp"]).timestamp())
        self.transitions = transitions
