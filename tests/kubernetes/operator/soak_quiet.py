"""Run by `make soak` only, because it takes minutes: where nothing happens, bookmarks alone keep watches open."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.kubernetes.api_proxy import api_proxy
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, bare_plane
from testkit.waiting import eventually

QUIET_S = 300
"""Bookmarks come about once a minute."""


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, tmp_path) as found:
        yield found


async def test_the_watches_of_an_operator_on_a_quiet_cluster_stay_open(world: Plane, tmp_path: Path) -> None:
    with (
        api_proxy(world.namespace.cluster.kubeconfig, tmp_path / "proxy") as proxy,
        world.operator(kubeconfig=proxy.kubeconfig) as operator,
    ):
        await eventually(lambda: operator.rounds() >= 2, "some rounds", timeout_s=60)
        began = time.monotonic()

        def is_over() -> bool:
            assert operator.is_live(), f"not live after {time.monotonic() - began:.0f} s"
            return time.monotonic() - began > QUIET_S

        await eventually(is_over, "the end of a quiet time", timeout_s=QUIET_S + 30)
        opened = [call.path for call in list(proxy.calls) if call.watch]
        assert opened
        assert len(opened) == len(set(opened))
