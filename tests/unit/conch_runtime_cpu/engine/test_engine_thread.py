"""The engine with its threads, on a model in memory; every wait ends with an event, never with a sleep."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event

import numpy as np
import pytest
from numpy.typing import NDArray

from conch_contracts.messages.generation import SamplingParameters
from conch_runtime_cpu.engine.decoder import ShownFeatures
from conch_runtime_cpu.engine.engine_thread import EngineThread
from conch_runtime_cpu.engine.grammar_compilation import TokensEngine
from conch_runtime_cpu.engine.response_queue import ResponseQueue
from conch_runtime_cpu.engine.response_tensors import PartialResponse
from conch_runtime_cpu.engine.scheduler import FinishReason, Scheduler
from conch_runtime_cpu.errors import ChannelClosed, EngineStopped
from conch_runtime_cpu.requests import GenerationRequest

WAIT_S = 60.0


class ConstantModel:
    """Always predicts token 1; fails on token 9."""

    def __init__(self, slots: int = 4) -> None:
        self.slots = slots
        self.vocabulary = 10
        self.logits = np.zeros((slots, 10), np.float32)
        self.logits[:, 1] = 1

    def decode(self, tokens: list[int], lengths: list[int]) -> None:
        return None

    def prefill(self, row: int, ids: NDArray[np.int64], start: int, shown: ShownFeatures | None = None) -> None:
        if 9 in ids:
            raise ZeroDivisionError("a broken model")

    def prefill_keeping_all(
        self, row: int, ids: NDArray[np.int64], start: int, shown: ShownFeatures | None = None
    ) -> NDArray[np.float32]:
        raise NotImplementedError

    def move(self, source: int, target: int, length: int) -> None:
        return None


class RecordingChannel:
    """Keeps what it was sent, and checks that nobody uses it after the final message."""

    def __init__(self, gone: Callable[[], bool] = lambda: False, *, closed: bool = False) -> None:
        self.responses: SimpleQueue[PartialResponse] = SimpleQueue()
        self.misused = False
        self._gone = gone
        self._closed = closed
        self._final = False

    def send(self, response: PartialResponse) -> None:
        self.misused = self.misused or self._final
        self._final = response.final
        self.responses.put(response)
        if self._closed:
            raise ChannelClosed("gone")

    def cancelled(self) -> bool:
        self.misused = self.misused or self._final
        return self._gone()

    def wait_final(self) -> tuple[list[int], PartialResponse]:
        tokens: list[int] = []
        while not (response := self.responses.get(timeout=WAIT_S)).final:
            tokens += response.tokens
        return tokens + response.tokens, response


def _request(max_tokens: int, prompt: tuple[int, ...] = (1,)) -> GenerationRequest:
    sampling = SamplingParameters(max_tokens=max_tokens, temperature=0.0)
    return GenerationRequest(np.array(prompt, np.int64), sampling, seed=0)


@pytest.fixture
def engine() -> TokensEngine:
    made = EngineThread(Scheduler(ConstantModel()), ResponseQueue(PartialResponse, PartialResponse.add))
    made.start()
    return made


def test_an_answer_arrives_whole_and_the_channel_is_left_alone_afterwards(engine: TokensEngine) -> None:
    channels = [RecordingChannel() for _ in range(20)]
    for count, channel in enumerate(channels, 1):
        engine.submit(_request(count), channel)
    for count, channel in enumerate(channels, 1):
        tokens, response = channel.wait_final()
        assert tokens == [1] * count
        assert response.finish is not None
        assert response.finish.reason is FinishReason.LENGTH
    engine.stop()
    assert not any(channel.misused for channel in channels)


def test_a_client_that_has_gone_ends_its_request(engine: TokensEngine) -> None:
    channel = RecordingChannel(lambda: True)
    engine.submit(_request(10**9), channel)
    _, response = channel.wait_final()
    assert response.finish is not None
    assert response.finish.reason is FinishReason.CANCELLED
    engine.stop()
    assert not channel.misused


def test_a_closed_channel_ends_its_request_and_no_other(engine: TokensEngine) -> None:
    closed, other = RecordingChannel(closed=True), RecordingChannel()
    engine.submit(_request(10**9), closed)
    closed.responses.get(timeout=WAIT_S)
    engine.submit(_request(3), other)
    assert other.wait_final()[0] == [1, 1, 1]
    engine.stop()
    assert closed.responses.empty()


def test_the_place_of_a_closed_channel_goes_to_the_next() -> None:
    engine = EngineThread(Scheduler(ConstantModel(slots=1)), ResponseQueue(PartialResponse, PartialResponse.add))
    engine.start()
    other = RecordingChannel()
    engine.submit(_request(10**9), RecordingChannel(closed=True))
    engine.submit(_request(3), other)
    assert other.wait_final()[0] == [1, 1, 1]
    engine.stop()


def test_a_crash_answers_everyone_and_refuses_what_comes_later(engine: TokensEngine) -> None:
    channels = [RecordingChannel(), RecordingChannel()]
    engine.submit(_request(10**9), channels[0])
    channels[0].responses.get(timeout=WAIT_S)
    engine.submit(_request(1, prompt=(9,)), channels[1])
    for channel in channels:
        _, response = channel.wait_final()
        assert response.error == "The engine has stopped accepting requests: it has crashed."
    with pytest.raises(EngineStopped, match="it has crashed"):
        engine.submit(_request(1), RecordingChannel())
    engine.stop()


class BreaksOnce(RecordingChannel):
    """A channel whose first message meets a fault of ours."""

    broken = False

    def send(self, response: PartialResponse) -> None:
        if not self.broken:
            self.broken = True
            raise ZeroDivisionError("a broken sender")
        super().send(response)


def test_a_crash_of_the_sender_answers_everyone_and_refuses_what_comes_later(engine: TokensEngine) -> None:
    channels = (RecordingChannel(), BreaksOnce())
    for channel in channels:
        engine.submit(_request(10**9), channel)
    for channel in channels:
        assert "its sender of responses has crashed" in (channel.wait_final()[1].error or "")
    with pytest.raises(EngineStopped, match="its sender of responses has crashed"):
        engine.submit(_request(1), RecordingChannel())
    engine.stop()


def test_stopping_answers_what_is_left(engine: TokensEngine) -> None:
    channel = RecordingChannel()
    engine.submit(_request(10**9), channel)
    channel.responses.get(timeout=WAIT_S)
    engine.stop()
    _, response = channel.wait_final()
    assert response.error == "The engine has stopped accepting requests: it is ending."


def test_who_waits_for_a_long_computation_gets_signs_of_life() -> None:
    going_on = Event()

    class SlowModel(ConstantModel):
        def prefill(self, row: int, ids: NDArray[np.int64], start: int, shown: ShownFeatures | None = None) -> None:
            assert going_on.wait(WAIT_S)

    queue = ResponseQueue(PartialResponse, PartialResponse.add, sign_of_life_s=0.01)
    engine = EngineThread(Scheduler(SlowModel(slots=1)), queue)
    engine.start()
    running, waiting = RecordingChannel(), RecordingChannel()
    engine.submit(_request(2), running)
    engine.submit(_request(1), waiting)
    for channel in (running, waiting, running, waiting):
        assert channel.responses.get(timeout=WAIT_S) == PartialResponse()
    going_on.set()
    assert running.wait_final()[0] == [1, 1]
    assert waiting.wait_final()[0] == [1]
    engine.stop()
    assert not running.misused
    assert not waiting.misused
