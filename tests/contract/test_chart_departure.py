"""What an upgrade does that takes namespaces out of `operator.watchNamespaces`, as Helm renders it beside a release."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from conch_operator.settings import ReleaseFile
from generate.helm import Helm
from testkit.kubernetes.chart import Object, Rendered, render
from testkit.kubernetes.looked_up import looked_up


def release_of(helm: Helm, *namespaces: str) -> Object:
    """Return what the operator of a release was told that serves these namespaces, none for all."""
    told: Object = render(helm, *watching(namespaces)).one("ConfigMap", "conch-operator")
    return told


def watching(namespaces: Sequence[str]) -> tuple[str, ...]:
    """Return the options of helm for these namespaces."""
    return ("--set-json", f"operator.watchNamespaces={json.dumps(list(namespaces))}")


def upgraded(helm: Helm, folder: Path, before: Sequence[str], after: Sequence[str]) -> Rendered:
    """Return an upgrade of a release from one list of namespaces to another."""
    with looked_up(folder, release_of(helm, *before)) as kubeconfig:
        return render(helm, *watching(after), "--is-upgrade", "--dry-run=server", "--kubeconfig", kubeconfig)


def before_upgrade(rendered: Rendered) -> list[Object]:
    """Return what Helm makes before an upgrade, in its order."""
    hooks = {id(found): found["metadata"].get("annotations", {}) for found in rendered.objects}
    chosen = [one for one in rendered.objects if "pre-upgrade" in hooks[id(one)].get("helm.sh/hook", "").split(",")]
    return sorted(chosen, key=lambda one: int(hooks[id(one)].get("helm.sh/hook-weight", 0)))


@pytest.mark.parametrize(
    ("before", "after", "arguments"),
    [
        (["a", "b", "c"], ["b"], ["retire", "--left", "a", "c"]),
        (["a", "b"], ["c"], ["retire", "--left", "a", "b"]),
        ([], ["a", "b"], ["retire", "--staying", "a", "b"]),
    ],
)
def test_statuses_are_taken_back_before_the_rights_in_a_namespace_go(
    helm: Helm, tmp_path: Path, before: list[str], after: list[str], arguments: list[str]
) -> None:
    *first, job = before_upgrade(upgraded(helm, tmp_path, before, after))
    assert sorted(one["kind"] for one in first) == ["ConfigMap", "NetworkPolicy"]
    pod: Any = job["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert (job["kind"], container["args"]) == ("Job", arguments)
    (policy,) = (one for one in first if one["kind"] == "NetworkPolicy")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (told,) = (one for one in first if one["kind"] == "ConfigMap")
    (mounted,) = (volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume)
    assert mounted == told["metadata"]["name"]
    release = ReleaseFile.model_validate(yaml.safe_load(told["data"]["settings.yaml"]))
    assert (release.release.namespace, list(release.watch_namespaces)) == ("conch", after)


@pytest.mark.parametrize(("before", "after"), [(["a"], ["a", "b"]), (["a"], []), ([], [])])
def test_an_upgrade_that_leaves_no_namespace_runs_nothing_before(
    helm: Helm, tmp_path: Path, before: list[str], after: list[str]
) -> None:
    assert before_upgrade(upgraded(helm, tmp_path, before, after)) == []


def test_nothing_runs_before_a_first_installation(helm: Helm, tmp_path: Path) -> None:
    with looked_up(tmp_path) as kubeconfig:
        first = render(helm, *watching(["a"]), "--dry-run=server", "--kubeconfig", kubeconfig)
    assert before_upgrade(first) == []
