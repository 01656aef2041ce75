"""Puts the same load on both relays, one after the other, and reads what CPU time each took."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import psutil

from bench.clients.messages import Load
from bench.clients.remote import RemoteClient
from bench.cpu_time import CpuMeter, Roles, micros_each
from bench.options import Effort
from bench.relay.scripted_worker import COMPLETION_TOKENS

CONNECTIONS = 32
_SETTLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Paced:
    """So many open streams, each with so many events a second."""

    streams: int
    events_per_s: int


FEW = Paced(64, 40)
CROWDS = (Paced(512, 2), Paced(2000, 2))


@dataclass(frozen=True, slots=True)
class EventWindow:
    """Some seconds of open streams on one relay."""

    cpu: Mapping[str, float]
    """Microseconds per event, by process."""
    events_per_read: float
    grown_kib: Mapping[str, float]
    """Memory that opening one of them took, by process."""


@dataclass(frozen=True, slots=True)
class RequestWindow:
    """One closed loop of complete answers on one relay."""

    cpu: Mapping[str, float]
    """Microseconds per request, by process."""
    requests_per_s: float
    median_s: float


@dataclass(frozen=True, slots=True)
class RelayFigures:
    """What one relay took."""

    events: Mapping[Paced, Sequence[EventWindow]]
    requests: Sequence[RequestWindow]
    alone: Sequence[RequestWindow]
    """Requests one after the other."""


@dataclass(frozen=True, slots=True)
class RelayBench:
    """The two relays, each with its client."""

    nginx: RemoteClient
    gateway: RemoteClient
    roles: Callable[[], Roles]
    effort: Effort

    async def measure(self) -> tuple[RelayFigures, RelayFigures]:
        """Measure nginx and the gateway in turn; returns their figures in this order."""
        return await self.compare(self.nginx, self.gateway, CROWDS)

    async def compare(
        self, first: RemoteClient, second: RemoteClient, crowds: Sequence[Paced] = ()
    ) -> tuple[RelayFigures, RelayFigures]:
        """Measure two relays in turn; returns their figures in this order."""
        relays, turns = (first, second), self.effort.relay_pairs
        for relay in relays:
            await relay.load(Load(CONNECTIONS, COMPLETION_TOKENS, requests=20 * CONNECTIONS, stream=False))
        events = {}
        for paced in (FEW, *crowds):
            _progress(f"{paced.streams} paced streams")
            rounds = turns if paced is FEW else self.effort.crowds
            events[paced] = [[await self._events(relay, paced) for relay in relays] for _ in range(rounds)]
        _progress(f"complete answers on {CONNECTIONS} connections")
        requests = [[await self._requests(relay, CONNECTIONS) for relay in relays] for _ in range(turns)]
        _progress("complete answers on one connection")
        alone = [[await self._requests(relay, 1) for relay in relays] for _ in range(turns)]
        return _figures(events, requests, alone, side=0), _figures(events, requests, alone, side=1)

    async def throughput(self, one: RemoteClient, two: RemoteClient) -> tuple[list[RequestWindow], list[RequestWindow]]:
        """Put complete answers on two ways in turn, and nothing else."""
        for client in (one, two):
            await client.load(Load(CONNECTIONS, COMPLETION_TOKENS, requests=20 * CONNECTIONS, stream=False))
        pairs = [
            (await self._requests(one, CONNECTIONS), await self._requests(two, CONNECTIONS))
            for _ in range(self.effort.relay_pairs)
        ]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def resident_mib(self, role: str) -> float:
        """Return the memory that the processes of a role hold at this moment."""
        return self._resident_kib()[role] / 1024

    def _resident_kib(self) -> dict[str, float]:
        held: dict[str, float] = {}
        for pid, role in self.roles().items():
            held[role] = held.get(role, 0.0) + psutil.Process(pid).memory_info().rss / 1024
        return held

    async def _events(self, relay: RemoteClient, paced: Paced) -> EventWindow:
        held = self._resident_kib()
        await relay.open(Load(paced.streams, paced.events_per_s))
        await asyncio.sleep(_SETTLE_S)
        grown = {role: (kib - held[role]) / paced.streams for role, kib in self._resident_kib().items()}
        before, meter = await relay.count(paced.streams), CpuMeter.start(self.roles())
        await asyncio.sleep(self.effort.window_s)
        used, after = meter.used(), await relay.count(paced.streams)
        await relay.close()
        events, reads = after.events - before.events, after.reads - before.reads
        return EventWindow(micros_each(used, events), events / reads, grown)

    async def _requests(self, relay: RemoteClient, connections: int) -> RequestWindow:
        meter = CpuMeter.start(self.roles())
        result = await relay.load(
            Load(connections, COMPLETION_TOKENS, seconds=self.effort.window_s, requests=connections, stream=False)
        )
        used = meter.used()
        return RequestWindow(
            cpu=micros_each(used, result.requests),
            requests_per_s=result.requests / result.wall_s,
            median_s=median(result.request_s),
        )


def _figures(
    events: Mapping[Paced, Sequence[Sequence[EventWindow]]],
    requests: Sequence[Sequence[RequestWindow]],
    alone: Sequence[Sequence[RequestWindow]],
    *,
    side: int,
) -> RelayFigures:
    return RelayFigures(
        {paced: [pair[side] for pair in pairs] for paced, pairs in events.items()},
        [pair[side] for pair in requests],
        [pair[side] for pair in alone],
    )


def _progress(text: str) -> None:
    print(f"relay: {text}", file=sys.stderr)
