"""An API server that refuses, fails, is busy, or whose watches say nothing; and what must not be told to anybody."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.engines.external_engine import external_engine, own_address
from testkit.kubernetes.api_proxy import ApiProxy, api_proxy
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, bare_plane
from testkit.servers.triton import RunningTriton
from testkit.waiting import eventually

DRIFT_S = 60
"""Twice what is promised: most of that is 20 s in which the watches say nothing."""
OBSERVED_S = 6
SECRET = "canary-5f1d0b"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    with external_engine(tmp_path_factory.mktemp("engine"), own_address()) as found:
        yield found


@pytest.fixture(scope="module")
def surroundings(cluster: Cluster, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    folder = tmp_path_factory.mktemp("plane")
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, folder) as found:
        yield found


@pytest.fixture
def world(surroundings: Plane) -> Iterator[Plane]:
    """Give the plane without models, before and after."""
    yield surroundings
    surroundings.namespace.kubectl("delete", "mdep", "--all")


@pytest.fixture
def proxy(world: Plane, tmp_path: Path) -> Iterator[ApiProxy]:
    with api_proxy(world.namespace.cluster.kubeconfig, tmp_path) as found:
        yield found


@pytest.mark.parametrize("status", [409, 500])
async def test_a_call_that_fails_is_tried_ever_more_rarely_and_holds_up_no_other_model(
    world: Plane, proxy: ApiProxy, engine: RunningTriton, status: int
) -> None:
    def rule(method: str, path: str) -> int | None:
        return status if method == "PATCH" and path.endswith("/deployments/bad-engine") else None

    def failed() -> list[float]:
        return [call.at_s for call in list(proxy.calls) if call.status == status and "bad-engine" in call.path]

    proxy.rule = rule
    with world.operator(f"failing-{status}", kubeconfig=proxy.kubeconfig):
        world.namespace.apply(world.unschedulable("bad"), world.external("good", engine.grpc))
        await asyncio.to_thread(world.wait_ready, "good")
        await eventually(lambda: world.condition("bad").get("reason") == "Rejected", "the reason", timeout_s=60)
        assert "injected" in world.condition("bad")["message"]
        await eventually(lambda: len(failed()) >= 4, "four attempts", timeout_s=120)
        pauses = [after - before for before, after in itertools.pairwise(failed())]
        assert pauses[2] > pauses[0]
        assert pauses[2] >= 2
        proxy.rule = lambda method, path: None
        await eventually(
            lambda: world.condition("bad").get("reason") == "Unschedulable", "the next attempt", timeout_s=120
        )


@pytest.mark.parametrize("status", [429, 500])
async def test_an_api_server_that_fails_at_everything_is_not_pestered(
    world: Plane, proxy: ApiProxy, engine: RunningTriton, status: int
) -> None:
    world.namespace.apply(world.external("model", engine.grpc))
    with world.operator(f"pestering-{status}", kubeconfig=proxy.kubeconfig) as operator:
        await asyncio.to_thread(world.wait_ready, "model")
        proxy.rule = lambda method, path: None if "/leases/" in path else status
        began = time.monotonic()
        world.namespace.kubectl("annotate", "mdep", "model", "example.com/touched=1")
        await eventually(lambda: time.monotonic() - began > OBSERVED_S, "a while", timeout_s=OBSERVED_S + 1)
        asked = [call for call in list(proxy.calls) if call.at_s >= began and call.status == status]
        assert 2 <= len(asked) <= 5 * OBSERVED_S
        proxy.rule = lambda method, path: None
        world.namespace.apply(world.external("later", engine.grpc))
        await asyncio.to_thread(world.wait_ready, "later")
        assert operator.is_running()
        assert world.condition("model")["status"] == "True"


async def test_what_drifts_is_put_right_though_watches_tell_nothing(world: Plane, proxy: ApiProxy) -> None:
    world.namespace.apply(world.unschedulable("drifting"))
    with world.operator("deaf", kubeconfig=proxy.kubeconfig):
        await eventually(
            lambda: world.condition("drifting").get("reason") == "Unschedulable", "the model", timeout_s=60
        )
        proxy.silent = True
        world.namespace.kubectl("delete", "pdb", "drifting-engine")
        world.namespace.kubectl("scale", "deployment", "drifting-engine", "--replicas=4")

        def is_right() -> bool:
            shown = world.namespace.kubectl("get", "deployment", "-o", "jsonpath={.items[*].spec.replicas}")
            budgets = world.namespace.kubectl("get", "pdb", "-o", "name")
            return shown.split() == ["2"] and "drifting-engine" in budgets

        await eventually(is_right, "budget and replicas", timeout_s=DRIFT_S)


async def test_a_watch_whose_connection_is_dead_is_opened_again_and_tells_of_changes(
    world: Plane, proxy: ApiProxy
) -> None:
    def watched() -> list[str]:
        return [call.path for call in list(proxy.calls) if call.watch]

    with world.operator("cut-off", kubeconfig=proxy.kubeconfig, watch_stale_s=5, round_s=600) as operator:
        await eventually(lambda: {"modeldeployments", "pods"} <= _plurals(watched()), "the watches", timeout_s=60)
        await eventually(lambda: operator.rounds() > 0, "a round", timeout_s=60)
        proxy.silent = True
        before = len(watched())
        await eventually(lambda: {"modeldeployments", "pods"} <= _plurals(watched()[before:]), "others", timeout_s=60)
        proxy.silent = False
        world.namespace.apply(world.external("heralded"))
        await eventually(lambda: world.condition("heralded"), "a word about the model", timeout_s=60)
        assert operator.is_live()


async def test_the_password_of_redis_is_told_to_nobody(world: Plane, engine: RunningTriton) -> None:
    url = world.redis.url.replace("redis://", f"redis://:{SECRET}@")
    world.namespace.apply(world.external("told", engine.grpc))
    with world.operator("careless", redis_url=url) as operator:
        await eventually(
            lambda: world.condition("told", "SourceReady").get("status") == "True", "the source", timeout_s=60
        )
        await eventually(lambda: world.condition("told").get("status") == "False", "the fault", timeout_s=60)
        told = world.namespace.kubectl("get", "mdep,events,deployments", "-o", "yaml")
        assert "RegistryUnavailable" in told
        assert SECRET not in told
        assert SECRET not in operator.log.read_text()


def _plurals(paths: list[str]) -> set[str]:
    return {path.rsplit("/", 1)[-1] for path in paths}
