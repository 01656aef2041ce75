"""In which order a round looks and acts, and what the loop leaves behind."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, ClassVar

import pytest
from prometheus_client import CollectorRegistry

from conch_contracts.names import ModelId
from conch_operator.kubernetes import leader_loop
from conch_operator.kubernetes.api.backoff import Backoff
from conch_operator.kubernetes.api.client import ApiError
from conch_operator.kubernetes.api.kinds import ENGINE_POOL, MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.leader_loop import LeaderLoop, LeaderRound, RoundHangs
from conch_operator.metrics import EnginesOfModel, OperatorMetrics
from conch_operator.reconcile import moment
from conch_operator.reconcile.readiness import Published
from conch_operator.reconcile.status import ModelStatus, Statuses, describe
from conch_operator.state import Desired, Observed
from testkit.builders.model_deployments import desired_model
from testkit.waiting import eventually


class Noted:
    """Stands for everything that a round calls; keeps what was called, in order."""

    is_waking = awaits_answer = False

    def __init__(self) -> None:
        self.calls: list[str] = []

    @property
    def snapshot(self) -> Any:
        return self

    @property
    def workers(self) -> dict[str, Any]:
        return {}

    async def observe(self, *_: object) -> list[Object]:
        self.calls.append("objects")
        return []

    async def list_watched(self, kind: Kind, namespace: str | None) -> list[Object]:
        assert kind in (MODEL_DEPLOYMENT, ENGINE_POOL)
        self.calls.append(kind.name)
        return []

    async def reconcile(self, *_: object) -> dict[str, Any]:
        self.calls.append("reconcile")
        return {}

    async def nothing(self, *_: object, **__: object) -> None:
        """Do nothing."""

    write = ensure = ask = nothing


async def test_everything_is_read_before_anything_is_done() -> None:
    noted: Any = Noted()
    await LeaderRound(*[noted] * 11, [None]).run()
    assert sorted(noted.calls[:-1]) == ["EnginePool", "ModelDeployment", "objects", "objects"]
    assert noted.calls[-1] == "reconcile"


async def test_when_one_thing_cannot_be_read_the_others_are_not_read_beside_the_next_round() -> None:
    reads, ended = asyncio.Event(), []

    class Refuses(Noted):
        async def list_watched(self, kind: Kind, namespace: str | None) -> list[Object]:
            await reads.wait()
            raise ApiError(500, "no")

        async def observe(self, *_: object) -> list[Object]:
            reads.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("objects")
            return []

    refuses: Any = Refuses()
    async with asyncio.timeout(30):
        with pytest.raises(ApiError):
            await LeaderRound(*[refuses] * 11, [None]).run()
    assert ended == ["objects"]


async def test_agents_are_asked_while_the_pools_of_workers_are_seen_to() -> None:
    class Slow(Noted):
        def __init__(self) -> None:
            super().__init__()
            self.both = asyncio.Barrier(2)

        async def ensure(self, *_: object) -> None:
            await self.both.wait()

        async def ask(self, *_: object) -> None:
            await self.both.wait()

    slow: Any = Slow()
    async with asyncio.timeout(30):
        await LeaderRound(*[slow] * 11, [None]).run()
    assert slow.calls[-1] == "reconcile"


class AloneRound(LeaderRound):
    """A round beside which nothing is done."""

    def __init__(self) -> None:
        """Need nothing."""

    has_pools = True

    async def let_others_go_first(self) -> None:
        """Go on at once."""


class OneModel(AloneRound):
    """Rounds that find one model, of which nothing is known yet."""

    async def run(self) -> Statuses:
        model = desired_model()
        found: dict[ModelId, ModelStatus] = dict(
            describe(Desired((model,)), Observed(), Published(), {}, "2026-01-01T00:00:00Z")
        )
        return found


@pytest.mark.parametrize("turns", range(4))
async def test_the_loop_ends_when_it_is_told_to_as_something_happens(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_loop, "LEAST_PAUSE_S", 0)
    wake = asyncio.Event()
    running = asyncio.create_task(LeaderLoop(OneModel(), OperatorMetrics.on(CollectorRegistry()), 600.0, wake).run())
    for _ in range(20):
        await asyncio.sleep(0)  # until it rests
    wake.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=30)
    running.cancel()
    assert done == {running}


async def test_an_operator_that_leads_no_more_counts_no_models() -> None:
    registry = CollectorRegistry()
    metrics = OperatorMetrics.on(registry)
    metrics.scaling.show([EnginesOfModel("tiny", 1, 1, known=False)])
    loop = LeaderLoop(OneModel(), metrics, 60.0, asyncio.Event())

    def counted() -> float | None:
        return registry.get_sample_value("conch_operator_models", {"condition": "Ready", "status": "Unknown"})

    running = asyncio.create_task(loop.run())
    await eventually(lambda: counted() == 1, "the model to be counted")
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert counted() == 0
    assert registry.get_sample_value("conch_operator_scaling_unknown") == 0
    assert registry.get_sample_value("conch_operator_engines_wanted", {"model": "tiny"}) is None


class FailsOnce(AloneRound):
    """A round that the API server refuses the first time."""

    ran = 0

    async def run(self) -> Statuses:
        self.ran += 1
        if self.ran == 1:
            raise ApiError(503, "busy")
        return {}


async def test_a_round_that_failed_is_tried_again_though_nothing_happens() -> None:
    one_round, registry = FailsOnce(), CollectorRegistry()
    loop = LeaderLoop(one_round, OperatorMetrics.on(registry), 3600.0, asyncio.Event())
    running = asyncio.create_task(loop.run())
    await eventually(lambda: one_round.ran == 2, "the round to be tried again")
    assert registry.get_sample_value("conch_operator_reconciles_total", {"result": "error"}) == 1
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_it_is_tried_at_once_when_what_it_lacked_is_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one_round = FailsOnce()
    loop = LeaderLoop(one_round, OperatorMetrics.on(CollectorRegistry()), 3600.0, asyncio.Event())
    monkeypatch.setattr(loop, "_backoff", Backoff(first_s=3600.0, longest_s=3600.0))
    running = asyncio.create_task(loop.run())
    await eventually(lambda: one_round.ran == 1, "the round to fail")
    loop.known_again()
    await eventually(lambda: one_round.ran == 2, "the round to be tried again")
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_a_model_that_is_not_ready_is_looked_at_again_before_the_time_of_others() -> None:
    one_round = OneModel()
    metrics = OperatorMetrics.on(registry := CollectorRegistry())
    loop = LeaderLoop(one_round, metrics, 3600.0, asyncio.Event())
    running = asyncio.create_task(loop.run())
    await eventually(
        lambda: (registry.get_sample_value("conch_operator_reconciles_total", {"result": "ok"}) or 0) >= 2, "two rounds"
    )
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_rounds_go_on_by_the_clock_after_one_that_could_not_read_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_loop, "LEAST_PAUSE_S", 0)

    class CannotReadOnce(Noted):
        async def list_watched(self, kind: Kind, namespace: str | None) -> list[Object]:
            if "EnginePool" not in self.calls and kind == ENGINE_POOL:
                self.calls.append(kind.name)
                raise ApiError(500, "no")
            return await super().list_watched(kind, namespace)

    noted: Any = CannotReadOnce()
    loop = LeaderLoop(
        LeaderRound(*[noted] * 11, [None]), OperatorMetrics.on(CollectorRegistry()), 0.01, asyncio.Event()
    )
    running = asyncio.create_task(loop.run())
    await eventually(lambda: noted.calls.count("reconcile") > 2 or running.done(), "rounds without any change")
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize("what", ["is_waking", "awaits_answer"])
async def test_wishes_and_first_answers_go_before_a_round(what: str) -> None:
    noted: Any = Noted()
    setattr(noted, what, True)
    waiting = asyncio.create_task(LeaderRound(*[noted] * 11, [None]).let_others_go_first())
    await asyncio.sleep(moment.LOOK_S * 3)
    assert not waiting.done()
    setattr(noted, what, False)
    await asyncio.wait_for(waiting, 30)


async def test_before_each_round_others_are_let_go_first() -> None:
    class Ordered(AloneRound):
        calls: ClassVar[list[str]] = []

        async def let_others_go_first(self) -> None:
            self.calls.append("others")

        async def run(self) -> Statuses:
            self.calls.append("round")
            return {}

    loop = LeaderLoop(Ordered(), OperatorMetrics.on(CollectorRegistry()), 0.01, asyncio.Event())
    running = asyncio.create_task(loop.run())
    await eventually(lambda: len(Ordered.calls) >= 4, "two rounds")
    running.cancel()
    await asyncio.wait([running])
    assert Ordered.calls[:4] == ["others", "round"] * 2


async def test_no_round_waits_for_them_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moment, "MOMENT_S", 0.02)
    noted: Any = Noted()
    noted.is_waking = True
    await asyncio.wait_for(LeaderRound(*[noted] * 11, [None]).let_others_go_first(), 30)


def seen(generation: int, observed: int | None) -> Object:
    said = {} if observed is None else {"status": {"observedGeneration": observed}}
    return {"metadata": {"generation": generation}, **said}


OF_MANY_S = 0.25
"""How long a round takes here that is one over many models."""


@pytest.mark.parametrize(
    ("tells", "holds", "took_s", "pause_s"),
    [
        (None, False, 0.01, 0.25),
        (None, True, 0.001, 0.01),
        (None, True, 0.4, 0.8),
        pytest.param(None, lambda at_s: at_s > 0.55, OF_MANY_S, 0.6, id="held since a moment ago"),
        (None, False, 0.2, 0.4),
        pytest.param(None, False, OF_MANY_S, 1.5, id="of many models"),
        (None, False, 9.0, 2.0),
        pytest.param(seen(2, 1), False, 0.01, 0.05, id="edited"),
        pytest.param(seen(2, 1), False, 0.4, 0.1, id="edited, after a long round"),
        pytest.param(seen(2, 1), False, 2.0, 0.5, id="edited, after a very long one"),
        pytest.param(seen(2, 1), True, 0.001, 0.01, id="edited, and held"),
        pytest.param(seen(2, 2), False, 0.01, 0.25, id="a status"),
        pytest.param(seen(1, None), False, 0.01, 0.25, id="new"),
    ],
)
async def test_the_pause_after_a_round(
    tells: Object | None,
    holds: bool | Callable[[float], bool],
    took_s: float,
    pause_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = holds if callable(holds) else lambda _: holds
    found_s = await pause_after(OneModel(), took_s, held, monkeypatch, tells)
    assert found_s == pytest.approx(pause_s)


async def test_only_models_of_pools_have_rounds_over_many_come_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutPools(OneModel):
        has_pools = False

    assert await pause_after(WithoutPools(), OF_MANY_S, lambda _: True, monkeypatch) == pytest.approx(1.5)
    assert await pause_after(OneModel(), OF_MANY_S, lambda _: True, monkeypatch) == pytest.approx(0.5)


async def pause_after(
    one_round: OneModel,
    took_s: float,
    held: Callable[[float], bool],
    monkeypatch: pytest.MonkeyPatch,
    tells: Object | None = None,
) -> float:
    """Return how long the loop waits after a round that took so long and told of a model; `held` by the time in it."""
    pauses: list[float] = []
    moments, calls = iter((0.0, took_s)), count()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
        if event is wake:
            raise asyncio.CancelledError
        pauses.append(0.0 if event.is_set() else seconds)

    run = one_round.run

    async def told() -> Statuses:
        if tells is not None:
            loop.see_model(tells)
        return await run()

    monkeypatch.setattr(one_round, "run", told)
    monkeypatch.setattr(leader_loop, "MANY", 0 if took_s == OF_MANY_S else 100)
    monkeypatch.setattr(leader_loop.time, "perf_counter", lambda: next(moments))
    monkeypatch.setattr(leader_loop.time, "monotonic", lambda: sum(pauses) + 1e-9 * next(calls))
    monkeypatch.setattr(leader_loop.asyncio, "sleep", sleep)
    monkeypatch.setattr(leader_loop, "wait_at_most", wait_at_most)
    wake = asyncio.Event()
    loop = LeaderLoop(one_round, OperatorMetrics.on(CollectorRegistry()), 60.0, wake, lambda: held(sum(pauses)))
    with pytest.raises(asyncio.CancelledError):
        await loop.run()
    return sum(pauses)


async def test_a_round_that_hangs_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs(OneModel):
        async def run(self) -> Statuses:
            await asyncio.Event().wait()
            return {}

    monkeypatch.setattr(leader_loop, "LONGEST_ROUND_S", 0.01)
    loop = LeaderLoop(Hangs(), OperatorMetrics.on(CollectorRegistry()), 60.0, asyncio.Event())
    with pytest.raises(RoundHangs):
        await asyncio.wait_for(loop.run(), 30)
