"""Measures the paths to an embedding in turns, so that other work on the machine meets each of them."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median

from bench.encoders.embedding_clients import DirectEmbeddings, GatewayEmbeddings, WorkerEmbeddings
from bench.encoders.inputs import Inputs
from bench.options import Effort

BATCH = 32
CLIENTS = 64
WARM_UP = 3


@dataclass(slots=True)
class Samples:
    """Milliseconds of each request, by path."""

    direct: list[float] = field(default_factory=list)
    worker: list[float] = field(default_factory=list)
    conch: list[float] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)

    def medians(self) -> "RequestMedians":
        """Return the middle of each."""
        return RequestMedians(median(self.direct), median(self.worker), median(self.conch), median(self.floats))


@dataclass(frozen=True, slots=True)
class RequestMedians:
    """Median milliseconds of a request."""

    direct: float
    worker: float
    conch: float
    floats: float


@dataclass(frozen=True, slots=True)
class EncoderFigures:
    """All that was measured."""

    single: RequestMedians
    batch: RequestMedians
    many_clients: float
    """Inputs per second of 64 clients that send one input at a time."""
    one_client: float
    """Inputs per second of one client that sends batches of 32."""


async def measure(
    inputs: Inputs, direct: DirectEmbeddings, worker: WorkerEmbeddings, conch: GatewayEmbeddings, effort: Effort
) -> EncoderFigures:
    """Measure latency of one input and of a batch, and the throughput of many clients."""
    rounds = max(4, effort.latency_requests // 2)
    figures = []
    for size, count in ((1, effort.pairs * rounds), (BATCH, max(2, effort.pairs * rounds // 6))):
        samples = Samples()
        for number in range(count + WARM_UP):
            found = await _turn(inputs.texts(size), inputs, direct, worker, conch)
            if number >= WARM_UP:
                for name, value in found.items():
                    getattr(samples, name).append(value)
        figures.append(samples.medians())
    many, one = [], []
    for _ in range(effort.pairs):
        per_client = max(1, rounds // 8)
        many.append(await conch.throughput([[inputs.texts(1) for _ in range(per_client)] for _ in range(CLIENTS)]))
        batches = max(1, CLIENTS * per_client // BATCH)
        one.append(await conch.throughput([[inputs.texts(BATCH) for _ in range(batches)]]))
    return EncoderFigures(figures[0], figures[1], median(many), median(one))


async def _turn(
    texts: list[str], inputs: Inputs, direct: DirectEmbeddings, worker: WorkerEmbeddings, conch: GatewayEmbeddings
) -> dict[str, float]:
    ids = inputs.ids(texts)
    return {
        "direct": await _timed(lambda: direct.embed(ids)),
        "worker": await _timed(lambda: worker.embed(ids)),
        "conch": await _timed(lambda: conch.embed(texts)),
        "floats": await _timed(lambda: conch.embed(texts, encoding="float")),
    }


async def _timed(call: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await call()
    return (time.perf_counter() - began) * 1e3
