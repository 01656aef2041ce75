"""A wish for a model at rest outlives an API server that fails and an operator that is killed.

The models are as an operator has left them that let them rest, and no node can run their pods: what counts is the call
that scales them.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conch_contracts.names import LOADS_KEY, ModelId
from conch_contracts.records import GatewayLoad, ModelDemand
from conch_kit.registry.writer import RegistryWriter
from conch_operator.kubernetes.api.lease import LeaseTimes
from testkit.gateway.fakes import route
from testkit.kubernetes.api_proxy import NO_ANSWER, ApiProxy, Call, api_proxy
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, Process, bare_plane
from testkit.patient_redis import patient_redis
from testkit.waiting import eventually

ACTS_S = 2
"""From when an operator has the Lease until it acts on a wish that was there before it."""
TRIES = 3
"""How fast an operator is shows in its fastest try: a machine that tests may stop for a moment."""
NAMES = tuple(f"rests-{number}" for number in range(6))
SCALING = {"minReplicas": 0, "maxReplicas": 1}
STATUS = {
    "observedGeneration": 1,
    "scaling": {"desired": 0, "reason": "Idle", "startSeconds": 20},
    "conditions": [
        {
            "type": kind,
            "status": "True",
            "reason": "ScaledToZero",
            "message": "No engine runs.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("EngineReady", "Ready")
    ],
}
_beats = itertools.count(1)


@pytest.fixture(scope="module")
def world(cluster: Cluster, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    folder = tmp_path_factory.mktemp("plane")
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, folder) as found:
        asyncio.run(_leave_at_rest(found))
        yield found
        found.clear()


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    """Give the names of models that nobody has wished for yet."""
    return iter(NAMES)


@pytest.fixture
def proxy(world: Plane, tmp_path: Path) -> Iterator[ApiProxy]:
    with api_proxy(world.namespace.cluster.kubeconfig, tmp_path) as found:
        yield found


async def _leave_at_rest(world: Plane) -> None:
    world.namespace.apply(*(world.unschedulable(name, scaling=SCALING) for name in NAMES))
    for name in NAMES:
        patch = json.dumps({"status": STATUS})
        world.namespace.kubectl("patch", "mdep", name, "--subresource=status", "--type=merge", "-p", patch)
    routes = [
        route(model_id=_id(world, name), served_names=(name,), wakes=True, engines_wanted=False) for name in NAMES
    ]
    async with patient_redis(world.redis.url) as redis:
        await RegistryWriter(redis).publish({each.model_id: (each, ()) for each in routes})


def _id(world: Plane, name: str) -> ModelId:
    return ModelId(f"{world.namespace.name}/{name}")


def wish(world: Plane, name: str) -> None:
    """Say once, as a gateway does again and again, that a request is held."""
    load = GatewayLoad(id="g", sequence=next(_beats), models={_id(world, name): ModelDemand(held=1)})
    record = load.model_dump_json()
    world.redis.command("HSET", LOADS_KEY, "g", record)
    world.redis.command("PUBLISH", LOADS_KEY, record)


def replicas(world: Plane, name: str) -> int | None:
    found = world.namespace.cluster.try_kubectl(
        "--namespace", world.namespace.name, "get", "deployment", f"{name}-engine", "-o", "jsonpath={.spec.replicas}"
    )
    return int(found.stdout) if found.stdout else None


async def rests(world: Plane, name: str, operator: Process) -> None:
    """Wait until an operator leads and has seen that a model rests."""
    await eventually(lambda: operator.rounds() > 0, "a round", timeout_s=60)
    await eventually(lambda: replicas(world, name) == 0, "the model at rest", timeout_s=60)


async def acts(proxy: ApiProxy, name: str, since_s: float) -> tuple[Call, Call]:
    """Return the call by which an operator gets the Lease, and the one by which it scales the model."""

    def scalings() -> list[Call]:
        return [call for call in proxy.writes(since_s) if call.path.endswith(f"/deployments/{name}-engine")]

    await eventually(scalings, "the call that scales the model", timeout_s=60)
    lease = next(call for call in list(proxy.calls) if call.at_s >= since_s and call.method == "PUT")
    scaling = scalings()[0]
    print(f"The Lease after {lease.at_s - since_s:.2f} s, the call {scaling.at_s - lease.at_s:.2f} s later.")
    return lease, scaling


async def dies_with_a_wish(world: Plane, proxy: ApiProxy, operator: Process, name: str) -> float:
    """Kill an operator that has heard a wish, while none of its writes for it has an answer; return when that was."""
    engine = f"/deployments/{name}-engine"
    proxy.rule = lambda method, path: NO_ANSWER if path.endswith((engine, f"/{name}/status")) else None

    def tried() -> bool:
        return any(call.path.endswith(engine) and call.status == NO_ANSWER for call in proxy.writes())

    wish(world, name)
    await eventually(tried, "the call that scales the model", timeout_s=30)
    await asyncio.to_thread(operator.kill)
    killed_s = time.monotonic()
    assert world.namespace.get("modeldeployment", name)["status"]["scaling"]["desired"] == 0
    proxy.rule = lambda method, path: None
    return killed_s


@pytest.mark.parametrize("status", [NO_ANSWER, 503])
async def test_a_wish_while_the_api_server_is_away_is_kept_until_it_is_back(
    world: Plane, proxy: ApiProxy, names: Iterator[str], status: int
) -> None:
    name = next(names)

    def failed(since_s: float) -> list[Call]:
        return [call for call in list(proxy.calls) if call.at_s >= since_s and call.status == status]

    with world.operator(f"without-{status}", kubeconfig=proxy.kubeconfig) as operator:
        await rests(world, name, operator)
        proxy.rule = lambda method, path: None if "/leases/" in path else status
        wished_s = time.monotonic()
        wish(world, name)
        await eventually(
            lambda: any(call.path.endswith(f"/{name}-engine") for call in failed(wished_s)), "the call", timeout_s=30
        )
        tried = len(failed(wished_s))
        await eventually(lambda: len(failed(wished_s)) > tried, "another call that fails", timeout_s=60)
        assert replicas(world, name) == 0
        proxy.rule = lambda method, path: None
        took_s = await eventually(lambda: replicas(world, name) == 1, "an engine", timeout_s=60)
        print(f"The engine {took_s:.1f} s after the API server came back.")


async def test_an_operator_that_was_killed_acts_on_a_wish_when_it_is_back(
    world: Plane, proxy: ApiProxy, names: Iterator[str]
) -> None:
    """Its container is started again in the same pod, under the name that the Lease has: it is given to it at once."""
    took_s: list[float] = []
    with world.operator("killed", kubeconfig=proxy.kubeconfig) as operator:
        while len(took_s) < TRIES and min(took_s, default=ACTS_S) >= ACTS_S:
            name = next(names)
            await rests(world, name, operator)
            killed_s = await dies_with_a_wish(world, proxy, operator, name)
            await asyncio.to_thread(operator.start)
            lease, scaling = await acts(proxy, name, killed_s)
            assert lease.at_s - killed_s < LeaseTimes().duration_s, "it has not waited for its own Lease to end"
            took_s.append(scaling.at_s - lease.at_s)
            await eventually(lambda name=name: replicas(world, name) == 1, "an engine", timeout_s=60)  # type: ignore[misc]
    assert min(took_s) < ACTS_S


async def test_another_operator_acts_on_it_when_the_lease_of_the_killed_one_is_over_and_not_before(
    world: Plane, proxy: ApiProxy, names: Iterator[str]
) -> None:
    name = next(names)
    with world.operator("leads") as first:
        await rests(world, name, first)
        with world.operator("waits", kubeconfig=proxy.kubeconfig):
            await eventually(lambda: proxy.calls, "a look at the Lease", timeout_s=60)
            first.kill()
            killed_s = time.monotonic()
            wish(world, name)
            lease, scaling = await acts(proxy, name, killed_s)
            assert [call for call in proxy.writes() if call.at_s < lease.at_s] == []
            times = LeaseTimes()
            assert lease.at_s - killed_s > times.duration_s - 2 * times.retry_s
            assert scaling.at_s - killed_s < times.duration_s + times.retry_s + ACTS_S + 1
            await eventually(lambda: replicas(world, name) == 1, "an engine", timeout_s=60)
