"""How models end with their namespace."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.kubernetes.cluster import Cluster, Images, Namespace, definition, fresh_namespace
from testkit.kubernetes.operator_process import ENGINE_DRAIN_S, Plane, bare_plane

NAMESPACE_S = 15 + (ENGINE_DRAIN_S + 60) / 2 + 10
"""Kubernetes looks at such a namespace twice: at once, and after half of the time that its pods are given to end."""


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, tmp_path) as found:
        yield found


def test_a_namespace_with_live_engines_goes_when_its_pods_may_have_ended(world: Plane, namespace: Namespace) -> None:
    release: dict[str, Any] = {"release": {"name": "conch", "namespace": namespace.name}}
    with world.operator(release=release):
        world.namespace.apply(world.model())
        world.wait_ready()
        began = time.monotonic()
        world.namespace.cluster.kubectl("delete", "namespace", world.namespace.name, timeout_s=600)
        took_s = time.monotonic() - began
    assert took_s < NAMESPACE_S
