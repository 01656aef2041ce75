"""The chart's admission policies on a real API server: which images models may name, and what else.

They are bound to the namespace of the test alone.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from generate.helm import Helm, HelmMissing
from testkit.bad_models import model
from testkit.kubernetes.chart import Object, render
from testkit.kubernetes.cluster import Cluster, Namespace, definition, fresh_namespace
from testkit.waiting import eventually

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
AUTHOR_RULES = (
    {"apiGroups": ["conch.dev"], "resources": ["modeldeployments"], "verbs": ["get", "create", "update", "patch"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"]},
)
IN_SECONDS = 120
"""Until the API server obeys a policy that was just made."""


@pytest.fixture(scope="module")
def place(cluster: Cluster) -> Iterator[Namespace]:
    with definition(cluster), fresh_namespace(cluster) as namespace:
        yield namespace


async def test_row_27_an_image_from_elsewhere_is_refused(place: Namespace) -> None:
    values = {"imagePolicy": {"enabled": True, "allowedPrefixes": ["registry.example.com/"]}}
    with policies(place, values):
        bad = model({"engine": {"cpu": {}, "image": "elsewhere.example.com/engine:1"}})
        await eventually(lambda: _created(place, bad).returncode != 0, "the policy to be obeyed", IN_SECONDS)
        assert "the image elsewhere.example.com/engine:1 is not allowed" in _created(place, bad).stderr
        for good in (model({}), model({"engine": {"cpu": {}, "image": "registry.example.com/engine:1"}})):
            assert _created(place, good).returncode == 0


async def test_row_24_a_model_names_only_what_its_author_may_read(place: Namespace) -> None:
    place.kubectl("create", "serviceaccount", "author")
    author = f"system:serviceaccount:{place.name}:author"
    place.apply(_role(), _role_binding(place.name))
    others = model(with_token("others"))
    with policies(place, {"referencePolicy": {"enabled": True}}):
        await eventually(
            lambda: "may not get secrets others" in _created(place, others, author).stderr, "a refusal", IN_SECONDS
        )
        for spec in (with_token, with_second_pull_secret):
            assert "may not get secrets others" in _created(place, model(spec("others")), author).stderr
            mine = _created(place, model(spec("mine")), author)
            assert mine.returncode == 0, mine.stderr
        bucket = {"uri": "s3://models/tiny", "cache": {"claimName": "others"}}
        for source in ({"pvc": {"claimName": "others"}}, {"s3": bucket}):
            refused = _created(place, model({"source": source}), author)
            assert "may not get persistentvolumeclaims others" in refused.stderr
        template = {"chatTemplate": {"configMapKeyRef": {"name": "others", "key": "a"}}}
        assert "may not get configmaps others" in _created(place, model({"tokenizer": template}), author).stderr
        account = {"engine": {"cpu": {}, "serviceAccountName": "author"}}
        assert "may not get serviceaccounts author" in _created(place, model(account), author).stderr
        assert _created(place, others).returncode == 0  # whoever may read everything
        place.apply(others)
        touched = place.cluster.try_kubectl(
            *("label", "mdep", "model", "touched=yes", "--namespace", place.name, f"--as={author}")
        )
        assert touched.returncode == 0, touched.stderr
        place.kubectl("delete", "mdep", "model")


def with_token(secret: str) -> dict[str, Any]:
    return {"source": {"huggingFace": {"repo": "org/name", "tokenSecretRef": {"name": secret}}}}


def with_second_pull_secret(secret: str) -> dict[str, Any]:
    return {"engine": {"cpu": {}, "imagePullSecrets": [{"name": "mine"}, {"name": secret}]}}


@contextmanager
def policies(place: Namespace, values: Mapping[str, Any]) -> Iterator[None]:
    """Have the API server obey the chart's policies in this namespace."""
    try:
        helm = Helm.find(os.environ)  # noqa: TID251
    except HelmMissing as missing:
        pytest.skip(str(missing))
    options = (f"--set-json={name}={json.dumps(value)}" for name, value in values.items())
    rendered = render(helm, "--namespace", place.name, *options)
    made = [*rendered.of(POLICY), *(_here(found, place) for found in rendered.of(BINDING))]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
    place.cluster.kubectl("apply", "-f", "-", stdin=text)
    try:
        yield
    finally:
        place.cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text)


def _here(binding: Object, place: Namespace) -> Object:
    labels = {"kubernetes.io/metadata.name": place.name}
    return binding | {"spec": binding["spec"] | {"matchResources": {"namespaceSelector": {"matchLabels": labels}}}}


def _created(place: Namespace, manifest: Object, author: str | None = None) -> subprocess.CompletedProcess[str]:
    """Return what kubectl says when somebody would create this."""
    words = ["create", "--dry-run=server", "-f", "-", "--namespace", place.name]
    return place.cluster.try_kubectl(*words, *([f"--as={author}"] if author else []), stdin=json.dumps(manifest))


def _role() -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "author"},
        "rules": list(AUTHOR_RULES),
    }


def _role_binding(namespace: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "author"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "author"},
        "subjects": [{"kind": "ServiceAccount", "name": "author", "namespace": namespace}],
    }
