"""Requests to a model that has no engine, and starts one for them."""

import asyncio
import time

import orjson
import pytest

from conch_contracts.names import ENCODE_PATH, GENERATE_PATH, PREPARE_PATH, PREPARE_ROWS_PATH
from conch_contracts.records import Engine, ModelKind, RoutingPolicy
from conch_gateway.answers.reply import Reply
from conch_gateway.generation.cold_start import HeldCaller, comment
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.watchdog import RequestActivity, WatchdogLimits, WatchdogVerdict, decide
from conch_gateway.settings import GatewaySettings
from conch_kit.http.asgi import Message
from conch_kit.registry.snapshot import Snapshot
from testkit.gateway.cold_starts import CHAT, FRAMES, PATH, STREAM, at_zero, awake, ends, held, sleeping
from testkit.gateway.fakes import (
    ENGINE,
    FakeConnection,
    answered,
    gateway,
    route,
    rows,
    snapshot,
    streamed,
)
from testkit.gateway.speech import TRANSCRIPTIONS, serving, speech_route
from testkit.http.forms import HEADERS, form
from testkit.waiting import eventually

PROMPTS = b'[{"ids":[0,1,2],"text":"xxx","text_is_exact":true,"pictures":[]}]'
"""As the tokenizer of these tests prepares `CHAT`, and the worker gets it."""
LIMIT_S = 60.0


async def test_held_requests_go_in_their_order_when_the_engine_comes() -> None:
    running = gateway(known=at_zero())
    tasks = await held(running, 3)
    demand = running.admission.load("me", 1).models["local/tiny-chat"]
    assert (demand.held, demand.queued, demand.in_flight) == (3, 0, 0)
    assert demand.oldest_wait_s > 0
    awake(running)
    assert [(await task).status for task in tasks] == [200] * 3
    assert running.registry.get_sample_value("conch_gateway_hold_seconds_count", {"model": "tiny-chat"}) == 3
    assert running.registry.get_sample_value("conch_gateway_held", {"model": "tiny-chat"}) == 0
    assert ends(running) == {"served": 3}
    demand = running.admission.load("me", 2).models["local/tiny-chat"]
    assert (demand.held, demand.in_flight) == (0, 0)
    assert demand.idle_s is not None


async def test_the_first_that_is_held_is_told_at_once_and_the_others_are_not() -> None:
    running, wished = gateway(known=at_zero()), []
    running.admission.held = wished.append
    tasks = await held(running, 2)
    assert wished == ["local/tiny-chat"]
    awake(running)
    await asyncio.gather(*tasks)


async def test_a_plain_request_gets_503_in_time_and_is_told_when_to_come_again() -> None:
    running = gateway(known=at_zero(), hold_s=0.05)
    answer = await running.client.post(PATH, CHAT)
    assert (answer.status, answer.error["code"]) == (503, "model_starting")
    assert 40 <= int(answer.headers[b"retry-after"]) <= 50
    assert b"x-conch-cold-start" not in answer.headers
    assert ends(running) == {"expired": 1}
    assert running.admission.load("me", 1).models == {}


async def test_a_stream_has_its_status_and_hears_that_an_engine_starts() -> None:
    running = gateway({GENERATE_PATH: streamed(*FRAMES)}, known=at_zero(), hold_status_s=0.01, hold_comment_s=0.01)
    asked = asyncio.create_task(running.client.post(PATH, STREAM))
    await eventually(lambda: running.client.connections and len(running.client.connections[0].pieces) > 1, "two words")
    awake(running)
    answer = await asked
    assert (answer.status, answer.headers[b"x-conch-cold-start"]) == (200, b"40")
    assert answer.headers[b"x-accel-buffering"] == b"no"
    assert answer.pieces[:2] == [b": an engine starts, ready in about 40 s\n\n"] * 2
    assert answer.body.endswith(b"".join(FRAMES))


@pytest.mark.parametrize(
    ("left_s", "said"),
    [
        (None, b": an engine starts\n\n"),
        (0.2, b": an engine starts, ready in about 1 s\n\n"),
        (0.0, b": an engine starts, and should be ready by now\n\n"),
    ],
)
def test_the_comment_names_a_time_that_is_still_to_come(left_s: float | None, said: bytes) -> None:
    assert comment(left_s) == said


async def test_a_client_that_is_slow_to_read_of_a_start_is_not_taken_for_a_silent_worker() -> None:
    waits, read = asyncio.Event(), asyncio.Event()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            waits.set()
            await read.wait()

    exchange = Exchange("POST", PATH, {}, "id", started=0.0)
    reply = Reply(send, exchange, FakeConnection([], lambda: False), stall_s=LIMIT_S)
    activity = RequestActivity(sent=0.0)
    caller = HeldCaller(exchange, 0.0, 1e12, GatewaySettings(redis_url="redis://unused"), activity, 0, reply)
    hold = caller.claim(1, prepared=0).hold
    assert hold is not None
    tell = hold().tell
    assert tell is not None
    telling = asyncio.ensure_future(tell(3.0))
    await asyncio.wait_for(waits.wait(), LIMIT_S)
    over = WatchdogLimits(deadline=0.0, keep_alive_s=1e9)
    assert decide(1e9, activity, over) is WatchdogVerdict.NOTHING
    read.set()
    await telling
    assert decide(1e9, activity, over) is WatchdogVerdict.OVERDUE


async def test_a_stream_whose_engine_comes_soon_has_no_trace_of_the_wait() -> None:
    running = gateway({GENERATE_PATH: streamed(*FRAMES)}, known=at_zero())
    (asked,) = await held(running, 1, STREAM)
    awake(running)
    answer = await asked
    assert (answer.body, b"x-conch-cold-start" in answer.headers) == (b"".join(FRAMES), False)


async def test_a_start_that_nobody_has_measured_is_not_estimated() -> None:
    known = sleeping(start_s=None)
    running = gateway({GENERATE_PATH: streamed(*FRAMES)}, known=at_zero(known), hold_status_s=0.01)
    asked = asyncio.create_task(running.client.post(PATH, STREAM))
    await eventually(lambda: running.client.connections and running.client.connections[0].pieces, "a word")
    awake(running, known)
    answer = await asked
    assert (answer.headers[b"x-conch-cold-start"], answer.pieces[0]) == (b"unknown", b": an engine starts\n\n")


@pytest.mark.parametrize(("begun", "status"), [(False, 503), (True, 200)])
async def test_a_start_that_fails_is_an_answer_with_the_reason_at_once(begun: bool, status: int) -> None:
    running = gateway(known=at_zero(), hold_status_s=0.01 if begun else 3600.0)
    (asked,) = await held(running, 1, STREAM)
    if begun:
        await eventually(lambda: running.client.connections[0].pieces, "a word")
    running.learn(at_zero(sleeping(start_failed="The image cannot be pulled.")))
    answer = await asyncio.wait_for(asked, LIMIT_S)
    assert answer.status == status
    error = orjson.loads(answer.body.rpartition(b"data: ")[2])["error"] if begun else answer.error
    assert error["message"] == "No engine of this model starts: The image cannot be pulled."
    assert ends(running) == {"failed": 1}
    later = await running.client.post(PATH, CHAT)
    assert (later.status, later.error["message"]) == (503, error["message"])


async def test_one_more_than_may_be_held_is_refused_within_ten_milliseconds() -> None:
    running = gateway(known=at_zero(sleeping(hold_max=2)))
    tasks = await held(running, 2)
    took_s = []
    for _ in range(5):
        began = time.perf_counter()
        answer = await running.client.post(PATH, CHAT)
        took_s.append(time.perf_counter() - began)
        assert (answer.status, answer.error["code"]) == (429, "rate_limit_exceeded")
        assert 40 <= int(answer.headers[b"retry-after"]) <= 50, "before that its place is still taken"
    assert min(took_s) < 0.01
    assert ends(running) == {"refused": 5}
    awake(running)
    await asyncio.gather(*tasks)


async def test_the_bodies_of_held_requests_have_a_bound_of_their_own() -> None:
    running = gateway(known=at_zero(), held_bytes=len(orjson.dumps(CHAT)) * 2 + 200)
    tasks = await held(running, 2)
    refused = await running.client.post(PATH, CHAT)
    assert (refused.status, 40 <= int(refused.headers[b"retry-after"]) <= 50) == (429, True)
    awake(running)
    assert [(await task).status for task in tasks] == [200] * 2


async def test_pictures_that_are_ready_for_the_engine_count_with_the_bodies() -> None:
    picture = {"data": "QUJD" * 1500, "height": 1, "width": 1, "start": 0, "length": 1, "digest": "d"}
    prompt = {"ids": [1], "text": "x", "pictures": [picture]}
    ready = {PREPARE_PATH: answered(orjson.dumps({"prompts": [prompt]}))}
    running = gateway(ready, known=at_zero(), held_bytes=10_000)
    (asked,) = await held(running, 1)
    assert (await running.client.post(PATH, CHAT)).status == 429
    awake(running)
    assert (await asked).status == 200


async def test_a_client_that_hangs_up_takes_its_wish_back() -> None:
    running = gateway(known=at_zero())
    tasks = await held(running, 1)
    running.client.hang_up()
    await asyncio.gather(*tasks)
    assert ends(running) == {"gone": 1}
    assert running.admission.load("me", 1).models == {}


@pytest.mark.parametrize("body", [CHAT, STREAM])
async def test_a_client_may_wait_less_long(body: dict[str, object]) -> None:
    running = gateway(known=at_zero())
    answer = await running.client.post(PATH, body, [(b"x-conch-max-wait", b"0.05")])
    assert (answer.status, answer.error["code"]) == (503, "model_starting")


async def test_who_asks_for_an_engine_that_is_there_wakes_nothing() -> None:
    running, wished = gateway(known=at_zero()), []
    running.admission.held = wished.append
    answer = await running.client.post(PATH, CHAT, [(b"x-conch-max-wait", b"0")])
    assert (answer.status, answer.error["code"]) == (503, "model_at_rest")
    assert (wished, running.admission.ready_in_s(sleeping().model_id)) == ([], 40)


async def test_who_does_not_wait_hears_of_an_engine_that_starts_for_others() -> None:
    running = gateway(known=at_zero())
    (other,) = await held(running, 1)
    answer = await running.client.post(PATH, CHAT, [(b"x-conch-max-wait", b"0")])
    assert (answer.status, answer.error["code"]) == (503, "model_starting")
    awake(running)
    assert (await other).status == 200


async def test_a_batch_waits_for_others_to_wake_the_model() -> None:
    running, wished = gateway(known=at_zero()), []
    running.admission.held = wished.append
    (batch,) = await held(running, 1, {**CHAT, "priority": 10})
    assert (wished, running.admission.load("me", 1).models) == ([], {}), "nobody is told of it"
    other = asyncio.create_task(running.client.post(PATH, {**CHAT, "priority": 9}))
    await eventually(lambda: running.admission.waiting()["local/tiny-chat"] == 2, "the other one that waits")
    assert wished == ["local/tiny-chat"]
    assert running.admission.load("me", 2).models["local/tiny-chat"].held == 1
    awake(running)
    assert [(await task).status for task in (batch, other)] == [200] * 2


async def test_a_batch_that_nobody_wakes_the_model_for_is_told_so() -> None:
    running = gateway(known=at_zero(), hold_s=0.05)
    answer = await running.client.post(PATH, {**CHAT, "priority": 10})
    assert (answer.status, answer.error["code"]) == (503, "model_at_rest")
    assert "a request starts none that does not wait or has a priority of 10 or more" in str(answer.error["message"])
    assert 48 <= int(answer.headers[b"retry-after"]) <= 60
    assert running.admission.ready_in_s(sleeping().model_id) == 40, "no start is under way"


async def test_a_stream_of_a_batch_does_not_hear_that_an_engine_starts() -> None:
    running = gateway({GENERATE_PATH: streamed(*FRAMES)}, known=at_zero(), hold_status_s=0.01)
    asked = asyncio.create_task(running.client.post(PATH, {**STREAM, "priority": 10}))
    await eventually(lambda: running.client.connections and running.client.connections[0].pieces, "a word")
    awake(running)
    answer = await asked
    assert answer.headers[b"x-conch-cold-start"] == b"unknown"
    assert answer.pieces[0] == b": no engine runs, and none is started for a request of this priority\n\n"
    assert answer.body.endswith(b"".join(FRAMES))


async def test_a_batch_leaves_room_to_who_wakes_the_model() -> None:
    batch = {**CHAT, "priority": 10}
    size = len(orjson.dumps(batch)) + len(PROMPTS)
    running = gateway(known=at_zero(sleeping(hold_max=2)), held_bytes=size * 4)
    tasks = await held(running, 2, batch)
    refused = await running.client.post(PATH, batch)
    assert (refused.status, refused.error["message"]) == (429, "Too much waits here for engines that start.")
    waker = asyncio.create_task(running.client.post(PATH, CHAT))
    assert (await tasks.pop()).status == 429, "the less urgent one has lost its place"
    awake(running)
    assert [(await task).status for task in (*tasks, waker)] == [200] * 2


async def test_a_batch_that_waits_for_a_slot_is_work_as_any_other() -> None:
    never = asyncio.Event()
    known = snapshot(route(), engines=(Engine(grpc=ENGINE, slots=1),))
    running = gateway({GENERATE_PATH: streamed(never)}, known=known)
    first = asyncio.create_task(running.client.post(PATH, STREAM))
    await running.upstream.asked(GENERATE_PATH).wait()
    (batch,) = await held(running, 1, {**CHAT, "priority": 10})
    assert running.admission.load("me", 1).models["local/tiny-chat"].queued == 1
    running.client.hang_up()
    await asyncio.gather(first, batch)


async def test_a_client_may_wait_less_long_for_a_slot_too() -> None:
    never = asyncio.Event()
    known = snapshot(route(), engines=(Engine(grpc=ENGINE, slots=1),))
    running = gateway({GENERATE_PATH: streamed(never)}, known=known)
    first = asyncio.create_task(running.client.post(PATH, STREAM))
    await running.upstream.asked(GENERATE_PATH).wait()
    answer = await running.client.post(PATH, CHAT, [(b"x-conch-max-wait", b"0.05")])
    assert (answer.status, answer.error["message"]) == (503, "No engine was free within 0.05 s.")
    running.client.hang_up()
    await first


async def test_a_stream_whose_engine_has_come_waits_for_a_slot_no_longer_than_its_client() -> None:
    patient = sleeping(routing=RoutingPolicy(queue_wait_s=3600))
    running = gateway({GENERATE_PATH: streamed(asyncio.Event())}, known=at_zero(patient), hold_status_s=0.01)
    (first,) = await held(running, 1, STREAM)
    second = asyncio.create_task(running.client.post(PATH, STREAM, [(b"x-conch-max-wait", b"0.5")]))
    await eventually(lambda: running.admission.waiting()["local/tiny-chat"] == 2, "one more that waits")
    awake(running, patient, slots=1)
    assert b"error" in (await asyncio.wait_for(second, 30)).body
    running.client.hang_up()
    await first


async def test_a_stream_whose_engine_has_come_waits_for_a_slot_from_then_on() -> None:
    patient, release = sleeping(routing=RoutingPolicy(queue_wait_s=3600)), asyncio.Event()
    running = gateway({GENERATE_PATH: streamed(release, *FRAMES)}, known=at_zero(patient), hold_status_s=0.01)
    tasks = await held(running, 2, STREAM)
    awake(running, patient, slots=1)
    await asyncio.wait(tasks, timeout=1.5, return_when=asyncio.FIRST_COMPLETED)
    assert running.admission.waiting() == {"local/tiny-chat": 1}
    release.set()
    assert [b"error" in (await task).body for task in tasks] == [False, False]


async def test_a_wait_that_is_no_time_is_a_400_that_names_the_header() -> None:
    answer = await gateway().client.post(PATH, CHAT, [(b"x-conch-max-wait", b"-1")])
    assert (answer.status, answer.error["param"]) == (400, "x-conch-max-wait")


async def test_a_model_that_is_deleted_while_requests_are_held_is_a_404() -> None:
    running = gateway(known=at_zero())
    tasks = await held(running, 1)
    running.learn(Snapshot())
    answer = await asyncio.wait_for(tasks[0], LIMIT_S)
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    assert ends(running) == {"deleted": 1}


async def test_a_model_at_zero_that_does_not_wake_answers_at_once() -> None:
    running = gateway(known=at_zero(sleeping(wakes=False)))
    answer = await running.client.post(PATH, CHAT)
    assert (answer.status, answer.error["code"]) == (503, "model_not_ready")


async def test_what_is_wrong_with_a_request_is_said_before_it_is_held() -> None:
    running = gateway(known=at_zero())
    assert (await running.client.post(PATH, {**CHAT, "temperature": 9})).status == 400
    assert running.admission.load("me", 1).models == {}


async def test_encoders_wake_too() -> None:
    known = sleeping(kind=ModelKind.EMBEDDING)
    vectors = answered(b'{"data":[{"object":"embedding","index":0,"embedding":[1.0]}]}')
    running = gateway({PREPARE_ROWS_PATH: rows(3), ENCODE_PATH: vectors}, known=at_zero(known))
    asked = asyncio.create_task(running.client.post("/v1/embeddings", {"model": "tiny-chat", "input": "hi"}))
    await eventually(lambda: running.admission.waiting()[known.model_id], "the request that is held")
    awake(running, known)
    assert (await asked).status == 200


async def test_speech_wakes_too() -> None:
    known = speech_route(wakes=True, engines_wanted=False, routing=RoutingPolicy(queue_wait_s=0.001))
    running = serving(answered(b'{"text":"hi"}'), engines=(), known=(known,))
    asked = asyncio.create_task(running.client.post(TRANSCRIPTIONS, form(("model", "ear")), HEADERS))
    await eventually(lambda: running.admission.waiting()[known.model_id], "the request that is held")
    awake(running, known)
    assert (await asked).status == 200


async def test_an_answer_in_the_background_waits_longer_than_proxies_do() -> None:
    body = {"model": "tiny-chat", "input": "hi", "background": True}
    running = gateway({GENERATE_PATH: answered(b'{"id":"x","status":"completed"}')}, known=at_zero(), hold_s=0.01)
    asked = asyncio.create_task(running.client.post("/v1/responses", body))
    await eventually(lambda: running.client.connections and running.client.connections[0].pieces, "the queued answer")
    assert (await running.client.post(PATH, CHAT)).status == 503  # this one has waited as long as a plain one may
    assert running.admission.waiting()["local/tiny-chat"] == 1
    awake(running)
    assert (await asked).status == 200
    assert running.upstream.sent(GENERATE_PATH)
