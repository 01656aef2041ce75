"""The Triton client against the real server: streams, cancellation, time-outs and a dead backend."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from conch_contracts.names import EngineAddress
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import EngineError, EngineLost, EngineRejected, EngineTimeout, EngineUnavailable
from conch_kit.triton.stream import EngineStream
from conch_kit.triton.tensors import Outputs, add_input, is_final, new_request
from testkit.servers.triton import RunningTriton, triton_server

MODELS = Path(__file__).parent / "models"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    with triton_server(MODELS, "counting", folder=tmp_path_factory.mktemp("triton")) as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[TritonClient]:
    async with TritonClient() as opened:
        yield opened


class Counting:
    """The counting model on the server."""

    def __init__(self, client: TritonClient, address: EngineAddress) -> None:
        self._client = client
        self._address = address

    def stream(
        self, count: int, *, pause_ms: int = 0, model: str = "counting", inter_s: float = 60, timeout_s: float = 120
    ) -> EngineStream:
        request = new_request(model, "request")
        add_input(request, "count", "INT32", [1], [count])
        add_input(request, "pause_ms", "INT32", [1], [pause_ms])
        return self._client.stream(
            self._address, request, first_timeout_s=60, inter_timeout_s=inter_s, timeout_s=timeout_s
        )

    async def numbers(self, count: int, *, pause_ms: int = 0) -> list[int]:
        responses = [response async for response in self.stream(count, pause_ms=pause_ms)]
        assert [is_final(response) for response in responses] == [False] * (len(responses) - 1) + [True]
        return [Outputs(response).ints("number")[0] for response in responses[:-1]]

    async def cancelled(self) -> int:
        return (await self.numbers(0))[0]


@pytest.fixture
def counting(client: TritonClient, server: RunningTriton) -> Counting:
    return Counting(client, EngineAddress(server.grpc))


async def test_the_server_tells_of_its_model(client: TritonClient, server: RunningTriton) -> None:
    address = EngineAddress(server.grpc)
    assert await client.model_ready(address, "counting")
    assert not await client.model_ready(address, "other")
    assert (await client.model_config(address, "counting")).model_transaction_policy.decoupled
    assert {row.name: row.state for row in await client.repository_index(address)}["counting"] == "READY"


async def test_streams_side_by_side_each_get_their_own_numbers(counting: Counting) -> None:
    answers = await asyncio.gather(*(counting.numbers(count, pause_ms=1) for count in range(1, 33)))
    assert answers == [list(range(count)) for count in range(1, 33)]


async def test_an_engine_streams_from_its_first_message_to_the_end_of_the_stream(
    client: TritonClient, counting: Counting, server: RunningTriton
) -> None:
    stream = counting.stream(1, pause_ms=300)
    first = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)  # until it waits for the message
    assert client.streaming() == frozenset()
    await first
    assert client.streaming() == {(EngineAddress(server.grpc), "counting")}
    assert is_final(await anext(stream))
    assert client.streaming() == frozenset()


async def test_closing_a_stream_cancels_it_in_the_engine_and_no_other(counting: Counting) -> None:
    before = await counting.cancelled()
    other = asyncio.create_task(counting.numbers(50, pause_ms=10))
    async with contextlib.aclosing(counting.stream(1000, pause_ms=10)) as stream:
        await anext(stream)
    async with asyncio.timeout(30):
        while await counting.cancelled() == before:  # noqa: ASYNC110 - another process counts
            await asyncio.sleep(0.01)
    assert await other == list(range(50))
    assert await counting.cancelled() == before + 1


async def test_a_finished_request_counts_as_success(counting: Counting) -> None:
    before = await counting.cancelled()
    for _ in range(20):
        async with contextlib.aclosing(counting.stream(1)) as stream:
            async for response in stream:
                if is_final(response):
                    break
    assert await counting.cancelled() == before


@pytest.mark.parametrize(
    ("count", "model", "expected", "message"),
    [(-1, "counting", EngineRejected, "boom"), (1, "other", EngineUnavailable, "unknown model")],
)
async def test_what_the_server_refuses_is_told_in_its_words(
    counting: Counting, count: int, model: str, expected: type[EngineError], message: str
) -> None:
    with pytest.raises(expected, match=message):
        await anext(counting.stream(count, model=model))


async def test_errors_with_their_end_behind_them_do_the_server_no_harm(counting: Counting) -> None:
    async def fail() -> None:
        for _ in range(150):
            with pytest.raises(EngineRejected, match="boom"):
                await anext(counting.stream(-3))

    await asyncio.gather(*(fail() for _ in range(4)))
    assert await counting.numbers(3) == [0, 1, 2]


async def test_silence_between_messages_ends_the_request(counting: Counting) -> None:
    stream = counting.stream(10, pause_ms=5000, inter_s=0.2)
    await anext(stream)
    with pytest.raises(EngineTimeout) as caught:
        await anext(stream)
    assert not caught.value.first


async def test_the_deadline_of_a_request_holds_for_all_of_it(counting: Counting) -> None:
    with pytest.raises(EngineTimeout):
        async for _ in counting.stream(1000, pause_ms=20, timeout_s=0.5):
            pass


async def test_nobody_at_the_address_is_told_at_once_and_may_be_retried(client: TritonClient) -> None:
    nowhere = Counting(client, EngineAddress("127.0.0.1:1"))
    started = time.monotonic()
    with pytest.raises(EngineUnavailable) as caught:
        await anext(nowhere.stream(1))
    assert caught.value.retryable
    assert time.monotonic() - started < 30  # the time-outs are longer


async def test_channels_that_nobody_uses_are_closed(server: RunningTriton) -> None:
    async with TritonClient(idle_close_s=0) as client:
        counting = Counting(client, EngineAddress(server.grpc))
        running = counting.stream(5, pause_ms=20)
        await anext(running)
        await client.close_idle()
        assert len([response async for response in running]) == 5
        await client.close_idle()
        assert await counting.numbers(2) == [0, 1]


async def test_a_dead_backend_is_noticed_though_its_server_calls_itself_ready(tmp_path: Path) -> None:
    with triton_server(MODELS, "counting", folder=tmp_path) as server:
        async with TritonClient() as client:
            counting = Counting(client, EngineAddress(server.grpc))
            running = counting.stream(1000, pause_ms=10, inter_s=0.5)
            await anext(running)
            with pytest.raises(EngineError):
                await anext(counting.stream(-2))
            with pytest.raises((EngineTimeout, EngineLost)):  # silence, or the server's own end of the stream
                async for _ in running:
                    pass
            with pytest.raises(EngineUnavailable):
                await anext(counting.stream(1))
