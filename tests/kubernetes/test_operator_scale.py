"""Two hundred models that others serve and that share one tokenizer: soon ready, cheap at rest, quick to change."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.kubernetes import Cluster, Images, definition, fresh_namespace
from testkit.operators import Plane, plane
from testkit.waiting import eventually

MODELS = 200
READY_S = 60
CHANGE_S = 2
MEMORY_BYTES = 300 * 1024 * 1024


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, tmp_path) as found:
        yield found


async def test_two_hundred_external_models(world: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    with world.operator() as operator:
        world.namespace.apply(world.model())
        world.wait_ready()
        (engine,) = world.engines()
        external = {"external": {"grpc": engine, "modelName": "model", "dialect": "tokens"}}
        began = time.monotonic()
        world.namespace.apply(*(world.model(f"model-{index}", engine=external) for index in range(MODELS)))
        await eventually(lambda: _ready(world) == MODELS + 1, "all models to be ready", timeout_s=READY_S + 30)
        ready_s = time.monotonic() - began
        before = _versions(world)
        await eventually(lambda: time.monotonic() > began + ready_s + 15, "15 s of rest", timeout_s=20)
        assert _versions(world) == before
        memory = operator.memory_bytes()
        change_s = await _change(world)
        with capsys.disabled():
            print(f"\n{MODELS} models ready in {ready_s:.1f} s, {memory / 2**20:.0f} MiB, a change in {change_s:.2f} s")
        world.clear()
    assert ready_s <= READY_S
    assert memory <= MEMORY_BYTES
    assert change_s <= CHANGE_S


async def _change(world: Plane) -> float:
    """Return the seconds from a changed name to the registry that has it."""
    change = json.dumps({"spec": {"servedNames": ["another-name"]}})
    world.namespace.kubectl("patch", "modeldeployment", "model-7", "--type=merge", "-p", change)

    def is_routed() -> bool:
        route = world.redis.command("HGET", "conch:1:routes", f"{world.namespace.name}/model-7")
        return b"another-name" in route

    return await eventually(is_routed, "the new name in the registry", timeout_s=30)


def _ready(world: Plane) -> int:
    shown = world.namespace.kubectl(
        "get", "mdep", "-o", 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
    )
    return shown.split().count("True")


def _versions(world: Plane) -> str:
    kinds = "mdep,deployment,service,configmap,poddisruptionbudget,pod"
    return world.namespace.kubectl("get", kinds, "-o", "jsonpath={.items[*].metadata.resourceVersion}")
