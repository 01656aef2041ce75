"""The operator with the rights that the chart gives it, and no more: they are enough, and they are these."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from generate.helm import Helm, HelmMissing
from testkit.kubernetes.chart import render
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, bare_plane
from testkit.waiting import eventually

GOLDEN = Path(__file__).parent / "rights.txt"
RIGHTS = ("ServiceAccount", "Role", "RoleBinding")
ACCOUNT = "conch-operator"
EVERYBODYS = (" ", "self")
"""How lines begin that are true of any account: paths such as /healthz, and questions about oneself."""


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, bare_plane(namespace, images, tmp_path) as found:
        yield found


@pytest.fixture
def account(world: Plane) -> str:
    """Give the name of the operator's account, made as the chart makes it for an operator of one namespace."""
    try:
        helm = Helm.find(os.environ)  # noqa: TID251
    except HelmMissing as missing:
        pytest.skip(str(missing))
    name = world.namespace.name
    made = render(helm, "--namespace", name, "--set", f"operator.watchNamespaces={{{name}}}")
    world.namespace.apply(*(found for kind in RIGHTS for found in made.of(kind)))
    return f"system:serviceaccount:{name}:{ACCOUNT}"


def test_the_rights_of_the_operator_are_these(world: Plane, account: str) -> None:
    shown = world.namespace.kubectl("auth", "can-i", "--list", f"--as={account}")
    rights = sorted(
        re.sub(r" {2,}", "  ", line).rstrip() for line in shown.splitlines()[1:] if not line.startswith(EVERYBODYS)
    )
    assert rights == GOLDEN.read_text().splitlines()


async def test_the_rights_of_the_operator_are_enough(world: Plane, account: str, tmp_path: Path) -> None:
    kubeconfig = _kubeconfig(world, tmp_path / "kubeconfig")
    with world.operator(kubeconfig=kubeconfig) as operator:
        world.namespace.apply(world.model(), world.unschedulable("waiting"))
        world.wait_ready()
        _reason_is(world, "waiting", "Unschedulable")
        world.namespace.kubectl("delete", "pdb", "waiting-engine")
        await eventually(lambda: "waiting-engine" in _names(world, "pdb"), "the budget again", timeout_s=60)
        events = json.loads(world.namespace.kubectl("get", "events.events.k8s.io", "-o", "json"))["items"]
        assert any(event["regarding"].get("name") == "waiting" for event in events)
        world.clear()
        assert "forbidden" not in operator.log.read_text()


def _reason_is(world: Plane, name: str, reason: str) -> None:
    world.namespace.wait(f"jsonpath={{.status.conditions[?(@.type=='Ready')].reason}}={reason}", f"mdep/{name}")


def _names(world: Plane, kind: str) -> str:
    return world.namespace.kubectl("get", kind, "-o", "name")


def _kubeconfig(world: Plane, file: Path) -> Path:
    token = world.namespace.kubectl("create", "token", ACCOUNT).strip()
    config: dict[str, Any] = yaml.safe_load(world.namespace.cluster.kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    file.write_text(yaml.safe_dump(config))
    return file
