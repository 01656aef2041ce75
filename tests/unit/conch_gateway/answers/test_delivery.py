"""What becomes of a worker's signs of life on their way to the client."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from conch_contracts.names import GENERATE_PATH
from conch_gateway.answers.delivery import MAX_ANSWER_BYTES, Delivery
from conch_gateway.answers.reply import Reply
from conch_gateway.answers.sse_frames import MAX_FRAME_BYTES
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.watchdog import ClientStalled, RequestActivity, WatchdogLimits, WatchdogVerdict, decide
from conch_gateway.telemetry.metrics import GatewayMetrics
from conch_gateway.upstream.port import AnswerLost
from testkit.gateway.fakes import FakeAnswer, FakeConnection, answered, gateway, lost, streamed

STREAM = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}], "stream": True}
FRAMES = (b'data: {"a":1}\n\n', b'data: {"a":2}\n\n', b"data: [DONE]\n\n")
USAGE = b': usage {"prompt_tokens":3,"completion_tokens":2}\n\n'
WORKING = b": working\n\n"
PATH = "/v1/chat/completions"


async def test_signs_of_work_are_not_relayed():
    served = gateway({GENERATE_PATH: streamed(WORKING, *FRAMES[:2], WORKING, FRAMES[2], USAGE)})
    answer = await served.client.post(PATH, STREAM)
    assert answer.body == b"".join(FRAMES)


async def test_a_sign_of_work_neither_begins_the_answer_nor_counts_as_its_first_token():
    served = gateway({GENERATE_PATH: streamed(WORKING, lost(started=True))})
    answer = await served.client.post(PATH, STREAM)
    assert (answer.status, answer.error["code"]) == (502, "upstream_lost")
    name = "conch_gateway_time_to_first_token_seconds_count"
    assert not served.registry.get_sample_value(name, {"model": "tiny-chat"})


def unread(from_message, *, stall_s, exchange=None, saver=None):
    """Return a delivery to a client that reads nothing from some message on, its activity, and when that has begun."""
    messages, waits = [], asyncio.Event()

    async def send(message):
        messages.append(message)
        if len(messages) >= from_message:
            waits.set()
            await asyncio.Event().wait()

    exchange = exchange or Exchange("POST", PATH, {}, "id", started=0.0)
    reply = Reply(send, exchange, FakeConnection(messages, lambda: len(messages) + 1 < from_message), stall_s=stall_s)
    noted = RequestActivity(sent=0.0)
    metrics = GatewayMetrics(CollectorRegistry()).of("tiny-chat")
    return Delivery(exchange, reply, noted, metrics, inter_token_patience_s=1, saver=saver), noted, waits


@pytest.mark.parametrize("from_message", [2, 3], ids=["frames", "what ends the stream"])
async def test_a_client_that_has_not_read_the_end_of_its_stream_is_not_told_that_the_engine_is_silent(from_message):
    frames = b"".join(FRAMES) + USAGE
    delivery, activity, waits = unread(from_message, stall_s=60)
    streaming = asyncio.create_task(delivery.stream(FakeAnswer(pieces=(frames,))))
    await asyncio.wait_for(waits.wait(), 60)
    later = activity.asked + 1000
    assert decide(later, activity, WatchdogLimits(deadline=later, keep_alive_s=15)) is WatchdogVerdict.NOTHING
    streaming.cancel()


async def test_a_client_that_is_slow_to_read_a_whole_answer_is_not_told_that_its_time_is_over():
    delivery, activity, waits = unread(2, stall_s=60)  # head, body
    delivering = asyncio.create_task(delivery.whole(FakeAnswer(pieces=(b"{}",))))
    await asyncio.wait_for(waits.wait(), 60)
    assert decide(1e9, activity, WatchdogLimits(deadline=1e9, keep_alive_s=15)) is WatchdogVerdict.NOTHING
    delivering.cancel()


async def test_what_an_engine_has_made_counts_though_the_client_does_not_read_it():
    exchange = Exchange("POST", PATH, {}, "id", started=0.0)
    delivery, _, _ = unread(2, stall_s=0.01, exchange=exchange)
    with pytest.raises(ClientStalled):
        await delivery.stream(FakeAnswer(pieces=(b"".join(FRAMES) + USAGE,)))
    assert (exchange.prompt_tokens, exchange.completion_tokens) == (3, 2)


async def test_a_worker_owes_nothing_while_its_answer_is_saved():
    seen = []

    class Saver:
        async def save(self, answer):
            later = activity.asked + 1000
            seen.append(decide(later, activity, WatchdogLimits(deadline=later + 1, keep_alive_s=1e9)))
            return answer

    delivery, activity, _ = unread(100, stall_s=60, saver=Saver())
    tail = b": response {}\n\nevent: response.completed\ndata: {}\n\n"
    await delivery.stream(FakeAnswer(pieces=(FRAMES[0], tail + USAGE)))
    assert seen == [WatchdogVerdict.NOTHING]


async def test_an_answer_without_end_is_not_read_to_its_end():
    delivery, _, _ = unread(100, stall_s=60)
    piece = bytes(2**20)
    with pytest.raises(AnswerLost):
        await delivery.whole(FakeAnswer(pieces=[piece] * (MAX_ANSWER_BYTES // len(piece) + 1)))


@pytest.mark.parametrize("from_message", [1, 2, 3])
async def test_a_client_that_reads_nothing_is_given_up_at_every_point_of_its_stream(from_message):
    delivery, _, _ = unread(from_message, stall_s=0.01)
    with pytest.raises(ClientStalled):
        await asyncio.wait_for(delivery.stream(FakeAnswer(pieces=(b"".join(FRAMES) + USAGE,))), 60)


@pytest.mark.parametrize("body", [b"", b"[1]", b"<html>"])
async def test_what_is_no_object_is_no_answer(body):
    served = gateway({GENERATE_PATH: answered(body)})
    answer = await served.client.post(PATH, {**STREAM, "stream": False})
    assert (answer.status, answer.error["type"]) == (502, "server_error")


@pytest.mark.parametrize("before", [(), FRAMES[:1], FRAMES[:2]])
async def test_a_frame_without_end_ends_the_answer_wherever_it_comes(before):
    served = gateway({GENERATE_PATH: streamed(*before, b"data: " + b"x" * (MAX_FRAME_BYTES + 1))})
    answer = await served.client.post(PATH, STREAM)
    assert answer.status == (200 if before else 502)
    assert b"x" * 100 not in answer.body
    assert b'"upstream_lost"' in answer.body
    assert answer.body.startswith(b"".join(before))
