"""Pools of workers come with the first model of their kind, go a while after the last, and belong to the release."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.kubernetes import Cluster, Images, definition, fresh_namespace
from testkit.operators import Plane, plane
from testkit.waiting import eventually

IDLE_S = 3


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


async def test_a_pool_runs_while_a_model_of_its_kind_exists(world: Plane) -> None:
    world.namespace.apply(deployment(world, "the-operator", replicas=0))
    pool = {
        "kinds": ["LLM"],
        "minReplicas": 2,
        "maxReplicas": 4,
        "idleSeconds": IDLE_S,
        "objects": {"deployment": deployment(world, "llm-worker")},
    }
    release = {
        "owner": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "the-operator"},
        "workerPools": {"llm": pool, "embed": {**pool, "kinds": ["Embedding"], "objects": {}}},
    }
    external = {"external": {"grpc": "127.0.0.1:9", "dialect": "tokens"}}

    def workers() -> list[dict[str, Any]]:
        found = world.namespace.kubectl("get", "deployment", "-l", "conch.dev/worker-pool=llm", "-o", "json")
        items: list[dict[str, Any]] = json.loads(found)["items"]
        return items

    with world.operator(release=release, round_s=1):
        assert workers() == []
        world.namespace.apply(world.model("first", engine=external), world.model("second", engine=external))
        await eventually(workers, "the pool", timeout_s=15)
        (made,) = workers()
        assert made["spec"]["replicas"] == 2
        assert [owner["name"] for owner in made["metadata"]["ownerReferences"]] == ["the-operator"]
        world.namespace.kubectl("delete", "modeldeployment", "first")
        await eventually(lambda: "first" not in world.namespace.kubectl("get", "mdep"), "one model to go")
        assert workers()
        world.namespace.kubectl("delete", "modeldeployment", "second")
        took_s = await eventually(lambda: not workers(), "the pool to go", timeout_s=20)
        assert took_s > IDLE_S - 2
        world.clear()
