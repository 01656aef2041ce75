"""An operator with nothing to do does nothing: a hundred rounds without a write but the Lease's."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from testkit.engines.external_engine import external_engine, own_address
from testkit.kubernetes.api_proxy import api_proxy
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, Process, bare_plane
from testkit.servers.triton import RunningTriton
from testkit.waiting import eventually

ROUNDS = 100
KINDS = "mdep,deployment,replicaset,poddisruptionbudget,pod,events.events.k8s.io"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RunningTriton]:
    with external_engine(tmp_path, own_address()) as found:
        yield found


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, tmp_path) as found:
        yield found


async def test_a_hundred_rounds_at_rest_write_nothing(world: Plane, engine: RunningTriton, tmp_path: Path) -> None:
    with (
        api_proxy(world.namespace.cluster.kubeconfig, tmp_path / "proxy") as proxy,
        world.operator(kubeconfig=proxy.kubeconfig, round_s=0.01) as operator,
    ):
        world.namespace.apply(world.external("ready", engine.grpc), world.unschedulable("not-ready"))
        await asyncio.to_thread(world.wait_ready, "ready")
        await eventually(
            lambda: world.condition("not-ready").get("reason") == "Unschedulable", "the reason", timeout_s=60
        )
        before = await _at_rest(world, operator)
        rounds, calls = operator.rounds(), len(proxy.calls)
        await eventually(lambda: operator.rounds() >= rounds + ROUNDS, "a hundred rounds", timeout_s=480)
        assert _versions(world) == before
        later = list(proxy.calls)[calls:]
        assert [call for call in later if call.is_write] == []
        assert {call.path.rpartition("/")[2] for call in later if call.method != "GET"} == {"conch-operator"}
        world.namespace.kubectl("delete", "mdep", "--all")


async def _at_rest(world: Plane, operator: Process) -> str:
    """Wait until nothing has been written for three rounds, by the cluster's own controllers either."""
    async with asyncio.timeout(120):
        while True:
            before, rounds = _versions(world), operator.rounds()
            await eventually(partial(_has_made, operator, rounds + 3), "three rounds", timeout_s=60)
            if _versions(world) == before:
                return before


def _has_made(operator: Process, rounds: int) -> bool:
    return operator.rounds() >= rounds


def _versions(world: Plane) -> str:
    shown = "{range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion} {end}"
    return world.namespace.kubectl("get", KINDS, "-o", f"jsonpath={shown}")
