"""Pools of workers come with the first model of their kind, go a while after the last, and belong to the release."""

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conch_contracts.names import workers_key
from conch_contracts.records import Pool
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, nobody, plane
from testkit.waiting import eventually

IDLE_S = 3
EXTERNAL = {"external": {"grpc": nobody(), "dialect": "tokens"}}


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, tmp_path) as found:
        yield found


def deployment(world: Plane, name: str, replicas: int | None = None) -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": name}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "main",
                        "image": world.images["operator"],
                        "command": ["sleep", "1000"],
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    }
                ],
            },
        },
    }
    found = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels}, "spec": spec}
    return found if replicas is None else {**found, "spec": {**spec, "replicas": replicas}}


def release(world: Plane, **pool: Any) -> dict[str, Any]:
    """Return a release with a pool for LLMs, which belongs to a Deployment that is made here."""
    world.namespace.apply(deployment(world, "the-operator", replicas=0))
    llm = {
        "kinds": ["LLM"],
        "minReplicas": 1,
        "maxReplicas": 4,
        "idleSeconds": IDLE_S,
        "objects": {"deployment": deployment(world, "llm-worker")},
        **pool,
    }
    return {
        "owner": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "the-operator"},
        "workerPools": {"llm": llm, "embed": {**llm, "kinds": ["Embedding"], "objects": {}}},
    }


def workers(world: Plane) -> list[dict[str, Any]]:
    """Return the Deployment of the pool, if it is there."""
    found = world.namespace.kubectl("get", "deployment", "-l", "conch.dev/worker-pool=llm", "-o", "json")
    items: list[dict[str, Any]] = json.loads(found)["items"]
    return items


async def test_a_pool_runs_while_a_model_of_its_kind_exists(world: Plane) -> None:
    with world.operator(release=release(world, minReplicas=2), round_s=1):
        assert workers(world) == []
        world.namespace.apply(world.model("first", engine=EXTERNAL), world.model("second", engine=EXTERNAL))
        await eventually(lambda: workers(world), "the pool", timeout_s=60)
        (made,) = workers(world)
        assert made["spec"]["replicas"] == 2
        assert [owner["name"] for owner in made["metadata"]["ownerReferences"]] == ["the-operator"]
        world.namespace.kubectl("delete", "modeldeployment", "first")
        await eventually(lambda: "first" not in world.namespace.kubectl("get", "mdep"), "one model to go")
        assert workers(world)
        began = time.monotonic()
        world.namespace.kubectl("delete", "modeldeployment", "second")
        await eventually(lambda: not workers(world), "the pool to go", timeout_s=60)
        assert time.monotonic() - began > IDLE_S - 2
        world.clear()


async def test_a_pool_that_is_refused_is_told_where_the_release_is_described(world: Plane) -> None:
    def described(name: str) -> str:
        return world.namespace.kubectl("describe", "deployment", name)

    refused = deployment(world, "llm-worker")
    refused["spec"]["template"]["spec"]["tolerations"] = [{"key": "gpu", "operator": "Has"}]
    with world.operator(release=release(world, objects={"deployment": refused}), round_s=1):
        world.namespace.apply(world.model("refused", engine=EXTERNAL))
        await eventually(lambda: 'Unsupported value: "Has"' in described("the-operator"), "the Event", timeout_s=60)
        assert "Correct workers.llm in the values of the release" in described("the-operator")


async def test_a_pool_follows_a_step_of_its_load_within_a_minute(world: Plane) -> None:
    sequence = itertools.count(1)

    def follows() -> bool:
        """Announce a worker with 25 requests in flight, as it would itself every 2 s."""
        beat = {"url": "http://127.0.0.1:9", "sequence": next(sequence), "in_flight": 25}
        world.redis.command("HSET", workers_key(Pool.LLM), str(beat["url"]), json.dumps(beat))
        return [made["spec"]["replicas"] for made in workers(world)] == [3]

    with world.operator(release=release(world, requestsPerWorker=10), round_s=1):
        world.namespace.apply(world.model("loaded", engine=EXTERNAL))
        await eventually(lambda: workers(world), "the pool", timeout_s=60)
        assert [made["spec"]["replicas"] for made in workers(world)] == [1]
        await eventually(follows, "three workers", timeout_s=60)
        world.clear()
