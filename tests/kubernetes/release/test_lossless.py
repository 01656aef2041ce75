"""No request fails and no stream breaks while a release is upgraded, and its parts replaced, scaled and evicted."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from testkit.kubernetes.cluster import Cluster, Images, Namespace
from testkit.kubernetes.release import Release, release
from testkit.kubernetes.steady_load import STREAMS, steady_load
from testkit.waiting import eventually, eventually_in_thread

PACED = {"engine": {"cpu": {"maxBatchSize": 64, "tokensPerSecond": 20}}}
"""A story of 118 tokens takes 6 s, and one engine has room for all of the load."""
CHANGED = {"engine": {"cpu": {"maxBatchSize": 63, "tokensPerSecond": 20}}}
SCALING = {"minReplicas": 0, "maxReplicas": 2, "idleAfter": "1s"}
"""By its load the model needs one engine; an outage taken for a time without load would end that one."""
DONE_S = 180
SERVICES = ("llm-worker", "tokenizer", "gateway")
COMPONENTS = ("engine", *SERVICES, "operator", "redis")


@pytest.fixture(scope="module")
def conch(cluster: Cluster, images: Images) -> Iterator[Release]:
    """Give a release."""
    with release(cluster, images) as installed:
        yield installed


@pytest.fixture(scope="module")
def model(conch: Release) -> str:
    """Give the name of a paced model that serves, with scaling on."""
    name = conch.apply_example(**PACED, scaling=SCALING)
    conch.wait_ready(name)
    return name


@asynccontextmanager
async def nothing_lost(conch: Release, model: str) -> AsyncIterator[None]:
    """Load the release beside the body, once all streams run, and see that nothing of the load is lost."""
    async with conch.client() as client:
        async with steady_load(client, model) as load:
            await eventually(lambda: load.streaming == STREAMS or load.failures, "all streams to run", 60)
            yield
        assert load.failures == [], conch.troubles()
        assert load.streams >= STREAMS


async def test_a_changed_model(conch: Release, model: str) -> None:
    engine = Part(conch, "engine")
    async with nothing_lost(conch, model):
        before = engine.pods()
        change(conch, model, **CHANGED)
        await engine.without(before)


async def test_an_upgrade_and_the_way_back(conch: Release, model: str) -> None:
    parts = [Part(conch, component) for component in (*SERVICES, "operator")]
    engines = Part(conch, "engine").pods()
    async with nothing_lost(conch, model):
        await all_replaced(parts, lambda: conch.upgrade("--set=logLevel=WARNING"))
        await all_replaced(parts, conch.roll_back)
    assert Part(conch, "engine").pods() == engines


async def test_scaling_up_and_down(conch: Release, model: str) -> None:
    """First within the bounds of scaling, then by hand, which takes scaling away and gives it back."""
    engine = Part(conch, "engine")

    async def becomes(replicas: int) -> None:
        await eventually_in_thread(lambda: engine.is_ready(replicas), f"{replicas} engines", DONE_S)

    async with nothing_lost(conch, model):
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
async def test_an_eviction_and_a_deletion(conch: Release, model: str, component: str) -> None:
    """One pod is evicted and then the other one deleted, or the one that has come for it."""
    part = Part(conch, component)
    before = part.pods()
    async with nothing_lost(conch, model):
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
    """The pods of one component of a release."""

    def __init__(self, conch: Release, component: str) -> None:
        self.namespace: Namespace = conch.models if component == "engine" else conch.namespace
        self._component = component
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
        chosen = f"app.kubernetes.io/component={self._component}"
        found: list[dict[str, Any]] = json.loads(self.namespace.kubectl("get", "pods", "-l", chosen, "-o", "json"))[
            "items"
        ]
        return found


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
