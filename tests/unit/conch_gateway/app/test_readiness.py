"""When a gateway says that requests may come."""

from dataclasses import replace

import pytest

from conch_contracts.records import Heartbeat, ModelKind, Pool
from conch_gateway.app.readiness import PATIENCE_S, Readiness
from conch_kit.registry.snapshot import Snapshot
from testkit.clock import FakeClock
from testkit.gateway.fakes import WORKER, route, snapshot

LLM = route()
ENCODER = route(model_id="local/enc", served_names=("enc",), kind=ModelKind.EMBEDDING)


def read(*routes, pools=()):
    workers = {pool: (Heartbeat(url=WORKER, sequence=1),) for pool in pools}
    base = snapshot(*routes) if routes else Snapshot()
    return replace(base, workers=workers, epoch="e")


def after(*snapshots, clock=None):
    readiness = Readiness(clock or FakeClock())
    for known in snapshots:
        readiness.apply(known)
    return readiness


@pytest.mark.parametrize(
    ("known", "missing"),
    [
        (read(LLM), "llm and of the kind tokenizer"),
        (read(LLM, pools=(Pool.LLM,)), "tokenizer"),
        (read(LLM, pools=(Pool.TOKENIZER, Pool.EMBED)), "llm"),
        (read(LLM, ENCODER, pools=(Pool.TOKENIZER, Pool.LLM)), "embed"),
    ],
)
def test_a_gateway_is_not_ready_before_it_knows_who_serves_its_models(known, missing):
    reason = after(known).not_ready()
    assert reason == f"waiting for a process of the kind {missing}; see the logs of that service"


def test_a_gateway_is_ready_when_every_kind_of_its_models_has_its_processes():
    assert after(read(LLM, pools=(Pool.TOKENIZER, Pool.LLM))).not_ready() is None
    assert after(read(LLM, ENCODER, pools=Pool)).not_ready() is None


def test_a_gateway_that_was_ready_without_models_stays_so_when_the_first_ones_come():
    readiness = after(read())
    assert readiness.not_ready() is None
    readiness.apply(read(LLM))
    assert readiness.not_ready() is None
    assert not readiness.reachable(ModelKind.LLM)


def test_processes_alone_are_no_registry():
    readiness = after(replace(read(pools=Pool), epoch=""))
    assert readiness.not_ready() == "waiting for the registry in Redis"
    assert readiness.snapshot() is None
    readiness.apply(read(LLM))  # and those that ended meanwhile have been there
    assert readiness.not_ready() is None


def test_nothing_that_comes_or_goes_later_makes_a_gateway_unready():
    readiness = after(read(LLM, pools=(Pool.TOKENIZER, Pool.LLM)))
    assert readiness.not_ready() is None
    readiness.apply(read(LLM, ENCODER))
    assert readiness.not_ready() is None
    assert [readiness.reachable(kind) for kind in (ModelKind.LLM, ModelKind.RERANK)] == [True, False]


def test_one_kind_without_a_worker_holds_up_the_others_for_a_minute_only():
    clock = FakeClock()
    readiness = after(read(LLM, ENCODER, pools=(Pool.TOKENIZER, Pool.LLM)), clock=clock)
    alone = after(read(ENCODER, pools=(Pool.TOKENIZER, Pool.LLM)), clock=clock)
    clock.now += PATIENCE_S - 1
    assert readiness.not_ready() is not None
    clock.now += 1
    assert readiness.not_ready() is None
    assert alone.not_ready() is not None


def test_a_gateway_that_drains_is_not_ready():
    readiness = after(read(LLM, pools=Pool))
    readiness.draining = True
    assert readiness.not_ready() == "draining"
