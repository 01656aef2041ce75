"""Run by `make soak` only, because it takes minutes: where nothing happens, nothing is listed again."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.kubernetes.api_proxy import api_proxy
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, bare_plane
from testkit.waiting import eventually

QUIET_S = 300
"""Watches end and are opened again many times meanwhile."""


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, tmp_path) as found:
        yield found


async def test_an_operator_on_a_quiet_cluster_lists_nothing_again(world: Plane, tmp_path: Path) -> None:
    with (
        api_proxy(world.namespace.cluster.kubeconfig, tmp_path / "proxy") as proxy,
        world.operator(kubeconfig=proxy.kubeconfig) as operator,
    ):
        await eventually(lambda: operator.rounds() >= 2, "some rounds", timeout_s=60)

        def read() -> list[str]:
            calls = [call for call in list(proxy.calls) if call.method == "GET" and not call.watch]
            return [call.path for call in calls if "/leases/" not in call.path]

        before, began = read(), time.monotonic()

        def is_over() -> bool:
            assert operator.is_live(), f"not live after {time.monotonic() - began:.0f} s"
            return time.monotonic() - began > QUIET_S

        await eventually(is_over, "the end of a quiet time", timeout_s=QUIET_S + 30)
        assert [call.path for call in proxy.calls if call.watch]
        assert read() == before
