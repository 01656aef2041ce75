"""The endpoint as a whole: what is refused before an engine is asked."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from tritonclient.grpc.model_config_pb2 import ModelConfig

from conch_contracts.messages.encoding import EncodeRequest, EncoderTarget, Row, RowPicture, Task
from conch_contracts.messages.generation import PreparedPicture
from conch_contracts.messages.message import changed, to_json
from conch_contracts.names import EngineAddress
from conch_embed_worker.batch_queues import MAX_OUTPUT_BYTES, WIDE, BatchQueues
from conch_embed_worker.batch_tensors import Numbers
from conch_embed_worker.handler import EncodeHandler
from conch_embed_worker.metrics import EmbedWorkerMetrics
from conch_kit.addresses.rules import AddressRules
from conch_kit.errors import InvalidRequest, Unavailable, UpstreamTimeout
from conch_kit.http.request_scope import InFlightRequests
from conch_kit.triton.checked_addresses import CheckedAddresses
from conch_kit.triton.encoder_tensors import EncoderTensors
from testkit.engines.scripted_triton import Caller

SIZE = 1024
WIDTH = 128
"""Of a row of 100 tokens, with its padding."""
TOGETHER = MAX_OUTPUT_BYTES // (WIDE * 4) // WIDTH
"""Rows whose answer fits into a message even if each token has 4,096 numbers."""
TARGET = EncoderTarget(address=EngineAddress("127.0.0.1:1"), model="m")

GUARDED = CheckedAddresses(AddressRules())


class Ones:
    """An encoder whose vectors hold ones."""

    def __init__(self, *, says_its_size: bool = True) -> None:
        self._size = SIZE if says_its_size else -1
        self.batches: list[int] = []
        self.silent = False

    async def model_config(self, address: EngineAddress, model: str) -> ModelConfig:
        config = ModelConfig(max_batch_size=64)
        config.input.add(name="input_ids", data_type=9, dims=[-1])
        config.output.add(name="last_hidden_state", data_type=11, dims=[-1, self._size])
        return config

    async def compute(
        self, address: EngineAddress, model: str, rows: Sequence[Row], encoder: EncoderTensors, *, timeout_s: float
    ) -> Numbers:
        self.batches.append(len(rows))
        if self.silent:
            await asyncio.Event().wait()
        return np.ones((len(rows), max(len(row.ids) for row in rows), SIZE), np.float32)


async def ask(
    engines: Ones, tokens: int, task: Task = Task.POOL, dimensions: int | None = None, named_in: str | None = None
) -> Caller:
    rows = tuple(Row(ids=(1,) * 100) for _ in range(tokens // 100))
    request = EncodeRequest(
        request_id="r",
        target=changed(TARGET, named_in=named_in),
        task=task,
        rows=rows,
        dimensions=dimensions,
    )
    return await serve(engines, request)


async def serve(engines: Ones, request: EncodeRequest) -> Caller:
    metrics = EmbedWorkerMetrics.register(CollectorRegistry())
    caller = Caller(to_json(request))
    async with BatchQueues(engines, metrics, 10_000) as queues:  # type: ignore[arg-type]
        handler = EncodeHandler(queues, InFlightRequests(), metrics, max_body_bytes=10_000_000, addresses=GUARDED)
        await handler(caller.scope, caller.receive, caller.send)  # type: ignore[arg-type]
    return caller


@pytest.mark.parametrize(("says_its_size", "computed"), [(True, []), (False, [TOGETHER])])
async def test_the_vectors_of_too_many_tokens_are_refused_as_soon_as_their_size_is_known(
    says_its_size: bool, computed: list[int]
) -> None:
    engines = Ones(says_its_size=says_its_size)
    with pytest.RaisesGroup(InvalidRequest) as caught:
        await ask(engines, 4000)
    (refusal,) = caught.value.exceptions
    assert (refusal.param, refusal.code) == ("input", "too_complex")
    assert engines.batches[:1] == computed
    assert len(engines.batches) <= 2


@pytest.mark.parametrize(("task", "dimensions"), [(Task.POOL, 8), (Task.EMBED, None)])
async def test_what_is_answered_counts_and_not_what_is_computed(task: Task, dimensions: int | None) -> None:
    engines = Ones()
    assert (await ask(engines, 4000, task, dimensions)).status == 200
    assert engines.batches == [40]


def among(data: bytes = b"x" * 12, start: int = 1, length: int = 2) -> PreparedPicture:
    return PreparedPicture(data=data, height=2, width=2, start=start, length=length, digest="a")


def pictured(pixels: bytes = b"x" * 12, height: int = 2, length: int = 1) -> RowPicture:
    numbers = (1.0, 1.0, 1.0)
    return RowPicture(pixels=pixels, height=height, width=2, scale=numbers, shift=numbers, length=length)


@pytest.mark.parametrize(
    "rows",
    [
        (),
        (Row(ids=(1,)), Row(ids=())),
        (Row(ids=(1,), picture=pictured()),),
        (Row(ids=(), picture=pictured(b"x" * 11)),),
        (Row(ids=(), picture=pictured(b"x" * 13)),),
        (Row(ids=(), picture=pictured(b"", height=0)),),
        (Row(ids=(), picture=pictured(length=0)),),
        (Row(ids=(), picture=pictured(), pictures=(among(),)),),
        (Row(ids=(), pictures=(among(),)),),
        (Row(ids=(1, 1, 1), pictures=(among(b"x" * 11),)),),
        (Row(ids=(1, 1, 1), pictures=(among(), among(start=2))),),
        (Row(ids=(1, 1, 1), pictures=(among(start=-1),)),),
        (Row(ids=(1, 1, 1), pictures=(among(length=0),)),),
    ],
)
async def test_rows_that_hold_nothing_whole_are_refused(rows: tuple[Row, ...]) -> None:
    engines = Ones()
    with pytest.RaisesGroup(InvalidRequest) as caught:
        await serve(engines, EncodeRequest(request_id="r", target=TARGET, task=Task.EMBED, rows=rows))
    (refusal,) = caught.value.exceptions
    assert "at least one id each" in str(refusal)
    assert engines.batches == []


async def test_a_request_whose_time_is_over_hears_so() -> None:
    engines = Ones()
    engines.silent = True
    with pytest.RaisesGroup(UpstreamTimeout):
        await serve(
            engines,
            EncodeRequest(request_id="r", target=TARGET, task=Task.EMBED, rows=(Row(ids=(1,)),) * 2, timeout_s=0.01),
        )
    assert engines.batches == [2]


async def test_until_an_answer_shows_its_size_a_batch_is_small_enough_for_any() -> None:
    engines = Ones(says_its_size=False)
    assert (await ask(engines, 20_000, Task.EMBED)).status == 200
    assert sum(engines.batches) == 200
    assert engines.batches[0] == TOGETHER < max(engines.batches) == 64


async def test_an_engine_that_its_author_may_not_name_is_not_dialled() -> None:
    engines = Ones()
    with pytest.RaisesGroup(Unavailable):
        await ask(engines, 100, Task.EMBED, named_in="team")
    assert engines.batches == []
    assert (await ask(engines, 100, Task.EMBED)).status == 200
