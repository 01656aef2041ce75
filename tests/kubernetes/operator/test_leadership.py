"""Several operators: one works at a time, and another takes over when it hangs or ends."""

import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from testkit.kubernetes.api_proxy import api_proxy
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, bare_plane
from testkit.waiting import eventually

TAKEOVER_S = 20


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, tmp_path) as found:
        yield found


async def test_another_operator_takes_over_from_one_that_hangs_and_that_writes_nothing_more(
    world: Plane, tmp_path: Path
) -> None:
    kubeconfig = world.namespace.cluster.kubeconfig
    with (
        api_proxy(kubeconfig, tmp_path / "a") as to_first,
        world.operator("first", kubeconfig=to_first.kubeconfig) as first,
    ):
        await eventually(lambda: holder(world) == "first", "the first to lead", timeout_s=60)
        with world.operator("second") as second:
            world.namespace.apply(world.external("before"))
            await eventually(lambda: world.condition("before"), "a status", timeout_s=60)
            first.send(signal.SIGSTOP)
            stopped_at = datetime.now(UTC)
            fence = transitions(world)
            await eventually(lambda: holder(world) == "second", "the second to lead", timeout_s=60)
            taken_s = time.monotonic()  # what the first had sent when it was stopped may have arrived before
            assert acquired_at(world) - stopped_at < timedelta(seconds=TAKEOVER_S)
            assert not first.is_live()
            world.namespace.apply(world.external("after"))
            await eventually(lambda: world.condition("after"), "a status by the second", timeout_s=60)
            first.send(signal.SIGCONT)
            await eventually(lambda: "lost its Lease" in first.log.read_text(), "the first to notice", timeout_s=60)
            rounds = second.rounds()
            world.namespace.apply(world.external("later"))
            await eventually(lambda: second.rounds() >= rounds + 5, "the second to go on", timeout_s=120)
            assert to_first.writes(taken_s) == []
            assert [call for call in to_first.calls if call.method == "PUT" and call.at_s > taken_s] == []
            assert (holder(world), transitions(world)) == ("second", fence + 1)
            assert first.is_running()
            world.namespace.kubectl("delete", "modeldeployments", "--all")


async def test_an_operator_that_ends_hands_over_at_once(world: Plane) -> None:
    with world.operator("first") as first:
        await eventually(lambda: holder(world) == "first", "the first to lead", timeout_s=60)
        with world.operator("second"):
            first.stop()
            assert holder(world) in ("", "second")  # it would have its Lease for 15 s more
            await eventually(lambda: holder(world) == "second", "the second to lead", timeout_s=60)


def holder(world: Plane) -> str:
    """Return who holds the Lease."""
    found = world.namespace.cluster.try_kubectl(
        "-n", world.namespace.name, "get", "lease", "conch-operator", "-o", "jsonpath={.spec.holderIdentity}"
    )
    return found.stdout


def acquired_at(world: Plane) -> datetime:
    return datetime.fromisoformat(world.namespace.get("lease", "conch-operator")["spec"]["acquireTime"])


def transitions(world: Plane) -> int:
    return int(world.namespace.get("lease", "conch-operator")["spec"]["leaseTransitions"])
