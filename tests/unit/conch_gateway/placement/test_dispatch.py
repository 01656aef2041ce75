"""Which engine and which worker get a job when others refuse it or break down over it; on fakes."""

import asyncio
from contextlib import nullcontext

import pytest

from conch_contracts.names import (
    ENCODE_PATH,
    GENERATE_PATH,
    PREPARE_PATH,
    PREPARE_ROWS_PATH,
    EngineAddress,
    WorkerUrl,
)
from conch_contracts.records import Dialect, Engine, ModelKind, Pool, RoutingPolicy
from conch_gateway.placement import model_queue
from conch_gateway.placement.admission import Admission
from conch_gateway.placement.attempts import ServiceProcesses
from conch_gateway.placement.claim import Claim
from conch_gateway.placement.dispatch import MAX_ERROR_BYTES, Dispatcher
from conch_gateway.placement.holds import Hold
from conch_gateway.placement.model_queue import PASSED_OVER_S
from conch_gateway.placement.pool_return import PoolReturn
from conch_gateway.placement.retry_budget import RetryBudget
from conch_gateway.placement.waiting_room import WaitingRoom
from testkit.clock import FakeClock
from testkit.gateway.fakes import ENGINE, FakeAnswer, FakeUpstream, gateway, lost, refused, route, rows, snapshot
from testkit.waiting import eventually

PATH = "/v1/chat/completions"
CHAT = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}
ENGINES = (Engine(grpc=EngineAddress("a:1")), Engine(grpc=EngineAddress("b:1")))
WORKERS = (WorkerUrl("http://w1:1"), WorkerUrl("http://w2:1"))


async def test_when_the_only_worker_breaks_down_before_the_first_byte_the_client_is_told_to_come_again():
    answer = await gateway({GENERATE_PATH: lambda _: lost()}).client.post(PATH, CHAT)
    assert (answer.status, answer.error["code"]) == (503, "upstream_lost")
    assert answer.headers[b"retry-after"] == b"2"


async def test_a_request_that_breaks_workers_is_given_to_two_at_most():
    workers = tuple(WorkerUrl(f"http://w{number}:1") for number in range(3))
    served = gateway({GENERATE_PATH: lambda _: lost()}, known=snapshot(workers=workers))
    answer = await served.client.post(PATH, CHAT)
    assert answer.status == 502
    assert len(served.upstream.sent(GENERATE_PATH)) == 2


async def test_another_engine_is_tried_when_the_worker_says_that_it_may():
    answers = iter([refused(503, "down", retryable=True), FakeAnswer(pieces=(b"{}",))])
    served = gateway({GENERATE_PATH: lambda _: next(answers)}, known=snapshot(engines=ENGINES))
    assert (await served.client.post(PATH, CHAT)).status == 200
    asked = [message["target"]["grpc"] for message in served.upstream.sent(GENERATE_PATH)]
    assert sorted(asked) == ["a:1", "b:1"]


@pytest.mark.parametrize(("said", "asked"), [("renamed", "renamed"), (None, "tiny-chat")])
async def test_an_engine_is_asked_for_the_model_by_its_own_name_for_it(said, asked):
    served = gateway(known=snapshot(engines=(Engine(grpc=ENGINE, model=said),)))
    assert (await served.client.post(PATH, CHAT)).status == 200
    (message,) = served.upstream.sent(GENERATE_PATH)
    assert message["target"]["model"] == asked


@pytest.mark.parametrize("code", ["server_shutting_down", "tokenizer_not_ready", "worker_storage_full"])
async def test_another_worker_is_tried_with_the_same_engine_when_one_cannot_serve_by_its_own_fault(code):
    answers = iter([refused(503, "no", code=code, retryable=True), FakeAnswer(pieces=(b"{}",))])
    served = gateway({GENERATE_PATH: lambda _: next(answers)}, known=snapshot(workers=WORKERS))
    assert (await served.client.post(PATH, CHAT)).status == 200
    assert len({post.url for post in served.upstream.posts[1:]}) == 2
    assert {message["target"]["grpc"] for message in served.upstream.sent(GENERATE_PATH)} == {ENGINE}


@pytest.mark.parametrize("code", ["server_shutting_down", "tokenizer_not_ready", "worker_storage_full"])
async def test_each_worker_is_asked_once_when_all_cannot_serve_by_their_own_fault(code):
    served = gateway(
        {GENERATE_PATH: lambda _: refused(503, "no", code=code, retryable=True)}, known=snapshot(workers=WORKERS)
    )
    answer = await served.client.post(PATH, CHAT)
    assert (answer.status, answer.error["code"]) == (503, code)
    assert len(served.upstream.sent(GENERATE_PATH)) == len(WORKERS)


async def test_a_refusal_without_the_mark_is_not_tried_again():
    served = gateway(
        {GENERATE_PATH: lambda _: refused(503, "full", code="overloaded")}, known=snapshot(engines=ENGINES)
    )
    answer = await served.client.post(PATH, CHAT)
    assert (answer.status, answer.error["message"]) == (503, "full")
    assert len(served.upstream.sent(GENERATE_PATH)) == 1


async def test_the_last_refusal_is_told_when_two_engines_refuse():
    answers = iter([refused(503, "down", retryable=True), refused(503, "full")])
    served = gateway({GENERATE_PATH: lambda _: next(answers)}, known=snapshot(engines=ENGINES))
    assert (await served.client.post(PATH, CHAT)).error["message"] == "full"


async def test_what_passes_while_an_engine_starts_is_not_taken_off_the_wait_for_another_chance(monkeypatch):
    class Stages:
        """The stages of a request, uncounted."""

        holding = waiting = staticmethod(nullcontext)

        @staticmethod
        def working():
            return nullcontext(())

    monkeypatch.setattr(model_queue, "PASSED_OVER_S", 0.01)
    clock, admission = FakeClock(), Admission()
    model = route(wakes=True, hold_max=9, routing=RoutingPolicy(queue_wait_s=60))
    beats = snapshot(model).workers[Pool.LLM]
    answers = iter([refused(503, "away", retryable=True), FakeAnswer(pieces=(b"{}",))])
    upstream = FakeUpstream({GENERATE_PATH: lambda _: next(answers)})
    budget, line = RetryBudget(lambda: None), PoolReturn("worker", lambda: True, lambda: beats, WaitingRoom(0))
    workers = ServiceProcesses("worker", upstream, lambda: beats, budget, line)
    admission.apply(snapshot(model, engines=()))
    claim = Claim(hold=lambda: Hold(600.0, lambda seconds: None))
    delivered = []

    async def deliver(answer):
        delivered.append(await answer.read())

    dispatcher = Dispatcher(workers, admission, clock=clock)
    running = asyncio.create_task(dispatcher.run(model, Stages(), claim, lambda engine: b"{}", deliver))
    await asyncio.sleep(0)
    clock.advance(1000)
    admission.apply(snapshot(model, engines=(Engine(grpc=ENGINE),)))
    await asyncio.wait_for(running, 30)
    assert delivered == [b"{}"]


async def test_who_was_held_in_vain_hears_that_an_engine_starts_and_not_what_failed_before():
    model = route(wakes=True, hold_max=9, routing=RoutingPolicy(queue_wait_s=60))
    served = gateway({GENERATE_PATH: lambda _: refused(503, "away", retryable=True)}, known=snapshot(model))
    asked = asyncio.create_task(served.client.post(PATH, CHAT, [(b"x-conch-max-wait", b"2")]))
    await eventually(lambda: served.upstream.sent(GENERATE_PATH), "an engine that is away")
    served.learn(snapshot(model, engines=()))
    answer = await asyncio.wait_for(asked, 30)
    assert (answer.status, answer.error["code"]) == (503, "model_starting")


async def test_an_engine_that_has_begun_to_answer_is_no_trial_any_more(monkeypatch):
    monkeypatch.setattr(model_queue, "PASSED_OVER_S", 0.01)
    end = asyncio.Event()
    answers = iter([refused(503, "away", retryable=True), FakeAnswer(pieces=(end, b"{}"))])
    scripts = {GENERATE_PATH: lambda _: next(answers, FakeAnswer(pieces=(b"{}",)))}
    served = gateway(scripts, known=snapshot(engines=(Engine(grpc=ENGINE, slots=4),)))
    long = asyncio.create_task(served.client.post(PATH, CHAT))
    await eventually(lambda: len(served.upstream.sent(GENERATE_PATH)) == 2, "the second attempt")
    assert (await asyncio.wait_for(served.client.post(PATH, CHAT), 20)).status == 200
    assert not long.done()
    end.set()
    assert (await long).status == 200


async def test_the_only_engine_is_asked_again_when_it_could_not_take_the_request():
    answers = iter([refused(503, "away", retryable=True), refused(503, "away", retryable=True)])
    served = gateway({GENERATE_PATH: lambda _: next(answers, FakeAnswer(pieces=(b"{}",)))})
    assert (await served.client.post(PATH, CHAT)).status == 200
    assert len(served.upstream.sent(GENERATE_PATH)) == 3


@pytest.mark.parametrize("wait_s", [0.01, 1.5 * PASSED_OVER_S], ids=["at the first try", "at a later one"])
async def test_an_engine_that_is_away_for_too_long_is_what_the_client_is_told(wait_s):
    known = snapshot(route(routing=RoutingPolicy(queue_wait_s=wait_s)))
    served = gateway({GENERATE_PATH: lambda _: refused(503, "away", retryable=True)}, known=known)
    answer = await asyncio.wait_for(served.client.post(PATH, CHAT), 30)
    assert (answer.status, answer.error["message"]) == (503, "away")


def says_nothing(for_s):
    """Return the answer about an engine that has said nothing for so long."""

    class Mute(FakeAnswer):
        async def read(self) -> bytes:
            await asyncio.sleep(for_s)
            return await super().read()

    answer = refused(503, "It says nothing.", retryable=True)
    return Mute(answer.status, answer.headers, answer.pieces)


async def test_what_an_engine_takes_to_say_nothing_is_taken_off_the_wait(monkeypatch):
    """Or a request that is alone would try again and again, for ten times as long as it may wait."""
    monkeypatch.setattr(model_queue, "PASSED_OVER_S", 0.01)

    served = gateway(
        {GENERATE_PATH: lambda _: says_nothing(0.25)}, known=snapshot(route(routing=RoutingPolicy(queue_wait_s=1)))
    )
    answer = await asyncio.wait_for(served.client.post(PATH, CHAT), 30)
    assert (answer.status, answer.error["message"]) == (503, "It says nothing.")
    assert len(served.upstream.sent(GENERATE_PATH)) <= 5


async def test_who_an_engine_has_kept_for_all_of_the_wait_and_dropped_waits_for_the_next_one(monkeypatch):
    monkeypatch.setattr(model_queue, "PASSED_OVER_S", 60)
    answers = iter([says_nothing(5.5)])
    model = route(routing=RoutingPolicy(queue_wait_s=5))
    scripts = {GENERATE_PATH: lambda _: next(answers, FakeAnswer(pieces=(b"{}",)))}
    served = gateway(scripts, known=snapshot(model, engines=ENGINES[:1]))
    asked = asyncio.create_task(served.client.post(PATH, CHAT))
    await eventually(lambda: served.admission.waiting() == {model.model_id: 1}, "the wait for the next engine")
    served.learn(snapshot(model, engines=ENGINES[1:]))
    assert (await asyncio.wait_for(asked, 30)).status == 200


async def test_a_request_over_which_engines_are_lost_is_given_to_two_at_most():
    served = gateway({GENERATE_PATH: lambda _: refused(502, "lost", code="upstream_lost", retryable=True)})
    answer = await served.client.post(PATH, CHAT)
    assert (answer.status, answer.error["code"]) == (502, "upstream_lost")
    assert len(served.upstream.sent(GENERATE_PATH)) == 2


async def test_nobody_else_is_asked_once_the_head_of_an_answer_has_come():
    broken = FakeAnswer(pieces=(lost(started=True),))
    served = gateway({GENERATE_PATH: lambda _: broken}, known=snapshot(engines=ENGINES, workers=WORKERS))
    answer = await served.client.post(PATH, CHAT)
    assert (answer.status, answer.error["code"]) == (502, "upstream_lost")
    assert len(served.upstream.sent(GENERATE_PATH)) == 1


@pytest.mark.parametrize(("retryable", "asked"), [(False, 1), (True, 2)])
async def test_another_tokenizer_is_asked_only_when_the_first_says_that_it_may_be(retryable, asked):
    served = gateway(
        {PREPARE_PATH: lambda _: refused(503, "no", retryable=retryable)}, known=snapshot(tokenizers=WORKERS)
    )
    assert (await served.client.post(PATH, CHAT)).error["message"] == "no"
    assert len(served.upstream.sent(PREPARE_PATH)) == asked


@pytest.mark.parametrize(
    ("kind", "path", "body", "status"),
    [
        (ModelKind.LLM, PREPARE_PATH, CHAT, 503),
        (ModelKind.LLM, GENERATE_PATH, CHAT, 502),
        (ModelKind.EMBEDDING, ENCODE_PATH, {"input": "hi"}, 502),
    ],
    ids=["of a tokenizer", "of an engine of texts", "of an encoder"],
)
async def test_an_answer_without_end_is_not_read_to_its_end(kind, path, body, status):
    piece, read = bytes(2**20), 0

    class Endless(FakeAnswer):
        async def read(self) -> bytes:
            nonlocal read
            read += len(piece)
            assert read < 200 * 2**20, "It is read on and on."
            return piece

    scripts = {PREPARE_ROWS_PATH: rows(3), path: lambda _: Endless()}
    model = route(kind=kind, dialect=Dialect.ENCODER if kind is ModelKind.EMBEDDING else Dialect.TOKENS)
    served = gateway(scripts, known=snapshot(model))
    answer = await served.client.post("/v1/embeddings" if kind is ModelKind.EMBEDDING else PATH, body)
    assert answer.status == status


async def test_a_request_is_sent_to_three_tokenizers_at_most():
    tokenizers = tuple(WorkerUrl(f"http://t{number}:1") for number in range(5))
    served = gateway(
        {PREPARE_PATH: lambda _: refused(503, "no", retryable=True)}, known=snapshot(tokenizers=tokenizers)
    )
    assert (await served.client.post(PATH, CHAT)).status == 503
    assert len(served.upstream.sent(PREPARE_PATH)) == 3


async def test_an_error_without_end_is_not_read_to_its_end():
    read = 0

    class Endless(FakeAnswer):
        async def read(self) -> bytes:
            nonlocal read
            read += 65_536
            return b"x" * 65_536

    answer = await gateway({GENERATE_PATH: lambda _: Endless(503)}).client.post(PATH, CHAT)
    assert answer.status == 502
    assert read < 2 * MAX_ERROR_BYTES
