"""What becomes of requests that wait while their model is edited, loses its last engine, or is deleted."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from conch_contracts.names import Digest, EngineAddress, ModelId
from conch_contracts.records import Dialect, EncoderProfile, Pooling, Route, RoutingPolicy
from conch_gateway.placement.admission import Admission, EnginesGone, TakenSlots
from conch_gateway.placement.claim import PLAIN, Claim
from conch_gateway.placement.holds import Hold
from conch_kit.errors import ModelNotFound, ServiceError, Unavailable
from conch_kit.registry.snapshot import Snapshot
from testkit.gateway.fakes import route, snapshot
from testkit.gateway.queues import admission, engine, turns

MODEL = ModelId("local/tiny-chat")
POLICY = RoutingPolicy(queue_max=9, queue_wait_s=60)
HELD = Claim(hold=lambda: Hold(60.0, lambda seconds: None))
LIMIT_S = 30.0


def waits(queues: Admission, claim: Claim = PLAIN, **rest: Any) -> asyncio.Task[TakenSlots]:
    """Let a request ask for a slot."""
    return asyncio.create_task(queues.slot(MODEL, POLICY, claim, **rest))


@pytest.mark.parametrize(
    "edit",
    [
        {"tokenizer_digest": Digest("1" * 64)},
        {"dialect": Dialect.FASTERTRANSFORMER},
        {"encoder": EncoderProfile(pooling=Pooling.CLS)},
        {"encoder": EncoderProfile(output="other")},
    ],
)
@pytest.mark.parametrize("held", [True, False])
async def test_what_was_prepared_for_another_model_is_given_to_no_engine(edit: dict[str, Any], *, held: bool) -> None:
    known, edited, queues = route(wakes=True, hold_max=9), route(wakes=True, hold_max=9, **edit), Admission()
    queues.apply(snapshot(known, engines=() if held else (engine("a"),)))
    taken = [] if held else [await queues.slot(MODEL, POLICY, route=known)]
    waiting = waits(queues, HELD, route=known)
    await turns()
    queues.apply(snapshot(edited, engines=(engine("b"),)))
    for late in (waiting, waits(queues, route=known)):
        with pytest.raises(Unavailable, match="The model was replaced while the request waited") as caught:
            await asyncio.wait_for(late, LIMIT_S)
        assert caught.value.retry_after_s
    assert queues.waiting() == {MODEL: 0}
    with await queues.slot(MODEL, POLICY, route=edited) as given:
        assert given.grpc == "b"
    for slot in taken:
        with slot:
            pass


@pytest.mark.parametrize("edit", [{"max_model_len": 32}, {"encoder": EncoderProfile(version="2", cache_ttl_s=9)}])
async def test_an_edit_that_changes_no_prompt_loses_no_request(edit: dict[str, Any]) -> None:
    known, queues = route(), admission(engine("a"))
    with await queues.slot(MODEL, POLICY, route=known):
        waiting = waits(queues, route=known)
        await turns()
        queues.apply(snapshot(route(**edit), engines=(engine("b"),)))
        with await asyncio.wait_for(waiting, LIMIT_S) as given:
            assert given.grpc == "b"


@pytest.mark.parametrize(
    ("was", "has"),
    [
        (route(), True),
        (route(max_model_len=9), True),
        (route(encoder=EncoderProfile(version="0")), False),
        (route(created=1), False),
        (route(model_id=ModelId("local/other")), False),
    ],
)
def test_the_files_of_a_model_are_known_by_their_version(was: Route, *, has: bool) -> None:
    assert admission(engine("a")).has_files_of(was) is has


async def test_who_waits_for_a_slot_when_the_last_engine_goes_is_held_from_then_on() -> None:
    known, queues, wished = route(wakes=True, hold_max=9), Admission(), list[ModelId]()
    queues.held = wished.append
    queues.apply(snapshot(known, engines=(engine("a"),)))
    with await queues.slot(MODEL, POLICY):
        queued, patient = waits(queues, HELD), waits(queues)
        await turns()
        queues.apply(snapshot(known, engines=()))
        with pytest.raises(EnginesGone):
            await asyncio.wait_for(queued, LIMIT_S)
        assert queues.waiting() == {MODEL: 1}, "who cannot be held waits as long as it may"
        held = waits(queues, HELD)
        await turns()
        assert wished == [MODEL]
        queues.apply(snapshot(known, engines=(engine("b", 2),)))
        for served in (held, patient):
            with await asyncio.wait_for(served, LIMIT_S) as given:
                assert given.grpc == "b"


async def test_the_engine_that_refused_is_tried_again_when_no_other_is_left() -> None:
    queues, tried = admission(engine("a", 2), engine("b")), frozenset({EngineAddress("a")})
    with await queues.slot(MODEL, POLICY, without=tried) as given:
        assert given.grpc == "b"
        waiting = waits(queues, without=tried)
        await turns()
        assert not waiting.done()
        queues.apply(snapshot(engines=(engine("a", 2),)))
        with await asyncio.wait_for(waiting, LIMIT_S) as given:
            assert given.grpc == "a"


@pytest.mark.parametrize("tried", ["a", "gone"])
async def test_who_was_refused_by_the_only_engine_is_overtaken_by_nobody(tried: str) -> None:
    queues = admission(engine("a", 4))
    with await queues.slot(MODEL, POLICY):
        many = waits(queues, Claim(4), without=frozenset({EngineAddress(tried)}))
        await turns()
        few = waits(queues)
        await turns()
        assert not few.done()
    with await asyncio.wait_for(many, LIMIT_S):
        await turns()
        assert not few.done()
    with await asyncio.wait_for(few, LIMIT_S):
        pass


async def test_whose_time_to_be_held_is_over_waits_on_for_the_next_engine() -> None:
    known, queues = route(wakes=True, hold_max=9), Admission()
    queues.apply(snapshot(known, engines=(engine("a"),)))
    over = Claim(hold=lambda: Hold(0.0, lambda seconds: None))
    with await queues.slot(MODEL, POLICY):
        waiting = waits(queues, over)
        await turns()
        queues.apply(snapshot(known, engines=()))
        await turns()
        assert not waiting.done()
        assert queues.load("g", 1).models[MODEL].held == 1, "so an engine is started for it"
        queues.apply(snapshot(known, engines=(engine("b"),)))
        with await asyncio.wait_for(waiting, LIMIT_S) as given:
            assert given.grpc == "b"


@pytest.mark.parametrize("known", [Snapshot(), snapshot(route(tokenizer_digest=Digest("1" * 64)))])
async def test_a_request_that_is_sent_away_is_kept_by_nothing(known: Snapshot) -> None:
    class Body:
        """What a request keeps in memory."""

        def hold(self) -> Hold:
            return Hold(60.0, lambda seconds: None)

    queues, body = admission(engine("a")), Body()
    kept, claim = weakref.ref(body), Claim(hold=body.hold)
    del body
    with await queues.slot(MODEL, POLICY):
        waiting = waits(queues, claim, route=route())
        del claim
        await turns()
        gc.disable()
        try:
            queues.apply(known)
            await asyncio.wait([waiting])
            assert isinstance(waiting.exception(), ServiceError)
            del waiting
            await turns()
            assert kept() is None
        finally:
            gc.enable()


async def test_a_model_that_is_made_again_knows_what_its_engine_still_works_on() -> None:
    queues = admission(engine("a"))
    with await queues.slot(MODEL, POLICY):
        queues.apply(Snapshot())
        queues.apply(Snapshot())
        queues.apply(snapshot(engines=(engine("a"),)))
        waiting = waits(queues)
        await turns()
        assert not waiting.done()
        queues.apply(Snapshot())
        with pytest.raises(ModelNotFound):
            await asyncio.wait_for(waiting, LIMIT_S)
        queues.apply(snapshot(engines=()))
        with pytest.raises(Unavailable):  # the new one has not lost an engine that it never had
            await queues.slot(MODEL, POLICY)
        assert queues.load("g", 1).models[MODEL].idle_s is None


async def test_a_model_for_which_nobody_waits_is_no_news_however_often_it_is_told_of() -> None:
    queues, news = Admission(), list[None]()
    queues.changed = lambda: news.append(None)
    for _ in range(2):
        queues.apply(snapshot(route(engines_wanted=False), engines=()))
    assert news == []


async def test_whoever_waits_for_a_model_that_is_deleted_is_told_at_once() -> None:
    queues = admission(engine("a"))
    with await queues.slot(MODEL, POLICY):
        waiting = waits(queues)
        await turns()
        queues.apply(Snapshot())
        with pytest.raises(ModelNotFound) as caught:
            await asyncio.wait_for(waiting, LIMIT_S)
        with pytest.raises(ModelNotFound):
            await queues.slot(MODEL, POLICY)
    assert caught.value.code == "model_not_found"
