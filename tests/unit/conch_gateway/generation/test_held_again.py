"""Requests that are held more than once: their engine has gone before it answered."""

import asyncio
import time

import pytest

from conch_contracts.names import GENERATE_PATH, Digest, EngineAddress
from conch_contracts.records import Engine, RoutingPolicy
from conch_gateway.answers.reply import Reply
from conch_gateway.generation.cold_start import HeldCaller
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.watchdog import RequestActivity
from conch_gateway.settings import GatewaySettings
from conch_gateway.upstream.port import Post
from testkit.gateway.cold_starts import CHAT, FRAMES, PATH, STREAM, at_zero, awake, ends, held, sleeping
from testkit.gateway.fakes import (
    FakeAnswer,
    FakeConnection,
    answered,
    gateway,
    refused,
    snapshot,
    streamed,
)
from testkit.waiting import eventually

LIMIT_S = 60.0


@pytest.mark.parametrize(
    ("max_wait_s", "stream", "left_s"), [(None, False, 50), (None, True, 295), (20.0, False, 15), (20.0, True, 15)]
)
def test_all_holds_of_a_request_end_when_the_first_would_have(
    max_wait_s: float | None, *, stream: bool, left_s: float
) -> None:
    exchange = Exchange("POST", PATH, {}, "id", started=0.0)
    exchange.max_wait_s = max_wait_s
    reply = Reply(FakeConnection([], lambda: True).push, exchange, FakeConnection([], lambda: True), stall_s=LIMIT_S)
    read_at, settings = time.monotonic() - 5, GatewaySettings(redis_url="redis://unused")
    activity = RequestActivity(sent=0.0)
    caller = HeldCaller(exchange, read_at, read_at + 300, settings, activity, 0, reply if stream else None)
    hold = caller.claim(1, prepared=0).hold
    assert hold is not None
    assert left_s - 1 < hold().patience_s <= left_s


async def test_who_waits_for_a_slot_when_the_last_engine_dies_is_held_for_the_next_one() -> None:
    end = asyncio.Event()
    answers = iter([streamed(end, *FRAMES), answered(b"{}")])
    known = sleeping(engines_wanted=True, routing=RoutingPolicy(queue_wait_s=600))
    running = gateway({GENERATE_PATH: lambda post: next(answers)(post)}, known=snapshot(known, engines=()))
    awake(running, known, slots=1)
    first = asyncio.create_task(running.client.post(PATH, STREAM))
    await asyncio.wait_for(running.upstream.asked(GENERATE_PATH).wait(), LIMIT_S)
    queued = asyncio.create_task(running.client.post(PATH, CHAT))
    await eventually(lambda: running.admission.waiting()[known.model_id] == 1, "one that waits")
    running.learn(snapshot(known, engines=()))
    held_now = lambda: running.admission.load("me", 1).models[known.model_id].held  # noqa: E731
    await eventually(lambda: held_now() == 1, "the same, held")
    running.learn(snapshot(known, engines=(Engine(grpc=EngineAddress("127.0.0.1:8009")),)))
    assert (await asyncio.wait_for(queued, LIMIT_S)).status == 200
    assert ends(running) == {"served": 1}
    end.set()
    await first


async def test_a_stream_that_is_held_again_is_no_engine_that_stopped_answering() -> None:
    known = sleeping(routing=RoutingPolicy(first_token_timeout_s=0.01, queue_wait_s=60))

    def breaks(_: Post) -> FakeAnswer:
        running.learn(snapshot(known, engines=()))
        return refused(502, "lost", code="upstream_lost", retryable=True)

    answers = iter([breaks, streamed(*FRAMES)])
    running = gateway(
        {GENERATE_PATH: lambda post: next(answers)(post)}, known=at_zero(known), worker_grace_s=0.0, keep_alive_s=0.03
    )
    (asked,) = await held(running, 1, STREAM)
    awake(running, known)
    await eventually(lambda: running.admission.waiting()[known.model_id] == 1, "the second hold")
    await asyncio.sleep(0.1)  # ten times as long as an engine may be silent
    awake(running, known)
    answer = await asyncio.wait_for(asked, LIMIT_S)
    assert answer.body.endswith(b"".join(FRAMES))


async def test_a_prompt_is_not_given_to_the_engine_of_another_tokenizer() -> None:
    edited = sleeping(tokenizer_digest=Digest("1" * 64))
    running = gateway(known=at_zero())
    (asked,) = await held(running, 1)
    awake(running, edited)
    answer = await asyncio.wait_for(asked, LIMIT_S)
    assert (answer.status, answer.error["message"]) == (503, "The model was replaced while the request waited.")
    assert 1 <= int(answer.headers[b"retry-after"]) <= 4
    assert running.upstream.sent(GENERATE_PATH) == []
    assert (await asyncio.wait_for(running.client.post(PATH, CHAT), LIMIT_S)).status == 200


async def test_a_hold_that_begins_while_a_worker_is_away_is_counted_once() -> None:
    known = sleeping(engines_wanted=True, routing=RoutingPolicy(queue_wait_s=600))
    running = gateway(known=snapshot(known, engines=(), workers=()), once_there=lambda _: True)
    asked = asyncio.create_task(running.client.post(PATH, CHAT))
    waiting = {"model": "tiny-chat"}
    await eventually(lambda: running.registry.get_sample_value("conch_gateway_waiting", waiting) == 1, "the wait")
    assert ends(running) == {}
    running.learn(snapshot(known, engines=()))
    await eventually(lambda: running.admission.waiting()[known.model_id] == 1, "the hold")
    awake(running, known)
    assert (await asyncio.wait_for(asked, LIMIT_S)).status == 200
    assert ends(running) == {"served": 1}
