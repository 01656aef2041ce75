"""An operator that is killed at random points of a script: the same end as without, no orphan and no duplicate.

CONCH_TEST_KILLS says how often (10; `make soak`: 100) and CONCH_TEST_SEED which points; both are printed.
"""

import asyncio
import json
import os
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testkit.engines.external_engine import external_engine, own_address
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, Process, bare_plane
from testkit.servers.triton import RunningTriton
from testkit.waiting import eventually

KILLS = int(os.environ.get("CONCH_TEST_KILLS", "10"))  # noqa: TID251
SEED = int(os.environ.get("CONCH_TEST_SEED") or secrets.randbelow(10**6))  # noqa: TID251
LATEST_S = 2.0
"""A kill comes so long after a step at the latest: a round takes a fraction of it."""
KINDS = "deployment,poddisruptionbudget"


@dataclass(frozen=True, slots=True)
class End:
    """All that one run of the script leaves."""

    objects: list[tuple[str, str, Any]]
    conditions: dict[str, list[tuple[str, str, str]]]
    routes: list[bytes]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RunningTriton]:
    with external_engine(tmp_path, own_address()) as found:
        yield found


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, tmp_path) as found:
        yield found


async def test_an_operator_killed_at_random_points_comes_to_the_same_end(
    world: Plane, engine: RunningTriton, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{KILLS} kills, CONCH_TEST_SEED={SEED}")
    choice = random.Random(SEED)
    script = list(_script(world, engine.grpc))
    with world.operator() as operator:
        for step in script:
            step()
        expected = await _end(world)
        _clear(world)
        for number in range(KILLS):
            script[number % len(script)]()
            await asyncio.sleep(choice.uniform(0, LATEST_S))  # where the kill comes is what is random
            await asyncio.to_thread(_kill, operator)
        for step in script[KILLS % len(script) :] if KILLS % len(script) else ():
            step()
        assert await _end(world) == expected
        _clear(world)
        await eventually(lambda: _objects(world) == [], "no orphan", timeout_s=60)
        await eventually(lambda: _routes(world) == [], "no route", timeout_s=60)


def _script(world: Plane, grpc: str) -> Iterator[Any]:
    """Give the steps: models are made, changed, deleted and made again, with objects of their own and shared ones."""
    apply, kubectl = world.namespace.apply, world.namespace.kubectl
    yield lambda: apply(world.unschedulable("one"), world.external("two", grpc))
    yield lambda: apply(world.unschedulable("one", servedNames=["other"]))
    yield lambda: apply(world.external("two", grpc, routing={"timeout": "5m"}), world.external("three", grpc))
    yield lambda: kubectl("delete", "mdep", "one", "two", "--ignore-not-found")
    yield lambda: apply(world.unschedulable("one", replicas=3))
    yield lambda: apply(world.external("two", grpc, servedNames=["second"]))
    yield lambda: kubectl("delete", "mdep", "three", "--ignore-not-found")


def _kill(operator: Process) -> None:
    operator.kill()
    operator.start()


async def _end(world: Plane) -> End:
    """Return what there is when all is as it is to be."""
    await asyncio.to_thread(world.wait_ready, "two")
    done = partial(world.namespace.wait, "condition=Reconciling=False", "modeldeployment/two", timeout_s=60)
    await asyncio.to_thread(done)
    await eventually(
        lambda: world.condition("one").get("reason") == "Unschedulable", "the model without a node", timeout_s=60
    )
    await eventually(lambda: len(_objects(world)) == 3, "one set of objects", timeout_s=60)
    conditions = {name: _conditions(world, name) for name in ("one", "two")}
    return End(_objects(world), conditions, _routes(world))


def _clear(world: Plane) -> None:
    world.namespace.kubectl("delete", "mdep", "--all")


def _objects(world: Plane) -> list[tuple[str, str, Any]]:
    """Return kind, name and content of what the operator has made; what differs between any two runs is left out."""
    shown = world.namespace.kubectl("get", KINDS, "-l", "conch.dev/model-deployment", "-o", "json")
    return sorted((item["kind"], item["metadata"]["name"], _content(item)) for item in json.loads(shown)["items"])


def _content(item: dict[str, Any]) -> str:
    meta = item["metadata"]
    owners = sorted(owner["name"] for owner in meta.get("ownerReferences", ()))
    return json.dumps([item.get("spec"), meta["labels"].get("conch.dev/component"), owners])


def _conditions(world: Plane, name: str) -> list[tuple[str, str, str]]:
    status = world.namespace.get("mdep", name)["status"]
    return sorted((one["type"], one["status"], one["reason"]) for one in status["conditions"])


def _routes(world: Plane) -> list[bytes]:
    reply = world.redis.command("HKEYS", "conch:1:routes")
    return sorted(line for line in reply.split(b"\r\n")[1:] if line and not line.startswith((b"$", b"*")))
