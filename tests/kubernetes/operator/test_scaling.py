"""Models on a real cluster that scale; the test says what gateways have to do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from testkit.gateway.spoken_load import GatewayWord
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, plane
from testkit.processes.conch_up import wait_until


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, tmp_path) as found:
        yield found


def test_a_model_rests_without_a_pod_and_comes_back_when_something_is_held_for_it(world: Plane) -> None:
    scaling = {"minReplicas": 0, "maxReplicas": 1, "idleAfter": "1s"}
    redis = Redis.from_url(world.redis.url)

    def said() -> dict[str, Any]:
        found: dict[str, Any] = world.namespace.get("modeldeployment", "tiny-chat").get("status", {})
        return found

    def ready() -> dict[str, Any]:
        conditions: list[dict[str, Any]] = said().get("conditions", [])
        return next((one for one in conditions if one["type"] == "Ready"), {})

    def replicas() -> int:
        return int(world.namespace.get("deployment", "tiny-chat-engine")["spec"]["replicas"])

    with world.operator():
        world.namespace.apply(world.model(scaling=scaling))
        world.wait_ready()
        with GatewayWord(redis, f"{world.namespace.name}/tiny-chat") as gateway:
            gateway.says()
            wait_until(lambda: said()["replicas"] == 0, "no engine", 120, 0.5)
            wait_until(lambda: replicas() == 0, "a Deployment without a pod", 60)
            wait_until(lambda: ready().get("reason") == "ScaledToZero", "the word of it", 60, 0.5)
            assert (ready()["status"], said()["scaling"]["desired"], said()["wantedReplicas"]) == ("True", 0, 0)
            assert world.namespace.get("modeldeployment", "tiny-chat")["spec"]["replicas"] == 1
            gateway.says(held=1)
            wait_until(lambda: replicas() == 1, "the Deployment of an engine", 60)
            wait_until(lambda: said()["readyReplicas"] == 1, "an engine that answers", 300, 0.5)
            wait_until(lambda: ready().get("reason") == "Ready", "the word of it", 60, 0.5)
            gateway.says()
            wait_until(lambda: said()["replicas"] == 0, "no engine again", 120, 0.5)
        world.clear()  # while an operator lets the engine go


def test_of_two_engines_the_one_with_nothing_to_do_goes(world: Plane) -> None:
    def pods() -> dict[str, dict[str, Any]]:
        found = world.namespace.kubectl("get", "pods", "-l", "conch.dev/model-deployment=tiny-chat", "-o", "json")
        return {pod["metadata"]["name"]: pod for pod in json.loads(found)["items"]}

    def readiness(name: str) -> dict[str, str]:
        conditions: list[dict[str, str]] = pods()[name]["status"]["conditions"]
        return next((one for one in conditions if one["type"] == "Ready"), {})

    def ready() -> int:
        """Count those that Kubernetes calls ready, which comes after their first answer: all others it ends first."""
        return sum(readiness(name).get("status") == "True" for name in pods())

    with world.operator():
        world.namespace.apply(world.model(scaling={"minReplicas": 2, "maxReplicas": 2}))
        wait_until(lambda: ready() == 2, "two engines that are ready", 300, 0.5)
        # The one that Kubernetes would end first.
        busy = max(pods(), key=lambda name: readiness(name)["lastTransitionTime"])
        with GatewayWord(Redis.from_url(world.redis.url), f"{world.namespace.name}/tiny-chat") as gateway:
            gateway.says(in_flight=1, taken={f"{pods()[busy]['status']['podIP']}:8001": 1})
            world.namespace.apply(world.model(scaling={"minReplicas": 1, "maxReplicas": 1}))
            wait_until(lambda: len(pods()) == 1, "one engine", 120, 0.5)
            assert list(pods()) == [busy]
