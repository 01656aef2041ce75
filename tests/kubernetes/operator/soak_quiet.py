"""Run by `make soak` only, because it takes minutes: where nothing happens, bookmarks alone keep an operator live."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, bare_plane
from testkit.waiting import eventually

QUIET_S = 300
SILENCE_S = 120
"""Bookmarks come about once a minute."""


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, tmp_path) as found:
        yield found


async def test_an_operator_on_a_quiet_cluster_stays_live(world: Plane) -> None:
    with world.operator(watch_silence_s=SILENCE_S) as operator:
        began = time.monotonic()

        def is_over() -> bool:
            assert operator.is_live(), f"not live after {time.monotonic() - began:.0f} s"
            return time.monotonic() - began > QUIET_S

        await eventually(is_over, "the end of a quiet time", timeout_s=QUIET_S + 30)
