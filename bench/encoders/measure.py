"""Measures the paths to an embedding in turns, so that other work on the machine meets each of them."""

from dataclasses import dataclass
from functools import partial
from statistics import median

from bench.encoders.embedding_clients import DirectEmbeddings, GatewayEmbeddings, WorkerEmbeddings
from bench.encoders.inputs import Inputs
from bench.options import Effort
from bench.turns import Path, medians

BATCH = 32
CLIENTS = 64
WARM_UP = 3


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
        turn = partial(_turn, size, inputs, direct, worker, conch)
        figures.append(RequestMedians(**await medians(turn, count, warm_up=WARM_UP)))
    many, one = [], []
    for _ in range(effort.pairs):
        per_client = max(1, rounds // 8)
        many.append(await conch.throughput([[inputs.texts(1) for _ in range(per_client)] for _ in range(CLIENTS)]))
        batches = max(1, CLIENTS * per_client // BATCH)
        one.append(await conch.throughput([[inputs.texts(BATCH) for _ in range(batches)]]))
    return EncoderFigures(figures[0], figures[1], median(many), median(one))


def _turn(
    size: int, inputs: Inputs, direct: DirectEmbeddings, worker: WorkerEmbeddings, conch: GatewayEmbeddings
) -> dict[str, Path]:
    texts = inputs.texts(size)
    ids = inputs.ids(texts)
    return {
        "direct": lambda: direct.embed(ids),
        "worker": lambda: worker.embed(ids),
        "conch": lambda: conch.embed(texts),
        "floats": lambda: conch.embed(texts, encoding="float"),
    }
