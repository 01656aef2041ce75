import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from tritonclient.grpc.model_config_pb2 import ModelConfig

from conch_contracts.dialects import tokens
from conch_contracts.messages.encoding import EncoderTarget, Row
from conch_contracts.messages.message import changed
from conch_contracts.names import EngineAddress
from conch_contracts.records import Pooling
from conch_embed_worker.batch_queues import BatchQueues
from conch_embed_worker.batch_tensors import Numbers
from conch_embed_worker.metrics import EmbedWorkerMetrics
from conch_kit.errors import InternalError
from conch_kit.triton.encoder_tensors import EncoderTensors
from conch_kit.triton.errors import EngineError, EngineRejected, EngineUnavailable
from testkit.builders.picture_rows import picture_row, row_with_picture
from testkit.waiting import eventually

TARGET = EncoderTarget(address=EngineAddress("127.0.0.1:1"), model="m")
BAD = 666


class FakeEngines:
    """Gives each token back as a vector, when it is let; a row with a bad token spoils its whole batch."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.batches: list[list[tuple[int, ...]]] = []
        self.failure: Exception | None = None
        self.configs = 0
        self.size = 2
        self.timeouts: list[float] = []

    async def model_config(self, address: EngineAddress, model: str) -> ModelConfig:
        self.configs += 1
        config = ModelConfig(max_batch_size=4)
        for name in ("input_ids", "attention_mask"):
            config.input.add(name=name, data_type=9, dims=[-1])
        config.output.add(name="last_hidden_state", data_type=11, dims=[-1, self.size])
        return config

    async def compute(
        self, address: EngineAddress, model: str, rows: Sequence[Row], encoder: EncoderTensors, *, timeout_s: float
    ) -> Numbers:
        self.batches.append([row.ids for row in rows])
        self.timeouts.append(timeout_s)
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        if any(BAD in row.ids for row in rows):
            raise EngineRejected("a bad row")
        width = max(len(row.ids) for row in rows)
        padded = [[*row.ids, *[99] * (width - len(row.ids))] for row in rows]
        return np.array(padded, np.float32)[:, :, np.newaxis].repeat(2, axis=2)


@pytest.fixture
def engines() -> FakeEngines:
    return FakeEngines()


@pytest.fixture
async def queues(engines: FakeEngines) -> AsyncIterator[BatchQueues]:
    async with BatchQueues(engines, EmbedWorkerMetrics.register(CollectorRegistry()), 1000) as all_queues:  # type: ignore[arg-type]
        yield all_queues


async def run(queues: BatchQueues, *rows: tuple[int, ...], pooling: Pooling | None = Pooling.MEAN) -> list[list[float]]:
    results = await queues.run(TARGET, [Row(ids=ids) for ids in rows], pooling, 60.0)
    return [result.tolist() for result in results]


async def test_an_idle_engine_gets_a_row_at_once(queues: BatchQueues, engines: FakeEngines) -> None:
    assert await run(queues, (1, 3)) == [[2, 2]]
    assert engines.batches == [[(1, 3)]]


async def test_results_keep_the_order_of_the_rows(queues: BatchQueues) -> None:
    rows = [(index,) * (1 + 40 * (index % 3)) for index in range(1, 20)]
    assert await run(queues, *rows) == [[index, index] for index in range(1, 20)]


async def test_tokens_come_back_without_padding(queues: BatchQueues) -> None:
    assert await run(queues, (1, 2), (3,), pooling=None) == [[[1, 1], [2, 2]], [[3, 3]]]


async def test_requests_gather_while_the_engine_works(queues: BatchQueues, engines: FakeEngines) -> None:
    engines.open.clear()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(queues, (number,))) for number in range(1, 7)]
        await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
        engines.open.set()
    assert [task.result() for task in tasks] == [[[number, number]] for number in range(1, 7)]
    assert engines.batches == [[(1,)], [(2,)], [(3,), (4,), (5,), (6,)]]


@pytest.mark.parametrize(("size", "together"), [(1024, 4), (512 * 1024, 3), (64 * 1024 * 1024, 1), (-1, 4)])
async def test_a_batchs_output_fits_into_a_message(
    queues: BatchQueues, engines: FakeEngines, size: int, together: int
) -> None:
    engines.size = size
    await run(queues, *[(1,)] * 4)
    assert max(len(batch) for batch in engines.batches) == together


async def test_a_single_row_overtakes_a_long_list(queues: BatchQueues, engines: FakeEngines) -> None:
    engines.open.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(queues, *[(1,)] * 100))
        await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
        short = group.create_task(run(queues, (7,)))
        await asyncio.sleep(0)
        engines.open.set()
        await short
    assert (7,) in engines.batches[2]
    assert len(engines.batches) > 20


async def test_a_bad_row_fails_its_own_request_only(queues: BatchQueues, engines: FakeEngines) -> None:
    engines.open.clear()
    async with asyncio.TaskGroup() as group:
        good = [group.create_task(run(queues, (number,))) for number in range(1, 4)]
        await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
        bad = group.create_task(_failure(queues, (BAD,)))
        more = [group.create_task(run(queues, (number,))) for number in range(4, 7)]
        await asyncio.sleep(0)
        engines.open.set()
    assert isinstance(bad.result(), EngineRejected)
    assert [task.result() for task in (*good, *more)] == [[[number, number]] for number in range(1, 7)]


async def test_a_request_that_shared_a_bad_batch_stands_in_the_queue_once(
    queues: BatchQueues, engines: FakeEngines, caplog: pytest.LogCaptureFixture
) -> None:
    engines.open.clear()
    async with asyncio.TaskGroup() as group:
        first = [group.create_task(run(queues, (number,))) for number in (1, 2)]
        await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
        bad = group.create_task(_failure(queues, (BAD,)))
        long = group.create_task(run(queues, *[(3,)] * 30))
        await asyncio.sleep(0)
        engines.open.set()
    assert isinstance(bad.result(), EngineRejected)
    assert [task.result() for task in (*first, long)] == [[[1, 1]], [[2, 2]], [[3, 3]] * 30]
    assert not caplog.records, "no callback has failed"


async def test_a_batch_that_fails_after_one_has_gone_fails_those_that_wait(
    queues: BatchQueues, engines: FakeEngines
) -> None:
    engines.open.clear()
    first = [asyncio.create_task(run(queues, (number,))) for number in (1, 2)]
    await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
    gone, stays = (asyncio.create_task(run(queues, (number,))) for number in (3, 4))
    await asyncio.sleep(0)
    first[0].cancel()
    await eventually(lambda: len(engines.batches) == 3, "a call for both")
    gone.cancel()
    await asyncio.sleep(0)
    engines.failure = EngineUnavailable("gone")
    engines.open.set()
    results = await asyncio.gather(stays, first[1], return_exceptions=True)
    assert [type(result) for result in results] == [EngineUnavailable] * 2


async def test_an_engine_that_is_away_fails_all_and_its_config_is_read_again(
    queues: BatchQueues, engines: FakeEngines
) -> None:
    engines.failure = EngineUnavailable("gone")
    assert isinstance(await _failure(queues, *[(1,)] * 100), EngineUnavailable)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(engines.batches) <= 3, "the rows of a request that has failed go to no engine"
    engines.failure = None
    assert await run(queues, (1,)) == [[1, 1]]
    assert engines.configs == 2


@pytest.mark.parametrize(("patience_s", "shortest", "longest"), [(2.0, 2.0, 2.0), (60.0, 0.001, 5.0)])
async def test_a_batch_has_the_engines_time_or_what_is_left_of_its_requests(
    queues: BatchQueues, engines: FakeEngines, patience_s: float, shortest: float, longest: float
) -> None:
    target = changed(TARGET, patience_s=patience_s)
    await queues.run(target, [Row(ids=(1,))], Pooling.MEAN, 5.0)
    assert shortest <= engines.timeouts[0] <= longest


async def test_of_more_lanes_than_are_kept_the_oldest_goes_unless_it_is_at_work(
    queues: BatchQueues, engines: FakeEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conch_embed_worker.batch_queues.MAX_QUEUES", 1)
    targets = [changed(TARGET, model=name) for name in ("first", "second", "third")]
    engines.open.clear()
    rows = [Row(ids=(1,))]
    working = asyncio.create_task(queues.run(targets[0], rows, Pooling.MEAN, 60.0))
    await eventually(lambda: len(engines.batches) == 1, "a call of the engine")
    second = asyncio.create_task(queues.run(targets[1], rows, Pooling.MEAN, 60.0))
    await eventually(lambda: len(engines.batches) == 2, "a call for another model")
    engines.open.set()
    await asyncio.gather(working, second)
    await queues.run(targets[0], rows, Pooling.MEAN, 60.0)
    assert engines.configs == 2, "the queue that was at work is still there"
    await queues.run(targets[2], rows, Pooling.MEAN, 60.0)
    await queues.run(targets[1], rows, Pooling.MEAN, 60.0)
    assert engines.configs == 4, "the idle one that was used least recently has gone"


async def test_one_that_is_at_work_for_long_keeps_no_idle_ones(
    queues: BatchQueues, engines: FakeEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conch_embed_worker.batch_queues.MAX_QUEUES", 1)
    compute, released = engines.compute, asyncio.Event()

    async def slow(address: EngineAddress, model: str, *batch: Any, **limits: Any) -> Numbers:
        if model == "slow":
            await released.wait()
        return await compute(address, model, *batch, **limits)

    async def ask(model: str) -> None:
        await queues.run(changed(TARGET, model=model), [Row(ids=(1,))], Pooling.MEAN, 60.0)

    monkeypatch.setattr(engines, "compute", slow)
    working = asyncio.create_task(ask("slow"))
    await eventually(lambda: engines.configs == 1, "the first to be asked")
    for model in ("second", "third", "second"):
        await ask(model)
    assert engines.configs == 4, "the idle one goes, though an older one is at work"
    released.set()
    await working
    for model in ("third", "slow"):
        await ask(model)
    assert engines.configs == 6, "all that are idle go, until there is room"


async def test_requests_that_come_while_a_config_is_read_share_its_queue(
    queues: BatchQueues, engines: FakeEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, model_config = asyncio.Event(), engines.model_config

    async def slow(address: EngineAddress, model: str) -> ModelConfig:
        config = await model_config(address, model)
        await reading.wait()
        return config

    monkeypatch.setattr(engines, "model_config", slow)
    engines.open.clear()
    tasks = [asyncio.create_task(run(queues, (number,))) for number in range(1, 7)]
    await eventually(lambda: engines.configs == 6, "all to ask")
    reading.set()
    await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
    engines.open.set()
    await asyncio.gather(*tasks)
    assert len(engines.batches) == 3, "one queue has two calls under way at most"


async def test_a_request_whose_time_is_over_does_not_wait_for_the_config(
    queues: BatchQueues, engines: FakeEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(address: EngineAddress, model: str) -> ModelConfig:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(engines, "model_config", never)
    with pytest.raises(TimeoutError):
        await queues.run(TARGET, [Row(ids=(1,))], Pooling.MEAN, 0.01)


async def test_a_fault_fails_its_batch_and_is_logged_once(
    queues: BatchQueues, engines: FakeEngines, caplog: pytest.LogCaptureFixture
) -> None:
    engines.failure = IndexError("a fault of ours")
    with pytest.raises(InternalError):
        await run(queues, (1,), (2,))
    assert [record.exc_info is not None for record in caplog.records] == [True]
    engines.failure = None
    assert await run(queues, (1,)) == [[1, 1]]


async def test_a_request_whose_time_is_over_leaves_the_queue(queues: BatchQueues, engines: FakeEngines) -> None:
    engines.open.clear()
    async with asyncio.TaskGroup() as group:
        for number in (1, 2):
            group.create_task(run(queues, (number,)))
        await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
        with pytest.raises(TimeoutError):
            await queues.run(TARGET, [Row(ids=(3,))], Pooling.MEAN, 0.01)
        engines.open.set()
    assert engines.batches == [[(1,)], [(2,)]]


async def test_a_request_that_is_cancelled_leaves_the_queue(queues: BatchQueues, engines: FakeEngines) -> None:
    engines.open.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(queues, *[(1,)] * 8))
        gone = group.create_task(run(queues, *[(2,)] * 100))
        await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
        gone.cancel()
        await asyncio.sleep(0)
        engines.open.set()
    assert (2,) not in [row for batch in engines.batches[2:] for row in batch]


@pytest.mark.parametrize("rows", [1, 2])
async def test_a_batch_that_nobody_waits_for_is_cancelled_and_its_place_is_free(
    queues: BatchQueues, engines: FakeEngines, rows: int
) -> None:
    engines.open.clear()
    gone = [asyncio.create_task(run(queues, *[(number,)] * rows)) for number in (1, 2)]
    await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
    next_one = asyncio.create_task(run(queues, (3,)))
    gone[0].cancel()
    await eventually(lambda: len(engines.batches) == 3, "a place for the next call")
    engines.open.set()
    assert await next_one == [[3, 3]]
    assert await gone[1] == [[2, 2]] * rows


async def test_a_batch_goes_on_while_one_of_its_requests_waits(queues: BatchQueues, engines: FakeEngines) -> None:
    engines.open.clear()
    first = [asyncio.create_task(run(queues, (number,))) for number in (1, 2)]
    await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
    gone, stays = (asyncio.create_task(run(queues, (number,))) for number in (3, 4))
    await asyncio.sleep(0)
    first[0].cancel()
    await eventually(lambda: len(engines.batches) == 3, "a call for both")
    gone.cancel()
    await asyncio.sleep(0)
    engines.open.set()
    assert await stays == [[4, 4]]
    assert await first[1] == [[2, 2]]
    assert engines.batches == [[(1,)], [(2,)], [(3,), (4,)]]


async def test_the_end_waits_for_no_silent_engine(engines: FakeEngines) -> None:
    engines.open.clear()
    async with asyncio.timeout(30):
        async with BatchQueues(engines, EmbedWorkerMetrics.register(CollectorRegistry()), 1000) as queues:  # type: ignore[arg-type]
            waiting = asyncio.create_task(run(queues, *[(1,)] * 20))
            await eventually(lambda: len(engines.batches) == 2, "two calls of the engine")
    waiting.cancel()


async def _failure(queues: BatchQueues, *rows: tuple[int, ...]) -> EngineError:
    with pytest.raises(EngineError) as caught:
        await run(queues, *rows)
    return caught.value


class SeeingEngines(FakeEngines):
    """Gives the first byte of each picture as its vector."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[str] = []

    async def model_config(self, address: EngineAddress, model: str) -> ModelConfig:
        config = await super().model_config(address, model)
        config.input.add(name="pixel_values", data_type=11, dims=[3, -1, -1], optional=True)
        for item in config.input:
            item.optional = True
        config.output.add(name="image_embeds", data_type=11, dims=[-1])
        for name in tokens.IMAGES:
            config.input.add(name=name, data_type=8, dims=[-1], optional=True)
        return config

    async def compute(
        self, address: EngineAddress, model: str, rows: Sequence[Row], encoder: EncoderTensors, *, timeout_s: float
    ) -> Numbers:
        self.outputs.append(encoder.output)
        if rows[0].pictures:
            assert len(rows) == 1
            return np.array([[rows[0].pictures[0].data[0]] * 2], np.float32)
        pictures = [row.picture for row in rows if row.picture is not None]
        if not pictures:
            return await super().compute(address, model, rows, encoder, timeout_s=timeout_s)
        assert len(pictures) == len(rows)
        assert len({picture.height for picture in pictures}) == 1
        return np.array([[picture.pixels[0]] * 2 for picture in pictures], np.float32)


async def test_texts_and_pictures_of_each_size_go_apart_and_keep_their_order() -> None:
    engines = SeeingEngines()
    rows = [Row(ids=(1, 1)), picture_row(2, 4), Row(ids=(3,)), picture_row(4, 4), picture_row(5, 8)]
    rows += [row_with_picture(6), row_with_picture(7)]
    async with BatchQueues(engines, EmbedWorkerMetrics.register(CollectorRegistry()), 1000) as queues:  # type: ignore[arg-type]
        results = await queues.run(TARGET, rows, Pooling.MEAN, 60.0)
    assert [result.tolist() for result in results] == [[number, number] for number in range(1, 8)]
    assert sorted(engines.outputs) == ["image_embeds"] * 2 + ["last_hidden_state"] * 3
