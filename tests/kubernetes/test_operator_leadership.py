"""Several operators, operators that die, and an API server's view of both: one works at a time, and nothing is lost."""

import asyncio
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from testkit.faultproxy import fault_proxy
from testkit.kubernetes import Cluster, Images, definition, fresh_namespace
from testkit.operators import Plane, plane
from testkit.waiting import eventually

TAKEOVER_S = 20
KILLS = 10
AWAY_S = 30
"""Longer than a Lease lasts."""


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, tmp_path) as found:
        yield found


def external(world: Plane, name: str, **spec: Any) -> dict[str, Any]:
    """Return a model whose engine nobody answers for: everything about it is quick."""
    engine = {"external": {"grpc": "127.0.0.1:9", "dialect": "tokens", "modelName": "none"}}
    return world.model(name, engine=engine, **spec)


async def test_another_operator_takes_over_from_one_that_hangs(world: Plane) -> None:
    with world.operator("first") as first:
        await eventually(lambda: holder(world) == "first", "the first to lead", timeout_s=10)
        with world.operator("second"):
            world.namespace.apply(external(world, "before"))
            await eventually(lambda: world.condition("before"), "a status", timeout_s=10)
            first.send(signal.SIGSTOP)
            fence = transitions(world)
            took_s = await eventually(lambda: holder(world) == "second", "the second to lead", timeout_s=TAKEOVER_S)
            assert took_s < TAKEOVER_S
            world.namespace.apply(external(world, "after"))
            await eventually(lambda: world.condition("after"), "a status by the second", timeout_s=10)
            first.send(signal.SIGCONT)
            await eventually(lambda: "lost its Lease" in first.log.read_text(), "the first to notice", timeout_s=10)
            assert holder(world) == "second"
            assert transitions(world) == fence + 1
            world.namespace.kubectl("delete", "modeldeployments", "--all")


async def test_an_operator_that_ends_hands_over_at_once(world: Plane) -> None:
    with world.operator("first") as first:
        await eventually(lambda: holder(world) == "first", "the first to lead", timeout_s=10)
        with world.operator("second"):
            first.stop()
            await eventually(lambda: holder(world) == "second", "the second to lead", timeout_s=6)


async def test_an_operator_that_is_killed_at_any_point_leaves_nothing_over(world: Plane) -> None:
    choice = random.Random(7)
    operator = world.operator()
    script = [("apply", {}), ("apply", {"servedNames": ["other"]}), ("delete", {}), ("apply", {})]
    with operator:
        for index in range(KILLS):
            action, spec = script[index % len(script)]
            made = world.model("victim", engine={"cpu": {}, "nodeSelector": {"disk": "none"}}, **spec)
            if action == "apply":
                world.namespace.apply(made)
            else:
                world.namespace.kubectl("delete", "modeldeployment", "victim")
            await _for(choice.uniform(0, 1.5))
            operator.kill()
            operator.start()
        world.namespace.apply(world.model("victim", engine={"cpu": {}, "nodeSelector": {"disk": "none"}}))
        await eventually(
            lambda: world.condition("victim").get("reason") == "Unschedulable", "the same end state", timeout_s=30
        )
        kinds = "deployment,service,poddisruptionbudget"
        await eventually(
            lambda: (
                sorted(world.namespace.kubectl("get", kinds, "-o", "name").split())
                == [
                    "deployment.apps/victim-engine",
                    "poddisruptionbudget.policy/victim-engine",
                    "service/victim-engine",
                ]
            ),
            "no orphan and no duplicate",
            timeout_s=30,
        )
        world.clear()


async def test_a_while_without_the_api_server_changes_nothing(world: Plane, tmp_path: Path) -> None:
    config = yaml.safe_load(world.namespace.cluster.kubeconfig.read_text())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    async with fault_proxy(server.hostname or "", server.port or 443) as proxy:
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        operator = world.operator(kubeconfig=kubeconfig)
        await asyncio.to_thread(operator.start)
        with operator.ending():
            world.namespace.apply(world.model())
            await asyncio.to_thread(world.wait_ready)
            engines = world.engines()
            proxy.cut()
            await _for(AWAY_S)
            assert world.engines() == engines
            assert operator.is_running()
            proxy.mend()
            world.namespace.apply(world.model("another", servedNames=["tiny-chat"]))
            await eventually(
                lambda: world.condition("another").get("reason") == "NameConflict", "work to go on", timeout_s=20
            )
            assert world.engines() == engines
            await asyncio.to_thread(world.clear)


async def _for(seconds: float) -> None:
    """Let a random time pass: the point of the test."""
    await asyncio.sleep(seconds)


def holder(world: Plane) -> str:
    """Return who holds the Lease."""
    found = world.namespace.cluster.try_kubectl(
        "-n", world.namespace.name, "get", "lease", "conch-operator", "-o", "jsonpath={.spec.holderIdentity}"
    )
    return found.stdout


def transitions(world: Plane) -> int:
    return int(world.namespace.get("lease", "conch-operator")["spec"]["leaseTransitions"])
