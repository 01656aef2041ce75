"""Two hundred models that others serve and that share one tokenizer: soon ready, cheap at rest, quick to change."""

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from testkit.engines.external_engine import external_engine, own_address
from testkit.kubernetes.api_proxy import api_proxy
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, plane
from testkit.servers.triton import RunningTriton
from testkit.waiting import eventually

MODELS = 200
READY_S = 60
CHANGE_S = 2
CALLS_A_SECOND = 20
MEMORY_BYTES = 300 * 1024 * 1024


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RunningTriton]:
    with external_engine(tmp_path, own_address()) as found:
        yield found


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, tmp_path) as found:
        yield found


async def test_two_hundred_external_models(
    world: Plane, engine: RunningTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = world.namespace.cluster.kubeconfig
    with (
        api_proxy(kubeconfig, tmp_path / "proxy") as proxy,
        world.operator(kubeconfig=proxy.kubeconfig) as operator,
    ):
        began = time.monotonic()
        world.namespace.apply(*(world.external(f"model-{index}", engine.grpc) for index in range(MODELS)))
        await eventually(lambda: _ready(world) == MODELS, "all models to be ready", timeout_s=READY_S + 30)
        ready_s = time.monotonic() - began
        rounds = operator.rounds()
        await eventually(lambda: operator.rounds() > rounds, "the last word", timeout_s=120)
        before, rest, rounds = _versions(world), time.monotonic(), operator.rounds()
        await eventually(lambda: operator.rounds() > rounds, "a whole round at rest", timeout_s=120)
        assert _versions(world) == before
        assert proxy.writes(rest) == []
        calls = [call for call in list(proxy.calls) if call.at_s > rest]
        assert len(calls) / (time.monotonic() - rest) <= CALLS_A_SECOND
        memory = operator.memory_bytes()
        change_s = min([await _change(world, name) for name in ("one-name", "another-name", "last-name")])
        with capsys.disabled():
            print(f"\n{MODELS} models ready in {ready_s:.1f} s, {memory / 2**20:.0f} MiB, a change in {change_s:.2f} s")
        world.namespace.kubectl("delete", "mdep", "--all")
    assert ready_s <= READY_S
    assert memory <= MEMORY_BYTES
    assert change_s <= CHANGE_S


async def _change(world: Plane, name: str) -> float:
    """Return the seconds from an applied change to the gateway that serves it."""
    changed = world.namespace.get("modeldeployment", "model-7")
    changed["spec"]["servedNames"] = [name]
    for field in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
        changed["metadata"].pop(field, None)
    world.namespace.apply({key: changed[key] for key in ("apiVersion", "kind", "metadata", "spec")})

    def is_served() -> bool:
        with urlopen(f"{world.gateway}/v1/models", timeout=30) as answer:
            return f'"{name}"'.encode() in answer.read()

    return await eventually(is_served, "the new name at the gateway", timeout_s=60)


def _ready(world: Plane) -> int:
    shown = world.namespace.kubectl(
        "get", "mdep", "-o", 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
    )
    return shown.split().count("True")


def _versions(world: Plane) -> str:
    kinds = "mdep,deployment,poddisruptionbudget,pod"
    return world.namespace.kubectl("get", kinds, "-o", "jsonpath={.items[*].metadata.resourceVersion}")
