"""Requests to encoders whose answers may be given again, through the ASGI application, on fakes."""

import asyncio
from functools import partial
from typing import Any

import orjson
import pytest

from conch_contracts.names import ENCODE_PATH, PREPARE_ROWS_PATH, EngineAddress
from conch_contracts.records import EncoderProfile, Engine, ModelKind, Pooling, Route
from testkit.gateway.encoders import FakeStore, serving
from testkit.gateway.fakes import ENGINE, Answered, FakeAnswer, Gateway, answered, gateway, route, rows, snapshot
from testkit.waiting import eventually

VECTORS = b'{"data":[{"object":"embedding","index":0,"embedding":[1.0,0.0]}]}'


async def test_only_a_model_with_a_cache_says_hit_or_miss() -> None:
    store = FakeStore()
    cached = serving(ModelKind.EMBEDDING, answered(VECTORS), profile=EncoderProfile(cache_ttl_s=60), store=store)
    answers = [await cached.client.post("/v1/embeddings", {"input": "hi"}) for _ in range(2)]
    assert [answer.headers[b"x-conch-cache"] for answer in answers] == [b"miss", b"hit"]
    first, second = (orjson.loads(answer.body)["data"] for answer in answers[:2])
    assert first == second
    assert [ttl for _, ttl in store.kept.values()] == [60]
    assert len(cached.upstream.sent(ENCODE_PATH)) == 1
    plain = serving(ModelKind.EMBEDDING, answered(VECTORS))
    assert b"x-conch-cache" not in (await plain.client.post("/v1/embeddings", {"input": "hi"})).headers


@pytest.mark.parametrize("changes", [{"pooling": Pooling.CLS}, {"version": "2"}, {"output": "o"}, {"normalize": False}])
async def test_another_version_or_pooling_is_not_answered_from_the_cache(changes: dict[str, Any]) -> None:
    store = FakeStore()
    profile = EncoderProfile(cache_ttl_s=60, version="1")
    for each in (profile, profile.model_copy(update=changes)):
        served = serving(ModelKind.EMBEDDING, answered(VECTORS), profile=each, store=store)
        answer = await served.client.post("/v1/embeddings", {"input": "hi"})
        assert answer.headers[b"x-conch-cache"] == b"miss"


async def test_requests_with_another_salt_share_no_answer() -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS), profile=EncoderProfile(cache_ttl_s=60), store=FakeStore())
    salts = [{}, {"cache_salt": "a"}, {"cache_salt": "b"}, {"cache_salt": "a"}]
    answers = [await served.client.post("/v1/embeddings", {"input": "hi", **salt}) for salt in salts]
    assert [answer.headers[b"x-conch-cache"] for answer in answers] == [b"miss", b"miss", b"miss", b"hit"]


async def test_an_answer_is_kept_though_its_client_hangs_up_as_soon_as_it_has_it() -> None:
    class Hasty(FakeStore):
        async def put(self, key: str, body: bytes, ttl_s: float) -> None:
            served.client.hang_up()
            await asyncio.sleep(0)
            await super().put(key, body, ttl_s)

    store = Hasty()
    served = serving(ModelKind.EMBEDDING, answered(VECTORS), profile=EncoderProfile(cache_ttl_s=60), store=store)
    await served.client.post("/v1/embeddings", {"input": "hi"})
    assert [body for body, _ in store.kept.values()] == [VECTORS]
    counted = {"endpoint": "embeddings", "model": "enc", "status": "200", "outcome": "ok"}
    assert served.registry.get_sample_value("conch_gateway_requests_total", counted) == 1


async def test_an_answer_that_is_none_is_shared_with_nobody() -> None:
    both = asyncio.Event()
    scripts = iter([lambda _: FakeAnswer(pieces=(both, b"<html>")), answered(VECTORS)])
    served = serving(
        ModelKind.EMBEDDING,
        lambda post: next(scripts)(post),
        profile=EncoderProfile(cache_ttl_s=60),
        store=FakeStore(),
    )
    asking = [asyncio.create_task(served.client.post("/v1/embeddings", {"input": "hi"})) for _ in range(2)]
    for _ in range(20):
        await asyncio.sleep(0)
    both.set()
    assert sorted([(await answer).status for answer in asking]) == [200, 502]


async def test_equal_requests_at_once_are_computed_once() -> None:
    served = serving(ModelKind.EMBEDDING, answered(VECTORS), profile=EncoderProfile(cache_ttl_s=60), store=FakeStore())
    answers = await asyncio.gather(*(served.client.post("/v1/embeddings", {"input": "hi"}) for _ in range(5)))
    assert sorted(answer.headers[b"x-conch-cache"] for answer in answers) == [b"hit"] * 4 + [b"miss"]
    assert len(served.upstream.sent(ENCODE_PATH)) == 1


async def test_a_request_whose_model_starts_an_engine_waits_behind_no_equal_one_that_wakes_nothing() -> None:
    model = route(kind=ModelKind.EMBEDDING, encoder=EncoderProfile(cache_ttl_s=60), wakes=True)
    scripts = {PREPARE_ROWS_PATH: rows(3), ENCODE_PATH: answered(VECTORS)}
    served, wished, body = gateway(scripts, known=snapshot(model, engines=()), store=FakeStore()), [], {"input": "hi"}
    served.admission.held = wished.append
    asked = []
    for priority in (10, 0):
        asked.append(asyncio.create_task(served.client.post("/v1/embeddings", {**body, "priority": priority})))
        await eventually(lambda: served.admission.waiting()[model.model_id] == len(asked), "one more that is held")
    assert wished == [model.model_id]
    served.learn(snapshot(model, engines=(Engine(grpc=ENGINE),)))
    assert [(await task).status for task in asked] == [200] * 2
    served.learn(snapshot(model, engines=()))
    answer = await served.client.post("/v1/embeddings", body)
    assert (answer.status, answer.headers[b"x-conch-cache"]) == (200, b"hit"), "what is kept needs no engine"


async def test_what_an_engine_of_the_version_before_answers_is_not_kept_for_the_next_one() -> None:
    model, store = route(kind=ModelKind.EMBEDDING, encoder=EncoderProfile(cache_ttl_s=60, version="2")), FakeStore()
    scripts = {PREPARE_ROWS_PATH: rows(3), ENCODE_PATH: answered(VECTORS)}
    served = gateway(scripts, known=snapshot(model, engines=(Engine(grpc=ENGINE, outdated=True),)), store=store)
    assert (await served.client.post("/v1/embeddings", {"input": "hi"})).status == 200
    assert store.kept == {}
    served.learn(snapshot(model, engines=(Engine(grpc=ENGINE),)))
    assert (await served.client.post("/v1/embeddings", {"input": "hi"})).headers[b"x-conch-cache"] == b"miss"
    assert len(store.kept) == 1


async def test_what_is_kept_is_not_given_while_all_engines_are_of_another_version() -> None:
    model, store = route(kind=ModelKind.EMBEDDING, encoder=EncoderProfile(cache_ttl_s=60)), FakeStore()
    scripts = {PREPARE_ROWS_PATH: rows(3), ENCODE_PATH: answered(VECTORS)}
    current, old = Engine(grpc=ENGINE), Engine(grpc=EngineAddress("old:1"), outdated=True)
    served = gateway(scripts, known=snapshot(model, engines=(current,)), store=store)

    async def asked() -> bytes:
        return (await served.client.post("/v1/embeddings", {"input": "hi"})).headers[b"x-conch-cache"]

    assert [await asked(), await asked()] == [b"miss", b"hit"]
    served.learn(snapshot(model, engines=(old,)))
    assert [await asked(), await asked()] == [b"miss", b"miss"], "the old engine answers other requests too"
    served.learn(snapshot(model, engines=(old, current)))
    assert await asked() == b"hit"


async def test_what_the_next_version_answers_is_not_kept_for_the_one_before() -> None:
    def model(version: str) -> Route:
        encoder = EncoderProfile(cache_ttl_s=60, version=version)
        return route(kind=ModelKind.EMBEDDING, encoder=encoder, wakes=True)

    store, before = FakeStore(), model("1")
    scripts = {PREPARE_ROWS_PATH: rows(3), ENCODE_PATH: answered(VECTORS)}
    served = gateway(scripts, known=snapshot(before, engines=()), store=store)
    asked = asyncio.create_task(served.client.post("/v1/embeddings", {"input": "hi"}))
    await eventually(lambda: served.admission.waiting()[before.model_id] == 1, "one that is held")
    served.learn(snapshot(model("2"), engines=(Engine(grpc=ENGINE),)))
    assert (await asked).status == 200
    assert store.kept == {}
    assert (await served.client.post("/v1/embeddings", {"input": "hi"})).status == 200
    assert len(store.kept) == 1


def waits(served: Gateway, count: int) -> bool:
    """Return whether so many requests wait for an engine."""
    return served.admission.waiting()[route().model_id] == count


async def with_its_slot_taken() -> tuple[Gateway, asyncio.Event, asyncio.Task[Answered]]:
    """Return a gateway whose engine has one slot, what sets that free, and the request that has it."""
    model = route(kind=ModelKind.EMBEDDING, encoder=EncoderProfile(cache_ttl_s=60))
    busy = asyncio.Event()
    answers = iter([FakeAnswer(pieces=(busy, VECTORS))])
    scripts = {PREPARE_ROWS_PATH: rows(3), ENCODE_PATH: lambda _: next(answers, FakeAnswer(pieces=(VECTORS,)))}
    served = gateway(scripts, known=snapshot(model, engines=(Engine(grpc=ENGINE, slots=1),)), store=FakeStore())
    first = asyncio.create_task(served.client.post("/v1/embeddings", {"input": "other"}))
    await asyncio.wait_for(served.upstream.asked(ENCODE_PATH).wait(), 30)
    return served, busy, first


async def test_an_urgent_request_does_not_wait_for_the_turn_of_an_equal_batch() -> None:
    served, busy, first = await with_its_slot_taken()
    asked = []
    for priority, waiting in ((10, 1), (0, 2), (0, 2)):  # the third one shares what the second one asks for
        body = {"input": "hi", "cache_salt": "s", "priority": priority}
        asked.append(asyncio.create_task(served.client.post("/v1/embeddings", body)))
        await eventually(partial(waits, served, waiting), "what waits")
    busy.set()
    assert [(await task).status for task in (first, *asked)] == [200] * 4
    assert len(served.upstream.sent(ENCODE_PATH)) == 3
    hits = [(await task).headers[b"x-conch-cache"] for task in asked]
    assert hits[1:] == [b"miss", b"hit"]


async def test_an_equal_request_waits_for_another_no_longer_than_it_may() -> None:
    served, busy, first = await with_its_slot_taken()
    body = {"input": "hi", "cache_salt": "s"}
    patient = asyncio.create_task(served.client.post("/v1/embeddings", body))
    await eventually(partial(waits, served, 1), "one that waits")
    headers = [(b"x-conch-max-wait", b"0")]
    hasty = await asyncio.wait_for(served.client.post("/v1/embeddings", body, headers), 30)
    assert (hasty.status, hasty.error["code"]) == (503, "overloaded")
    busy.set()
    assert [(await task).status for task in (first, patient)] == [200] * 2
