"""A real API server refuses what the types refuse, in the same words, and shows what a user needs to see."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import pytest

from conch_contracts.spec.addresses import LEADS_BACK
from conch_contracts.spec.source import CLIMBS
from testkit.bad_models import (
    CASES,
    LOOPBACK_HOSTS,
    NAMES_ACCEPTED,
    NAMES_REFUSED,
    OTHER_HOSTS,
    Case,
    model,
    naming,
)
from testkit.kubernetes.cluster import Cluster, Namespace, definition, fresh_namespace
from testkit.processes.conch_up import wait_until

EXTERNAL = {"engine": {"external": {"grpc": "triton.example.com:8001", "dialect": "tokens"}}}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server says: a status, and an object or why there is none."""

    status: int
    body: dict[str, Any]

    @property
    def message(self) -> str:
        """Return why it refuses."""
        return str(self.body.get("message", ""))


@dataclass(frozen=True, slots=True)
class Api:
    """The API server, asked as `kubectl apply --dry-run=server` asks it: strictly, and without effect."""

    proxy: str
    namespace: Namespace

    def dry_run(self, manifest: dict[str, Any]) -> Answer:
        """Ask what creating this object would give."""
        return self._ask("POST", f"{manifest['kind'].lower()}s", manifest, "application/json")

    def dry_run_edit(self, name: str, patch: dict[str, Any]) -> Answer:
        """Ask what this edit would give."""
        return self._ask("PATCH", f"modeldeployments/{name}", patch, "application/merge-patch+json")

    def _ask(self, method: str, path: str, body: dict[str, Any], content_type: str) -> Answer:
        url = f"/apis/conch.dev/v1alpha1/namespaces/{self.namespace.name}/{path}?dryRun=All&fieldValidation=Strict"
        with closing(HTTPConnection(self.proxy, timeout=30)) as connection:
            connection.request(method, url, json.dumps(body), {"content-type": content_type})
            answer = connection.getresponse()
            return Answer(answer.status, json.loads(answer.read()))


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[Api]:
    with definition(cluster), _proxy(cluster) as proxy, fresh_namespace(cluster) as namespace:
        yield Api(proxy, namespace)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_bad_spec_is_refused_by_name_and_its_twin_is_not(api: Api, case: Case) -> None:
    accepted = api.dry_run(model(case.accepted))
    assert accepted.status == 201, accepted.message
    refused = api.dry_run(model(case.refused))
    assert refused.status in (400, 422), refused.body
    assert case.field in _dotted(refused.message)
    assert case.says in refused.message


def _dotted(message: str) -> str:
    """Return a refusal with a dot before each name; rules put the key of a map into brackets."""
    return re.sub(r"\[([a-z][\w.-]*)\]", r".\1", message)


@pytest.mark.parametrize("name", NAMES_ACCEPTED)
def test_a_short_label_is_a_name(api: Api, name: str) -> None:
    assert api.dry_run(model({}, name)).status == 201


@pytest.mark.parametrize("name", [*NAMES_REFUSED, "Upper", "../x", "a" * 300])
def test_what_is_no_short_label_is_no_name(api: Api, name: str) -> None:
    refused = api.dry_run(model({}, name))
    assert refused.status == 422
    assert "metadata.name" in refused.message


def test_the_name_of_a_pool_is_a_short_label(api: Api) -> None:
    for name in NAMES_ACCEPTED:
        accepted = api.dry_run(_pool(name))
        assert accepted.status == 201, accepted.message
    for name in NAMES_REFUSED:
        refused = api.dry_run(_pool(name))
        assert refused.status == 422
        assert "metadata.name must be a DNS label" in refused.message


def _pool(name: str) -> dict[str, Any]:
    meta = {"name": name}
    return {"apiVersion": "conch.dev/v1alpha1", "kind": "EnginePool", "metadata": meta, "spec": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("accepted", "refused"), [("a..b/c", "../a"), ("models/...", "models/.."), ("..a", "a/../../b"), ("etc", "/etc")]
)
def test_a_path_on_a_cluster_does_not_lead_up(api: Api, accepted: str, refused: str) -> None:
    assert api.dry_run(model({"source": {"path": accepted}})).status == 201
    answer = api.dry_run(model({"source": {"path": refused}}))
    assert answer.status == 422
    assert CLIMBS in answer.message


@pytest.mark.parametrize("host", LOOPBACK_HOSTS)
def test_an_address_on_a_cluster_does_not_lead_back(api: Api, host: str) -> None:
    for field, spec in naming(host).items():
        answer = api.dry_run(model(spec))
        assert answer.status == 422, answer.body
        assert field in answer.message
        assert LEADS_BACK in answer.message


@pytest.mark.parametrize("host", OTHER_HOSTS)
def test_what_looks_like_a_loopback_address_may_be_named(api: Api, host: str) -> None:
    for spec in naming(host).values():
        answer = api.dry_run(model(spec))
        assert answer.status == 201, answer.message


@pytest.fixture(scope="module")
def deployed(api: Api) -> str:
    """Give the name of a ModelDeployment that exists."""
    api.namespace.apply(model(EXTERNAL, "deployed"))
    return "deployed"


@pytest.mark.parametrize(
    ("refused", "accepted", "says"),
    [
        ({"kind": "Rerank"}, {"kind": "LLM"}, "kind cannot be changed"),
        (
            {"engine": {"external": None, "cpu": {}}},
            {"engine": {"external": {"grpc": "other.example.com:8001"}}},
            "the runtime cannot be changed",
        ),
        ({"replicas": 2}, {"replicas": 1}, "an external engine is not started by Conch: remove replicas"),
        ({"servedNames": ["a", "a"]}, {"servedNames": ["a", "b"]}, "servedNames holds a name twice"),
    ],
)
def test_an_edit_must_keep_kind_and_runtime(
    api: Api, deployed: str, refused: dict[str, Any], accepted: dict[str, Any], says: str
) -> None:
    assert api.dry_run_edit(deployed, {"spec": accepted}).status == 200
    answer = api.dry_run_edit(deployed, {"spec": refused})
    assert answer.status == 422
    assert says in answer.message


def test_kubectl_apply_shows_the_words_of_the_rule(api: Api) -> None:
    words = ("apply", "--dry-run=server", "-f", "-", "--namespace", api.namespace.name)
    good = api.namespace.cluster.try_kubectl(*words, stdin=json.dumps(model({})))
    assert good.returncode == 0, good.stderr
    bad = api.namespace.cluster.try_kubectl(*words, stdin=json.dumps(model({"engine": {}})))
    assert bad.returncode == 1
    assert "spec.engine: Invalid value: set exactly one of cpu, vllm" in bad.stderr.replace('"object": ', "")
    typo = api.namespace.cluster.try_kubectl(*words, stdin=json.dumps(model({"replcas": 2})))
    assert 'unknown field "spec.replcas"' in typo.stderr


def test_defaults_are_filled_in_and_a_status_of_the_user_is_not_taken(api: Api) -> None:
    made = api.dry_run(model({}) | {"status": {"replicas": 7}}).body
    assert (made["status"]["observedGeneration"], made["status"]["replicas"]) == (0, 0)
    assert made["spec"]["replicas"] == 1
    assert made["spec"]["routing"]["queue"] == {"max": 200, "wait": "30s"}
    assert made["spec"]["engine"]["cpu"]["maxBatchSize"] == 16
    assert "generation" not in made["spec"]


def test_get_tells_what_to_do_next_and_scale_works(api: Api) -> None:
    api.namespace.apply(model({"replicas": 2}, "shown"))
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: add one with a GPU.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    status = {
        "readyReplicas": 1,
        "wantedReplicas": 2,
        "selector": "a=b",
        "servedNames": ["x", "y"],
        "conditions": [ready],
    }
    patch = json.dumps({"status": status})
    api.namespace.kubectl("patch", "mdep", "shown", "--subresource=status", "--type=merge", "-p", patch)
    shown = api.namespace.kubectl("get", "mdep", "shown").splitlines()
    assert shown[0].split() == [
        "NAME",
        "READY",
        "REASON",
        "ROLLOUT",
        "ENGINES",
        "WANTED",
        "SERVED",
        "NAMES",
        "AGE",
        "MESSAGE",
    ]
    assert shown[1].split()[:6] == ["shown", "False", "Unschedulable", "1", "2", '["x","y"]']
    assert shown[1].endswith("add one with a GPU.")
    api.namespace.kubectl("scale", "mdep/shown", "--replicas=3")
    assert api.namespace.get("mdep", "shown")["spec"]["replicas"] == 3
    assert "mdep" in api.namespace.kubectl("get", "conch", "-o", "name").replace("modeldeployment", "mdep")


def test_nobody_else_scales_a_model_that_scales_by_itself(api: Api) -> None:
    """A HorizontalPodAutoscaler that wants two is told what to change, as `kubectl scale` is; its twin gets two."""
    says = "scaling decides how many engines there are: remove replicas"
    names = "by-itself", "by-another"
    specs: tuple[dict[str, Any], ...] = {"scaling": {"maxReplicas": 4}}, {}
    api.namespace.apply(*map(model, specs, names), *map(_autoscaler, names))
    scale = api.namespace.cluster.try_kubectl(
        "--namespace", api.namespace.name, "scale", "mdep/by-itself", "--replicas=2"
    )
    assert scale.returncode == 1
    assert says in scale.stderr

    def replicas(name: str) -> int:
        return int(api.namespace.get("mdep", name)["spec"]["replicas"])

    def is_able() -> dict[str, Any]:
        conditions = api.namespace.get("hpa", "by-itself").get("status", {}).get("conditions", ())
        return next((one for one in conditions if one["type"] == "AbleToScale"), {})

    wait_until(lambda: replicas("by-another") == 2, "two by the HorizontalPodAutoscaler", 120, 0.5)
    wait_until(lambda: is_able().get("reason") == "FailedUpdateScale", "the refusal", 120, 0.5)
    assert (is_able()["status"], says in is_able()["message"]) == ("False", True)
    assert replicas("by-itself") == 1


def _autoscaler(name: str) -> dict[str, Any]:
    """Return one that wants two engines whatever there is to do: fewer are below its minimum."""
    target = {"apiVersion": "conch.dev/v1alpha1", "kind": "ModelDeployment", "name": name}
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_every_field_is_explained(api: Api) -> None:
    said = api.namespace.kubectl("explain", "mdep.spec.engine.cpu.tokensPerSecond")
    assert "A cap on each request's tokens per second" in said


@contextmanager
def _proxy(cluster: Cluster) -> Iterator[str]:
    """Give the address of a kubectl proxy, which knows the credentials."""
    command = [cluster.tool("kubectl"), f"--kubeconfig={cluster.kubeconfig}", "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
