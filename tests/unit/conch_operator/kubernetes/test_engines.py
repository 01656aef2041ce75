import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import SERVING_GATE
from conch_contracts.spec.source import CLIMBS
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.engines import KubernetesEngines
from conch_operator.kubernetes.pods.agent_client import Agents, AgentUnavailable
from conch_operator.kubernetes.pods.hold_times import ALONE_S, LONGEST_HOLD_S
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from conch_operator.reconcile.calls_in_flight import AGAIN_S, Background
from conch_operator.reconcile.plan import Plan
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel, EngineName, EnginePhase, Scaled
from testkit.builders.every_runtime import SETTINGS, TOKENS
from testkit.builders.model_deployments import desired_model
from testkit.builders.owned_pods import deployments_of, made_by, replica_sets_of
from testkit.waiting import eventually

CONTRACT = '{"triton_model": "model", "dialect": "tokens", "slots": 1}'


class Pods(KubernetesApi):
    def __init__(self) -> None:
        super().__init__()
        self.pods: list[Object] = []

    async def list_all(
        self, kind: Kind, namespace: str | None, *, labels: str | None = None, metadata_only: bool = False
    ) -> list[Object]:
        match kind.name:
            case "Pod":
                return self.pods
            case "ReplicaSet":
                return replica_sets_of(self.pods)
            case "Deployment":
                return deployments_of(self.pods)
            case _:
                return []


def pod(name: str, *, model: str = "m", leaving: bool = False, born: str = "2026-01-01T00:00:00Z") -> Object:
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "creationTimestamp": born,
        "labels": {"conch.dev/model-deployment": model},
        "annotations": {"conch.dev/engine": CONTRACT},
    }
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    triton = {"name": "triton", "state": {"running": {}}}
    made = {"metadata": meta, "spec": {}, "status": {"podIP": "10.0.0.1", "containerStatuses": [triton]}}
    return made_by(made, f"rs-{model}")


@pytest.mark.parametrize(
    ("others", "held_s"),
    [
        ([pod("new")], LONGEST_HOLD_S),
        ([], ALONE_S),
        ([pod("new", model="another")], ALONE_S),
        ([pod("old-too", leaving=True)], ALONE_S),
    ],
)
async def test_an_engine_is_held_for_a_replacement_that_comes(others: list[Object], held_s: float) -> None:
    api, now = Pods(), 0.0
    engines = KubernetesEngines(api, Agents(TOKENS), EngineSettings(agent_image="a"), [None], lambda: now)
    api.pods = [pod("old", leaving=True), *others]

    async def phase() -> EnginePhase:
        await engines.observe()
        return next(engine.phase for engine in await engines.engines() if engine.name == "ns/old")

    assert await phase() is EnginePhase.LEAVING
    now = held_s - 1
    assert await phase() is EnginePhase.LEAVING
    now = held_s
    assert await phase() is EnginePhase.STOPPING


async def test_the_engines_of_the_last_edit_come_first_so_that_they_are_told_of() -> None:
    api = Pods()
    engines = KubernetesEngines(api, Agents(TOKENS), EngineSettings(agent_image="a"), [None])
    api.pods = [pod("edited", born="2026-01-01T00:01:00Z"), pod("old"), pod("again", born="2026-01-01T00:02:00Z")]
    await engines.observe()
    assert [engine.name for engine in await engines.engines()] == ["ns/again", "ns/edited", "ns/old"]


@pytest.mark.parametrize(
    ("gate", "seen"),
    [pytest.param("True", ["ns/new"], id="replaced"), pytest.param("False", ["ns/evicted", "ns/new"], id="not yet")],
)
async def test_a_pod_that_was_evicted_is_forgotten_once_another_serves(gate: str, seen: list[str]) -> None:
    api, evicted, new = Pods(), pod("evicted"), pod("new")
    evicted["status"] |= {"phase": "Failed", "reason": "Evicted"}
    new["status"] |= {"conditions": [{"type": SERVING_GATE, "status": gate}]}
    api.pods = [evicted, new]
    engines = KubernetesEngines(api, Agents(TOKENS), EngineSettings(agent_image="a"), [None])
    await engines.observe()
    found = {engine.name: engine.comes_back for engine in await engines.engines()}
    assert found == {name: name != "ns/evicted" for name in seen}


async def test_the_agent_of_a_pod_is_not_asked_about_models_in_pools() -> None:
    def start(call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        calls.append(asyncio.create_task(call))
        return calls[-1]

    api, calls = Pods(), list[asyncio.Task[None]]()
    background = Background(start, lambda: None, 5.0)
    engines = KubernetesEngines(api, Agents(TOKENS), EngineSettings(agent_image="a"), [None], background=background)
    api.pods = [pod("old", leaving=True)]
    await engines.observe()
    calls.clear()
    pooled = EngineName("ns/in-a-pool/1")
    await engines.act(Plan(restart=(pooled,), stop=(pooled,)))
    assert calls == []
    await engines.act(Plan(restart=(pooled,), stop=(pooled, EngineName("ns/old"))))
    assert len(calls) == 1


async def test_a_pod_that_only_has_the_labels_is_no_engine() -> None:
    api, foreign = Pods(), pod("foreign")
    foreign["metadata"].pop("ownerReferences")
    api.pods = [foreign, pod("ours")]
    engines = KubernetesEngines(api, Agents(TOKENS), EngineSettings(agent_image="a"), [None])
    assert [one["metadata"]["name"] for one in await engines.observe()] == ["ours"]
    assert [engine.name for engine in await engines.engines()] == ["ns/ours"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("../models/tiny", CLIMBS),
        ("tiny/../../etc", CLIMBS),
        ("/..", CLIMBS),
        ("/etc", CLIMBS),
        ("tiny..1/...", "No image for the runtime cpu is configured"),  # the next thing that is asked
    ],
)
async def test_a_path_that_leads_up_is_not_read_on_a_cluster(path: str, says: str) -> None:
    engines = KubernetesEngines(Pods(), Agents(TOKENS), EngineSettings(agent_image="a"), [None])
    await engines.observe()
    model = desired_model(source={"path": path})
    rejected = (await engines.act(Plan(models=(model,), serve=(model,)))).rejected
    assert rejected[model.id].reason is Reason.NOT_HERE
    assert says in rejected[model.id].message


async def test_no_reader_is_made_for_a_path_that_leads_up() -> None:
    engines = KubernetesEngines(Pods(), Agents(TOKENS), EngineSettings(agent_image="a"), [None])
    await engines.observe()
    model = desired_model(source={"path": "../etc"}, engine={"external": {"grpc": "triton:8001", "dialect": "tokens"}})
    rejected = (await engines.act(Plan(models=(model,), external=(model,)))).rejected
    assert CLIMBS in rejected[model.id].message


class Keeping(Pods):
    """An API server that keeps every object that is applied."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas: list[int] = []
        self.scaled = asyncio.Event()
        self.kept: dict[str, Object] = {}
        self.hangs_at = ""
        self.hangs, self.goes_on = asyncio.Event(), asyncio.Event()

    async def apply(self, kind: Kind, made: Object) -> Object:
        if kind.name == self.hangs_at:
            self.hangs_at = ""
            self.hangs.set()
            await self.goes_on.wait()
        if kind.name == "Deployment":
            self.replicas.append(made["spec"]["replicas"])
            self.scaled.set()
        meta = {**made["metadata"], "uid": "u", "resourceVersion": "1", "generation": len(self.replicas)}
        self.kept[kind.name] = {**made, "metadata": meta}
        return self.kept[kind.name]

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        if kind is MODEL_DEPLOYMENT:
            return {"metadata": {"uid": desired_model(name).uid}}
        return {**self.kept[kind.name], "status": {}} if kind.name in self.kept else None

    async def list_all(
        self, kind: Kind, namespace: str | None, *, labels: str | None = None, metadata_only: bool = False
    ) -> list[Object]:
        return [self.kept[kind.name]] if kind.name in self.kept else []


async def test_a_model_at_rest_is_woken_without_a_round_and_the_next_round_writes_nothing_more() -> None:
    api = Keeping()
    scaling = {"minReplicas": 0, "maxReplicas": 2}
    at_rest = replace(
        desired_model(source={"oci": {"image": "example.com/model:1"}}, scaling=scaling), scaled=Scaled(0)
    )
    engines = KubernetesEngines(api, Agents(TOKENS), EngineSettings(agent_image="a", images={"cpu": "c"}), [None])
    await engines.observe()
    await engines.act(Plan(serve=(at_rest,), models=(at_rest,)))
    assert api.replicas == [0]
    api.scaled.clear()
    told = asyncio.Event()
    engines.wake(at_rest.id, Scaled(1), told.set)
    await asyncio.wait_for(told.wait(), 30)
    assert api.scaled.is_set()
    await engines.observe()
    awake = replace(at_rest, scaled=Scaled(1))
    await engines.act(Plan(serve=(awake,), models=(awake,)))
    assert api.replicas == [0, 1]


async def test_a_fault_of_the_code_while_a_model_is_woken_is_one_of_the_next_round() -> None:
    api, at_rest = Keeping(), replace(desired_model(scaling={"minReplicas": 0, "maxReplicas": 2}), scaled=Scaled(0))
    engines = KubernetesEngines(api, Agents(TOKENS), EngineSettings(agent_image="a", images={"cpu": "c"}), [None])
    await engines.act(Plan(serve=(at_rest,), models=(at_rest,)))
    del api.replicas  # so that it fails, by no error of the API server's
    engines.wake(at_rest.id, Scaled(1), lambda: None)
    for _ in range(10):
        await asyncio.sleep(0)
    with pytest.raises(AttributeError, match="replicas"):
        await engines.act(Plan())


class Complete(Keeping):
    """One whose Deployments have all the pods that they want."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        found = await super().get(kind, namespace, name)
        return found and {**found, "status": {"observedGeneration": 9}}


async def test_a_model_whose_objects_are_as_they_should_be_takes_no_call() -> None:
    api, started = Complete(), []

    def start(call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        started.append(call)
        return asyncio.create_task(call)

    settings = EngineSettings(agent_image="a", images={"cpu": "c"})
    engines = KubernetesEngines(api, Agents(TOKENS), settings, [None], background=Background(start))
    at_rest = replace(desired_model(scaling={"minReplicas": 0, "maxReplicas": 2}), scaled=Scaled(0), generation=1)

    async def calls(model: DesiredModel) -> int:
        before = len(started)
        await engines.observe()
        await engines.act(Plan(serve=(model,), models=(model,)))
        return len(started) - before

    assert [await calls(at_rest) for _ in range(3)] == [1, 0, 0]
    assert [await calls(replace(at_rest, generation=2)) for _ in range(2)] == [1, 0]
    assert [await calls(replace(at_rest, generation=2, scaled=Scaled(1))) for _ in range(2)] == [1, 1], "lacks a pod"
    assert api.replicas == [0, 1]
    assert [await calls(replace(at_rest, generation=2)) for _ in range(2)] == [1, 0]
    api.kept["PodDisruptionBudget"]["metadata"]["generation"] = 99
    assert [await calls(replace(at_rest, generation=2)) for _ in range(2)] == [1, 0], "somebody else has changed it"


@pytest.mark.parametrize(
    ("hangs_at", "replicas"),
    [pytest.param("NetworkPolicy", [1], id="planned"), pytest.param("Deployment", [1, 0, 1], id="sent")],
)
async def test_a_round_that_decided_on_rest_before_a_wish_does_not_undo_it(hangs_at: str, replicas: list[int]) -> None:
    api = Keeping()
    scaling = {"minReplicas": 0, "maxReplicas": 2}
    awake = replace(
        desired_model(source={"oci": {"image": "example.com/model:1"}}, scaling=scaling), scaled=Scaled(1, order=1)
    )
    settings = EngineSettings(agent_image="a", images={"cpu": "c"}, network_policy=SETTINGS.network_policy)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        engines = KubernetesEngines(api, Agents(TOKENS), settings, [None], background=Background(tasks.create_task))
        await engines.observe()
        await engines.act(Plan(serve=(awake,), models=(awake,)))
        del api.kept["NetworkPolicy"]  # so that there is something to write
        await engines.observe()
        api.hangs_at = hangs_at
        at_rest = replace(awake, scaled=Scaled(0, order=2))
        tasks.create_task(engines.act(Plan(serve=(at_rest,), models=(at_rest,))))
        await api.hangs.wait()
        engines.wake(awake.id, Scaled(1, order=3), lambda: None)
        for _ in range(10):
            await asyncio.sleep(0)  # what was begun for the wish goes as far as it can
        api.goes_on.set()
    assert api.replicas == replicas


class Marking(Pods):
    """An API server that fails at opening a readiness gate."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    async def patch_list(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str) -> Object:
        raise ApiError(self.status, "no")


@pytest.mark.parametrize(("status", "told"), [(404, 0), (403, 1)])
async def test_a_gate_that_is_refused_is_told_unless_its_pod_has_gone(
    status: int, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    api = Marking(status)
    api.pods = [pod("a"), pod("leaves", leaving=True)]
    engines = KubernetesEngines(api, Agents(TOKENS), SETTINGS, [None])
    await engines.observe()
    await engines.mark_serving(frozenset(engine.name for engine in await engines.engines()))
    assert caplog.text.count("was not set") == told


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """In how many seconds rounds are to begin."""
    found: list[float] = []
    monkeypatch.setattr(Background, "changed_in", lambda _, seconds: found.append(seconds))
    return found


async def test_no_answer_to_a_gate_ends_no_round_and_begins_another(begun: list[float]) -> None:
    api = Marking(0)
    api.pods = [pod("a")]
    engines = KubernetesEngines(api, Agents(TOKENS), SETTINGS, [None])
    await engines.observe()
    await engines.mark_serving(frozenset(engine.name for engine in await engines.engines()))
    assert begun == [AGAIN_S]


class Silent(Keeping):
    """One that gives no answer about the objects of one model."""

    async def apply(self, kind: Kind, made: Object) -> Object:
        if made["metadata"]["name"] == "silent-engine":
            raise ApiError(0, "no answer")
        return await super().apply(kind, made)


async def test_no_answer_about_one_model_leaves_that_model_alone_to_a_later_round(begun: list[float]) -> None:
    api = Silent()
    settings = EngineSettings(agent_image="a", images={"cpu": "c"})
    engines = KubernetesEngines(api, Agents(TOKENS), settings, [None])
    silent, other = desired_model("silent"), desired_model("other")
    await engines.observe()
    acted = await engines.act(Plan(serve=(silent, other), models=(silent, other)))
    assert acted.unapplied == {silent.id}, "its status stays as it was"
    assert api.replicas == [1], "the other one's Deployment is made"
    assert acted.rejected == {}
    assert begun == [AGAIN_S]


class Deaf(Agents):
    """Agents that answer nothing, and count what they are told."""

    def __init__(self) -> None:
        super().__init__(TOKENS)
        self.told: list[str] = []

    async def request_restart(self, agent: AgentAddress) -> None:
        self.told.append(agent.host)
        raise AgentUnavailable("it hangs")


async def test_an_agent_that_is_not_told_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    api, agents = Pods(), Deaf()
    api.pods = [pod("starts"), pod("hangs")]
    agent = {"name": "agent", "state": {"running": {}}}
    api.pods[1]["status"]["initContainerStatuses"] = [agent]
    engines = KubernetesEngines(api, agents, SETTINGS, [None])
    await engines.observe()
    await engines.act(Plan(restart=tuple(engine.name for engine in await engines.engines())))
    assert agents.told == ["10.0.0.1"]
    assert caplog.text.count("was not told") == 1


async def test_a_model_that_cannot_be_woken_at_once_waits_for_the_next_round(caplog: pytest.LogCaptureFixture) -> None:
    api = Keeping()
    at_rest = replace(
        desired_model(source={"oci": {"image": "example.com/model:1"}}, scaling={"minReplicas": 0, "maxReplicas": 2}),
        scaled=Scaled(0),
    )
    engines = KubernetesEngines(api, Agents(TOKENS), EngineSettings(agent_image="a", images={"cpu": "c"}), [None])
    await engines.observe()
    await engines.act(Plan(serve=(at_rest,), models=(at_rest,)))

    async def refuse(kind: Kind, made: Object) -> Object:
        raise ApiError(0, "away")

    api.apply = refuse  # type: ignore[method-assign]
    told = asyncio.Event()
    engines.wake(at_rest.id, Scaled(1), told.set)
    await eventually(lambda: "was not woken at once" in caplog.text, "the failure to be told")
    assert not told.is_set()
