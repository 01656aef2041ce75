"""What KEDA hears over a real connection; the test says what gateways have to do and when time passes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from conch_contracts.records import GatewayBeat, GatewayLoad
from conch_operator.external_scaler.answers import QUIET_S
from conch_operator.external_scaler.heard_demand import HeardDemand
from conch_operator.external_scaler.process import serving
from conch_operator.external_scaler.service import METRIC, ScalerService
from conch_operator.external_scaler.watched_models import WatchedModels
from conch_operator.scaling.demand import DemandBook
from testkit.clock import FakeClock
from testkit.kubernetes.keda import Keda, ListedModels
from testkit.waiting import eventually

CPU = {"cpu": {"maxBatchSize": 4}}
"""16 slots, so one engine is for 11.2 sequences."""


@dataclass
class Gateways:
    """Those that live and what they say, as Redis would bring it."""

    book: DemandBook
    demand: HeardDemand | None = None
    living: tuple[str, ...] = ("g",)
    sequence: int = 0
    asked: int = 0

    async def gateways(self) -> tuple[GatewayBeat, ...]:
        self.asked += 1
        return tuple(GatewayBeat(id=name, sequence=self.asked, revision=1) for name in self.living)

    def says(self, gateway: str = "g", model: str = "ns/tiny", **demand: Any) -> None:
        self.sequence += 1
        record = {"id": gateway, "sequence": self.sequence, "models": {model: demand} if demand else {}}
        load = GatewayLoad.model_validate(record)
        self.book.hear(load)
        self.book.away = False
        self.looks(load)

    def looks(self, load: GatewayLoad | None = None) -> None:
        assert self.demand is not None
        self.demand.heard(list(self.demand._listeners) if load is None else load.models)


@dataclass
class Scene:
    """One operator, and KEDA that asks it."""

    clock: FakeClock
    gateways: Gateways
    models: ListedModels
    keda: Keda
    service: ScalerService


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    clock, models = FakeClock(), ListedModels()
    gateways = Gateways(DemandBook(clock))
    models.put(engine=CPU)
    async with HeardDemand(gateways.book, gateways, clock=clock, unix_time=lambda: 500.0) as demand:
        gateways.demand = demand
        await eventually(lambda: gateways.asked, "a look at the gateways")
        service = ScalerService(WatchedModels(models, [None]), demand, clock=clock)
        async with serving(service, "127.0.0.1", 0) as port, Keda(port) as keda:
            yield Scene(clock, gateways, models, keda, service)


async def refused(asked: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await asked
    return error.value.code(), str(error.value.details())


async def test_polls_say_what_there_is_to_do_and_for_how_much_one_engine_is(scene: Scene) -> None:
    scene.gateways.says(in_flight=2, queued=1, held=4)
    assert await scene.keda.is_active()
    assert await scene.keda.metric() == (METRIC, 7, 7.0)
    assert await scene.keda.metric_spec() == (METRIC, 11, pytest.approx(11.2))
    assert await scene.keda.metric_spec(target="0.5") == (METRIC, 8, 8.0)
    scene.gateways.says()
    assert not await scene.keda.is_active()
    assert await scene.keda.metric() == (METRIC, 0, 0.0)


async def test_a_trigger_may_name_a_model_that_its_object_is_not_named_after(scene: Scene) -> None:
    scene.gateways.says(in_flight=1)
    assert await scene.keda.is_active("chat-by-load", model="tiny")


async def test_a_stream_hears_the_state_at_once_then_a_beginning_and_an_end(scene: Scene) -> None:
    scene.gateways.says()
    async with scene.keda.activity() as following:
        assert await following() is False
        scene.gateways.says(held=1)
        assert await following() is True
        told = asyncio.ensure_future(following())
        while not told.done():
            scene.gateways.says(idle_s=0.0)
            assert not await scene.keda.is_active()
            scene.clock.advance(QUIET_S / 2)
        assert told.result() is False


async def test_a_stream_of_a_model_hears_nothing_of_others(scene: Scene) -> None:
    scene.models.put("other", engine=CPU)
    scene.gateways.says()
    async with scene.keda.activity() as tiny, scene.keda.activity("other") as other:
        assert (await tiny(), await other()) == (False, False)
        scene.gateways.says("h", "ns/other", held=1)
        assert await other() is True
        assert not await scene.keda.is_active()


async def test_a_stream_that_was_cut_hears_the_state_when_it_is_opened_again(scene: Scene) -> None:
    for held in (1, 1, 0, 1):
        scene.gateways.says(held=held)
        async with scene.keda.activity() as following:
            assert await following() is (held > 0)


async def test_the_streams_of_very_many_models_open_at_once(scene: Scene) -> None:
    """KEDA opens all of them together when an operator has gone."""
    names = [f"model-{number}" for number in range(1500)]
    for name in names:
        scene.models.put(name)
    scene.gateways.says()
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(scene.keda.activity(name)) for name in names]
        assert await asyncio.gather(*(following() for following in streams)) == [False] * len(names)


async def test_streams_end_by_themselves_with_their_operator(scene: Scene) -> None:
    scene.gateways.says()
    async with scene.keda.activity() as following:
        assert await following() is False
        scene.service.end()
        assert await following() is None


async def test_a_stream_of_a_model_that_is_deleted_or_scales_by_itself_ends_with_the_cause(scene: Scene) -> None:
    scene.gateways.says()
    async with scene.keda.activity() as following:
        assert await following() is False
        scene.models.put(engine=CPU, scaling={"maxReplicas": 2})
        scene.gateways.looks()
        code, message = await refused(following())
        assert (code, "spec.scaling" in message) == (grpc.StatusCode.FAILED_PRECONDITION, True)
    scene.models.put(engine=CPU)
    async with scene.keda.activity() as following:
        assert await following() is False
        scene.models.remove("tiny")
        scene.gateways.looks()
        assert (await refused(following()))[0] is grpc.StatusCode.NOT_FOUND


async def test_targets_follow_an_edit_of_the_model(scene: Scene) -> None:
    async with scene.keda.targets() as following:
        assert await following() == pytest.approx(11.2)
        scene.models.put(engine={"cpu": {"maxBatchSize": 8}})
        scene.gateways.looks()
        assert await following() == pytest.approx(22.4)


@pytest.mark.parametrize("method", ["is_active", "metric"])
async def test_who_does_not_hear_all_gateways_says_nothing_that_takes_an_engine_away(scene: Scene, method: str) -> None:
    scene.models.put(engine=CPU, replicas=1)
    scene.gateways.living = ("g", "silent")
    asked = scene.gateways.asked
    await eventually(lambda: scene.gateways.asked > asked, "another look at the gateways")
    scene.gateways.says()
    code, message = await refused(getattr(scene.keda, method)())
    assert (code, "not every gateway has said" in message) == (grpc.StatusCode.UNAVAILABLE, True)


async def test_who_does_not_hear_redis_asks_for_more_engines_only(scene: Scene) -> None:
    scene.models.put(engine=CPU, replicas=1)
    scene.gateways.says(in_flight=12)
    scene.gateways.book.lose()
    assert await scene.keda.is_active()
    assert await scene.keda.metric() == (METRIC, 12, 12.0)
    scene.models.put(engine=CPU, replicas=2)
    assert (await refused(scene.keda.metric()))[0] is grpc.StatusCode.UNAVAILABLE


async def test_a_stream_says_nothing_while_nobody_knows_and_goes_on(scene: Scene) -> None:
    scene.gateways.says(held=1)
    async with scene.keda.activity() as following:
        assert await following() is True
        scene.gateways.says()
        scene.gateways.book.lose()
        for _ in range(3):
            scene.clock.advance(QUIET_S)
            scene.gateways.looks()
            await refused(scene.keda.is_active())
        scene.gateways.says(held=1)
        assert await scene.keda.is_active()
        scene.service.end()
        assert await following() is None  # and no end of what has never ended


async def test_a_call_to_wake_a_model_counts_as_one_sequence_until_it_is_over(scene: Scene) -> None:
    scene.gateways.says()
    scene.gateways.book.awake_until = {"ns/tiny": 501.0}  # type: ignore[dict-item]
    assert await scene.keda.is_active()
    assert (await scene.keda.metric())[1] == 1
    scene.gateways.book.awake_until = {"ns/tiny": 499.0}  # type: ignore[dict-item]
    assert not await scene.keda.is_active()


async def test_a_model_whose_requests_wait_needs_an_engine_until_one_has_answered(scene: Scene) -> None:
    scene.gateways.says()
    scene.models.put(engine=CPU, routing={"hold": 9})
    assert await scene.keda.is_active()
    assert (await scene.keda.metric())[1] == 1
    scene.models.says("tiny", "True")
    assert not await scene.keda.is_active()


_REFUSALS: dict[str, tuple[Callable[[Keda], Any], grpc.StatusCode, str]] = {
    "an unknown key": (lambda keda: keda.is_active(modle="x"), grpc.StatusCode.INVALID_ARGUMENT, "modle"),
    "an unknown model": (lambda keda: keda.metric_spec("nobody"), grpc.StatusCode.NOT_FOUND, "nobody"),
    "an unknown metric": (lambda keda: keda.metric(metric="x"), grpc.StatusCode.INVALID_ARGUMENT, METRIC),
    "no message": (
        lambda keda: keda.call("GetMetrics", b"\x0a\xff", "GetMetricsResponse"),
        grpc.StatusCode.INVALID_ARGUMENT,
        "The message is no GetMetricsRequest",
    ),
    "a message that is too long": (
        lambda keda: keda.call("IsActive", b"x" * 65_537, "IsActiveResponse"),
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "65537",
    ),
    "an unknown method": (
        lambda keda: keda.call("Scale", b"", "IsActiveResponse"),
        grpc.StatusCode.UNIMPLEMENTED,
        "",
    ),
}


@pytest.mark.parametrize("name", _REFUSALS)
async def test_a_call_that_cannot_be_answered_has_a_status_and_a_sentence(scene: Scene, name: str) -> None:
    call, code, words = _REFUSALS[name]
    found, message = await refused(call(scene.keda))
    assert (found, words in message) == (code, True)


async def test_a_port_that_is_taken_ends_the_process_with_a_sentence(scene: Scene) -> None:
    async with serving(scene.service, "127.0.0.1", 0) as port:
        with pytest.raises(Exception, match=f"The external scaler cannot listen on 127.0.0.1:{port}"):
            async with serving(scene.service, "127.0.0.1", port):
                pass
