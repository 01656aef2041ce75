"""No request fails and no stream breaks while a release is upgraded, and its parts replaced, scaled and evicted."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from conch_contracts.names import MODEL_LABEL
from testkit.kubernetes.cluster import Cluster, Images, Namespace
from testkit.kubernetes.release import Release, release
from testkit.kubernetes.steady_load import STREAMS, steady_load
from testkit.processes.conch_up import ROOT
from testkit.waiting import eventually, eventually_in_thread

PACED = {"engine": {"cpu": {"maxBatchSize": 64, "tokensPerSecond": 20}}}
"""A story of 118 tokens takes 6 s, and one engine has room for all of the load."""
CHANGED = {"engine": {"cpu": {"maxBatchSize": 63, "tokensPerSecond": 20}}}
CHANGED_RERANKER = {"engine": {"cpu": {"maxBatchSize": 15}}}
SCALING = {"minReplicas": 0, "maxReplicas": 2, "idleAfter": "1s"}
"""By its load a model needs one engine; an outage taken for a time without load would end that one."""
DONE_S = 180
SERVICES = ("llm-worker", "embed-worker", "tokenizer", "gateway")
ENGINES = ("engine of the chat model", "engine of the reranker")
COMPONENTS = (*ENGINES, *SERVICES, "operator", "redis")


@pytest.fixture(scope="module")
def conch(cluster: Cluster, images: Images) -> Iterator[Release]:
    """Give a release."""
    with release(cluster, images) as installed:
        yield installed


@pytest.fixture(scope="module")
def models(conch: Release) -> tuple[str, str]:
    """Give the names of a paced chat model and of a reranker that serve, with scaling on."""
    chat = conch.apply_example(**PACED, scaling=SCALING)
    reranker = conch.apply_example(ROOT / "examples" / "tiny-reranker.yaml", scaling=SCALING)
    for name in (chat, reranker):
        conch.wait_ready(name)
    return chat, reranker


@asynccontextmanager
async def nothing_lost(conch: Release, models: tuple[str, str]) -> AsyncIterator[None]:
    """Load the release beside the body, once both models answer, and see that nothing of the load is lost."""
    async with conch.client() as client:
        async with steady_load(client, *models) as load:
            answered = lambda: load.streaming == STREAMS and load.rankings > 0  # noqa: E731
            await eventually(lambda: answered() or load.failures, "both models to answer", 60)
            yield
        assert load.failures == [], conch.troubles()
        assert load.streams >= STREAMS


async def test_a_changed_model(conch: Release, models: tuple[str, str]) -> None:
    async with nothing_lost(conch, models):
        engines = Part(conch, "engine")
        before = engines.pods()
        for model, changed in zip(models, (CHANGED, CHANGED_RERANKER), strict=True):
            change(conch, model, **changed)
        await engines.without(before)


async def test_an_upgrade_and_the_way_back(conch: Release, models: tuple[str, str]) -> None:
    async with nothing_lost(conch, models):
        parts = [Part(conch, component) for component in (*SERVICES, "operator")]
        engines = Part(conch, "engine").pods()
        await all_replaced(parts, lambda: conch.upgrade("--set=logLevel=WARNING"))
        await all_replaced(parts, conch.roll_back)
        assert Part(conch, "engine").pods() == engines


async def test_scaling_up_and_down(conch: Release, models: tuple[str, str]) -> None:
    """First within the bounds of scaling, then by hand, which takes scaling away and gives it back."""
    model, _ = models

    async def becomes(replicas: int) -> None:
        await eventually_in_thread(lambda: engine.is_ready(replicas), f"{replicas} engines", DONE_S)

    async with nothing_lost(conch, models):
        engine = Part(conch, "engine", model)
        change(conch, model, scaling={"minReplicas": 2, "maxReplicas": 2})
        await becomes(2)
        change(conch, model, scaling={"minReplicas": 1, "maxReplicas": 1})
        await becomes(1)
        change(conch, model, scaling=None)
        for replicas in (3, 1):
            engine.namespace.kubectl("scale", "modeldeployment", model, f"--replicas={replicas}")
            await becomes(replicas)
        change(conch, model, scaling=SCALING)


@pytest.mark.parametrize("component", COMPONENTS)
async def test_an_eviction_and_a_deletion(conch: Release, models: tuple[str, str], component: str) -> None:
    """One pod is evicted and then the other one deleted, or the one that has come for it."""
    of = dict(zip(ENGINES, models, strict=True)).get(component)
    async with nothing_lost(conch, models):
        part = Part(conch, component) if of is None else Part(conch, "engine", of)
        before = part.pods()
        evicted = next(iter(before))
        await part.evict(evicted)
        await part.without({evicted: before[evicted]})
        pods = part.pods()
        old = [pod for pod in pods.items() if pod in before.items()]
        deleted, uid = next(iter(old or pods.items()))
        part.namespace.kubectl("delete", "pod", deleted, "--wait=false")
        await part.without({deleted: uid})


def change(conch: Release, model: str, **spec: Any) -> None:
    """Change parts of a model's spec; None takes one away."""
    conch.models.kubectl("patch", "modeldeployment", model, "--type=merge", "-p", json.dumps({"spec": spec}))


async def all_replaced(parts: "Sequence[Part]", replace: Callable[[], None]) -> None:
    """Change a release and wait until none of the pods that these parts had is left."""
    before = [part.pods() for part in parts]
    await asyncio.to_thread(replace)
    for part, pods in zip(parts, before, strict=True):
        await part.without(pods)


class Part:
    """The pods of one component of a release, or the engines of one model."""

    def __init__(self, conch: Release, component: str, model: str | None = None) -> None:
        self.namespace: Namespace = conch.models if component == "engine" else conch.namespace
        of_model = "" if model is None else f",{MODEL_LABEL}={model}"
        self._chosen = f"app.kubernetes.io/component={component}{of_model}"
        self._usual = len(self.pods())

    def pods(self) -> dict[str, str]:
        """Return the names of its pods with what tells them from others that have the same names."""
        return {str(pod["metadata"]["name"]): str(pod["metadata"]["uid"]) for pod in self._listed()}

    def is_ready(self, count: int) -> bool:
        """Return whether it has so many pods, all of them ready and none of them ending."""
        pods = self._listed()
        return len(pods) == count and all(_is_ready(pod) for pod in pods)

    async def evict(self, pod: str) -> None:
        """Have a pod evicted, as a drain of its node would; a disruption budget may make that wait."""
        await eventually_in_thread(lambda: self.namespace.evict(pod), f"{pod} to be let go", DONE_S)

    async def without(self, pods: Mapping[str, str]) -> None:
        """Wait until these pods have gone and as many others as usual are ready."""

        def replaced() -> bool:
            return not set(pods.values()) & set(self.pods().values()) and self.is_ready(self._usual)

        await eventually_in_thread(replaced, f"others than {', '.join(pods)}", DONE_S)

    def _listed(self) -> list[dict[str, Any]]:
        found = self.namespace.kubectl("get", "pods", "-l", self._chosen, "-o", "json")
        pods: list[dict[str, Any]] = json.loads(found)["items"]
        return pods


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
