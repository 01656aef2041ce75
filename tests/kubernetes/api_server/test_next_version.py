"""The way to v1beta1 that docs/upgrade.md describes, on a real API server: no object changes on it.

It goes by a copy of the definition in a group of its own, since that of the cluster is everybody's.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.bad_models import CASES, model
from testkit.kubernetes.cluster import Cluster, Namespace, fresh_namespace
from testkit.waiting import eventually

GROUP = "next.conch.dev"
NAME = f"modeldeployments.{GROUP}"
_ROOT = Path(__file__).parents[3]
_CRD = _ROOT / "crds" / "modeldeployments.conch.dev.yaml"

Object = dict[str, Any]


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    cluster.kubectl("delete", "crd", NAME, "--ignore-not-found")  # of a run that was killed
    try:
        with fresh_namespace(cluster) as found:
            yield found
    finally:
        cluster.kubectl("delete", "crd", NAME, "--ignore-not-found")


async def test_objects_come_to_the_next_version_unchanged(namespace: Namespace) -> None:
    await _define(namespace, {"v1alpha1": {"storage": True}})
    written = _objects()
    namespace.apply(*written)
    before = _read(namespace, "v1alpha1")
    assert len(before) == len(written) > 10

    deprecated = {"storage": False, "deprecated": True, "deprecationWarning": "Use v1beta1."}
    both = {"v1alpha1": deprecated, "v1beta1": {"storage": True}}
    await _define(namespace, both)
    assert _read(namespace, "v1alpha1") == _read(namespace, "v1beta1") == before
    name = next(name for name, spec in before.items() if "cpu" in spec["engine"] and "placement" not in spec)
    _scale(namespace, "v1beta1", name, 3)
    assert _read(namespace, "v1alpha1")[name]["replicas"] == 3
    _scale(namespace, "v1alpha1", name, 1)
    before[name]["replicas"] = 1
    assert _read(namespace, "v1beta1") == before
    assert _stored(namespace) == ["v1alpha1", "v1beta1"]

    # An object is stored anew when it is written, also without a change.
    found = namespace.kubectl("get", f"modeldeployments.v1beta1.{GROUP}", "-o", "json")
    namespace.kubectl("replace", "-f", "-", stdin=found)
    only = json.dumps({"status": {"storedVersions": ["v1beta1"]}})
    namespace.kubectl("patch", "crd", NAME, "--subresource=status", "--type=merge", "-p", only)
    await _define(namespace, {"v1beta1": {"storage": True}})
    assert _read(namespace, "v1beta1") == before
    gone = namespace.cluster.try_kubectl("get", f"modeldeployments.v1alpha1.{GROUP}", "-n", namespace.name)
    assert gone.returncode != 0


def _objects() -> list[Object]:
    """Return the examples and a good spec for each field that has a rule, each under a name of its own."""
    files = sorted((_ROOT / "examples").rglob("*.yaml"))
    examples = [item for file in files for item in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    found = [item for item in examples if item and item["kind"] == "ModelDeployment"]
    found += [model(case.accepted) for case in {case.field: case for case in CASES}.values()]
    return [
        {**item, "apiVersion": f"{GROUP}/v1alpha1", "metadata": {"name": f"model-{index}"}}
        for index, item in enumerate(found)
    ]


async def _define(namespace: Namespace, versions: dict[str, Object]) -> None:
    """Define the copy with these versions, all of them with the schema of today, and wait until the last is served."""
    made = yaml.safe_load(_CRD.read_text(encoding="utf-8"))
    (today,) = made["spec"]["versions"]
    made["metadata"] = {"name": NAME}
    names = {key: value for key, value in made["spec"]["names"].items() if key not in ("shortNames", "categories")}
    listed = [{**today, "name": name, "served": True, **fields} for name, fields in versions.items()]
    made["spec"] |= {"group": GROUP, "names": names, "versions": listed}
    namespace.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(made))

    def served() -> bool:
        done = namespace.cluster.try_kubectl("get", "--raw", f"/apis/{GROUP}")
        found = json.loads(done.stdout)["versions"] if done.returncode == 0 else []
        return {one["version"] for one in found} == set(versions)

    await eventually(served, f"{', '.join(versions)} of {GROUP}", timeout_s=60)


def _read(namespace: Namespace, version: str) -> dict[str, Object]:
    items = json.loads(namespace.kubectl("get", f"modeldeployments.{version}.{GROUP}", "-o", "json"))["items"]
    assert {item["apiVersion"] for item in items} == {f"{GROUP}/{version}"}
    return {item["metadata"]["name"]: item["spec"] for item in items}


def _scale(namespace: Namespace, version: str, name: str, replicas: int) -> None:
    change = json.dumps({"spec": {"replicas": replicas}})
    namespace.kubectl("patch", f"modeldeployments.{version}.{GROUP}", name, "--type=merge", "-p", change)


def _stored(namespace: Namespace) -> list[str]:
    found: list[str] = json.loads(namespace.kubectl("get", "crd", NAME, "-o", "json"))["status"]["storedVersions"]
    return sorted(found)
