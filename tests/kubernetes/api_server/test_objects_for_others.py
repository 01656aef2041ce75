"""What the chart makes for a Prometheus Operator or a Gateway is what an API server with their definitions takes."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from generate.helm import Helm
from testkit.kubernetes.chart import Object, render
from testkit.kubernetes.cluster import Cluster
from testkit.processes.conch_up import wait_until

DEFINITIONS = sorted((Path(__file__).parent / "definitions").glob("*.yaml"))
KINDS = {"PodMonitor": 2, "ServiceMonitor": 1, "PrometheusRule": 1, "HTTPRoute": 1}
"""How many of each the chart makes."""
FLAGS = [
    *(f"--set=monitoring.{one}.enabled=true" for one in ("podMonitor", "serviceMonitor", "alerts")),
    "--set=httpRoute.enabled=true",
    "--set=httpRoute.parentRefs[0].name=public",
    "--set=httpRoute.hostnames[0]=models.example.com",
]
KNOWN_S = 120


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Iterator[list[Object]]:
    """Give what the chart makes, with a cluster that knows its kinds."""
    found = render(Helm(Path(cluster.tool("helm"))), *FLAGS).objects
    with ExitStack() as stack:
        for path in DEFINITIONS:
            stack.enter_context(_defined(cluster, path))
        yield [one for one in found if one["kind"] in KINDS]


@pytest.mark.parametrize(("kind", "count"), KINDS.items())
def test_the_api_server_accepts_what_is_for_others(cluster: Cluster, made: list[Object], kind: str, count: int) -> None:
    chosen = [one for one in made if one["kind"] == kind]
    assert len(chosen) == count
    for one in chosen:
        one["metadata"]["namespace"] = "default"
        apply = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
        assert "serverside-applied (server dry run)" in cluster.kubectl(*apply, stdin=json.dumps(one))


@contextmanager
def _defined(cluster: Cluster, path: Path) -> Iterator[None]:
    """Give the cluster a definition; one that is there already stays as it is."""
    name = yaml.safe_load(path.read_text(encoding="utf-8"))["metadata"]["name"]
    if cluster.try_kubectl("get", "crd", name).returncode == 0:
        yield
        return
    try:
        cluster.establish(path, name)
        wait_until(lambda: cluster.try_kubectl("get", name).returncode == 0, f"{name} to be served", KNOWN_S, 0.5)
        yield
    finally:
        cluster.kubectl("delete", "crd", name, "--ignore-not-found")
