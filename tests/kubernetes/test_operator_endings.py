"""How models end: with their namespace, or with the release."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.kubernetes import Cluster, Images, Namespace, definition, fresh_namespace
from testkit.operators import Plane, plane

NAMESPACE_S = 90
"""Kubernetes looks at such a namespace twice: at once, and after half of the time that its pods are given to end."""


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, tmp_path) as found:
        yield found


def test_a_namespace_with_live_engines_goes_in_a_minute_or_so(world: Plane, namespace: Namespace) -> None:
    release = {"release": {"name": "conch", "namespace": namespace.name}}
    with world.operator(release=release):
        world.namespace.apply(world.model())
        world.wait_ready()
        began = time.monotonic()
        world.namespace.cluster.kubectl("delete", "namespace", world.namespace.name, timeout_s=600)
        took_s = time.monotonic() - began
    assert took_s < NAMESPACE_S
