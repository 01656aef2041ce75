"""Runs the same generations through both paths, one after the other, and keeps what each took."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.chain.stack import CLIENT
from bench.clients.messages import Load, LoadResult
from bench.clients.remote import RemoteClient
from bench.cpu_time import CpuMeter, Roles, micros_each
from bench.options import Effort

ANSWER_TOKENS = 100
STREAMS = (1, 16, 64)


@dataclass(frozen=True, slots=True)
class Run:
    """One load on one path."""

    result: LoadResult
    cpu_s: Mapping[str, float]

    @property
    def tokens_per_s(self) -> float:
        return self.result.tokens / self.result.wall_s

    def cpu_per_token(self) -> dict[str, float]:
        """Return each process's microseconds per token."""
        return micros_each(self.cpu_s, self.result.tokens)

    def cpu_per_request(self) -> dict[str, float]:
        """Return each process's microseconds per request."""
        return micros_each(self.cpu_s, self.result.requests)


@dataclass(frozen=True, slots=True)
class Pair:
    """The reference and Conch under the same load, in the same seconds."""

    direct: Run
    conch: Run

    @property
    def ratio(self) -> float:
        """Return Conch's tokens per second as a part of the reference's."""
        return self.conch.tokens_per_s / self.direct.tokens_per_s


@dataclass(frozen=True, slots=True)
class Latency:
    """Medians at one stream, in seconds."""

    first_token_s: float
    request_s: float


@dataclass(frozen=True, slots=True)
class ChainFigures:
    """All that was measured on the whole path."""

    direct_latency: Latency
    conch_latency: Latency
    answers: Mapping[int, Sequence[Pair]]
    """Streams → pairs with answers of `ANSWER_TOKENS`."""
    requests: Mapping[int, Sequence[Pair]]
    """Streams → pairs with answers of one token: what a request costs by itself."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The two paths to one engine."""

    direct: RemoteClient
    conch: RemoteClient
    roles: Callable[[], Roles]
    effort: Effort

    async def measure(self) -> ChainFigures:
        """Measure everything, the two paths in turn."""
        await self._pair(Load(streams=64, max_tokens=20, requests=128))
        direct, conch = await self._latencies()
        return ChainFigures(
            direct_latency=direct,
            conch_latency=conch,
            answers={streams: await self._pairs(streams, ANSWER_TOKENS) for streams in STREAMS},
            requests={streams: await self._pairs(streams, 1) for streams in STREAMS},
        )

    async def _latencies(self) -> tuple[Latency, Latency]:
        _progress("latency of one stream")
        block = Load(streams=1, max_tokens=ANSWER_TOKENS, requests=self.effort.latency_requests)
        pairs = [await self._pair(block) for _ in range(self.effort.pairs)]
        return _latency([pair.direct for pair in pairs]), _latency([pair.conch for pair in pairs])

    async def _pairs(self, streams: int, max_tokens: int) -> list[Pair]:
        _progress(f"{max_tokens} tokens, {streams} at once")
        load = Load(streams=streams, max_tokens=max_tokens, seconds=self.effort.load_s)
        return [await self._pair(load) for _ in range(self.effort.pairs)]

    async def _pair(self, load: Load) -> Pair:
        return Pair(direct=await self._run(self.direct, load), conch=await self._run(self.conch, load))

    async def _run(self, client: RemoteClient, load: Load) -> Run:
        meter = CpuMeter.start(self.roles())
        result = await client.load(load)
        return Run(result, {**meter.used(), CLIENT: result.cpu_s})


def middle(pairs: Sequence[Pair]) -> Pair:
    """Return the pair with the median ratio."""
    return sorted(pairs, key=lambda pair: pair.ratio)[len(pairs) // 2]


def _latency(runs: Sequence[Run]) -> Latency:
    return Latency(
        first_token_s=median(sample for run in runs for sample in run.result.first_token_s),
        request_s=median(sample for run in runs for sample in run.result.request_s),
    )


def _progress(text: str) -> None:
    print(f"whole path: {text}", file=sys.stderr)
