"""How the objects of a model come about: what waits for what, and what becomes of the others when one is refused."""

import asyncio

import pytest

from conch_contracts.conditions import Reason
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.engines import KubernetesEngines
from conch_operator.kubernetes.pods.agent_client import Agents
from conch_operator.kubernetes.pods.creation_failures import SOON_S
from conch_operator.reconcile.plan import Plan
from conch_operator.settings import EngineSettings
from testkit.builders.every_runtime import SETTINGS, TOKENS
from testkit.builders.model_deployments import desired_model
from testkit.clock import FakeClock


class Refusing(KubernetesApi):
    """An API server that has nothing, keeps what is applied, and refuses objects by their kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.refused = kind
        self.kinds: list[str] = []

    async def list_all(
        self, kind: Kind, namespace: str | None, *, labels: str | None = None, metadata_only: bool = False
    ) -> list[Object]:
        return []

    async def apply(self, kind: Kind, made: Object) -> Object:
        if kind.name == self.refused:
            raise ApiError(403, "quota says no")
        self.kinds.append(kind.name)
        return {**made, "metadata": {**made["metadata"], "uid": "u", "resourceVersion": "1", "generation": 1}}

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return {"metadata": {"uid": desired_model(name).uid}} if kind is MODEL_DEPLOYMENT else None


@pytest.mark.parametrize(
    ("refused", "made"),
    [
        ("PodDisruptionBudget", ["NetworkPolicy", "Deployment"]),
        ("Deployment", ["NetworkPolicy", "PodDisruptionBudget"]),
        ("NetworkPolicy", []),
    ],
)
async def test_a_refused_object_holds_up_only_those_that_need_it(
    refused: str, made: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    api, model = Refusing(refused), desired_model(source={"oci": {"image": "example.com/model:1"}}, replicas=2)
    settings = EngineSettings(agent_image="a", images={"cpu": "c"}, network_policy=SETTINGS.network_policy)
    engines = KubernetesEngines(api, Agents(TOKENS), settings, [None])
    for _ in range(2):
        api.kinds.clear()
        await engines.observe()
        faults = (await engines.act(Plan(serve=(model,), models=(model,)))).rejected
        assert api.kinds == made
        assert faults[model.id].reason is Reason.REJECTED
        assert f"{refused} tiny-" in faults[model.id].message
        assert "quota says no. Correct what it names" in faults[model.id].message
    assert [record.message for record in caplog.records] == ["A model cannot be run as it is wanted."]


class Slow(Refusing):
    """An API server that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__("none")
        self.asked: dict[str, asyncio.Event] = {}

    async def apply(self, kind: Kind, made: Object) -> Object:
        self.asked[kind.name] = answers = asyncio.Event()
        await answers.wait()
        return await super().apply(kind, made)

    def answer(self) -> set[str]:
        """Answer all that is asked, and return what it is about."""
        asked, self.asked = self.asked, {}
        for answers in asked.values():
            answers.set()
        return set(asked)


async def test_what_does_not_need_one_another_is_written_at_once() -> None:
    api, model = Slow(), desired_model(source={"oci": {"image": "example.com/model:1"}}, replicas=2)
    settings = EngineSettings(agent_image="a", images={"cpu": "c"}, network_policy=SETTINGS.network_policy)
    engines = KubernetesEngines(api, Agents(TOKENS), settings, [None])
    await engines.observe()
    asked = []
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        making = tasks.create_task(engines.act(Plan(serve=(model,), models=(model,))))
        while not making.done():
            await until_nothing_moves()
            asked.append(api.answer())
    assert [each for each in asked if each] == [
        {"NetworkPolicy"},
        {"Deployment", "PodDisruptionBudget"},
    ]


async def until_nothing_moves() -> None:
    """Let all that was begun go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


class Scarce(Refusing):
    """An API server that takes every object, but no pod of a Deployment."""

    def __init__(self) -> None:
        super().__init__("none")
        self.annotations = {"deployment.kubernetes.io/revision": "1"}

    async def apply(self, kind: Kind, made: Object) -> Object:
        live = await super().apply(kind, made)
        return {**live, "metadata": {**live["metadata"], "annotations": self.annotations}}

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: q"}
        status = {"observedGeneration": 1, "conditions": [failure]}
        meta = {"generation": 1, "uid": "d", "namespace": namespace}
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}}
        return {"metadata": meta, "spec": spec, "status": status}


async def test_pods_that_are_refused_are_told_as_an_object_is() -> None:
    model = desired_model(source={"oci": {"image": "example.com/model:1"}})
    settings, clock = EngineSettings(agent_image="a", images={"cpu": "c"}), FakeClock()
    engines = KubernetesEngines(Scarce(), Agents(TOKENS), settings, [None], clock)
    await engines.observe()
    assert (await engines.act(Plan(serve=(model,), models=(model,)))).rejected == {}, "they may come in a moment"
    clock.advance(SOON_S)
    faults = (await engines.act(Plan(serve=(model,), models=(model,)))).rejected
    assert faults[model.id].reason is Reason.REJECTED
    assert "pods: exceeded quota: q." in faults[model.id].message


async def test_a_deployment_without_a_replica_set_is_not_asked_about_its_pods() -> None:
    model, api = desired_model(source={"oci": {"image": "example.com/model:1"}}), Scarce()
    settings, clock = EngineSettings(agent_image="a", images={"cpu": "c"}), FakeClock()
    engines = KubernetesEngines(api, Agents(TOKENS), settings, [None], clock)
    revision = api.annotations.copy()
    api.annotations.clear()
    await engines.observe()
    rejected = []
    for _ in range(4):
        rejected.append((await engines.act(Plan(serve=(model,), models=(model,)))).rejected)
        clock.advance(SOON_S)
        if len(rejected) == 2:
            api.annotations.update(revision)
    assert [bool(each) for each in rejected] == [False, False, False, True]
