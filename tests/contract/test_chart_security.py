"""What the chart's objects may do, and what may be done to them."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from conch_contracts import names
from conch_contracts.forbidden_addresses import NOT_PUBLIC
from conch_operator.kubernetes.api.kinds import OWNED_KINDS, Kind
from conch_operator.kubernetes.worker_pools import WORKER_POOL_KINDS
from generate.crd import crd_text, pool_crd_text
from generate.helm import Helm
from testkit.kubernetes import chart
from testkit.kubernetes.chart import Object, Rendered, environment

RESTRICTED_POD = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "fsGroup": 65532,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
}
FORBIDDEN_RESOURCES = {"secrets", "pods/exec", "pods/attach", "pods/ephemeralcontainers", "nodes", "serviceaccounts"}
FORBIDDEN_VERBS = {"*", "escalate", "bind", "impersonate", "deletecollection"}


def test_every_pod_is_restricted(rendered: Rendered) -> None:
    found = {name: pod["spec"]["securityContext"] for name, pod in rendered.pods().items()}
    assert found
    assert found == dict.fromkeys(found, RESTRICTED_POD)


def test_every_container_is_restricted(rendered: Rendered) -> None:
    found = {name: container["securityContext"] for name, container in rendered.containers().items()}
    assert found == dict.fromkeys(found, RESTRICTED_CONTAINER)


def test_no_pod_shares_anything_with_its_node(rendered: Rendered) -> None:
    shared = {"hostNetwork", "hostPID", "hostIPC"}
    specs = {name: pod["spec"] for name, pod in rendered.pods().items()}
    assert {name for name, spec in specs.items() if shared & set(spec)} == set()
    assert {name for name, spec in specs.items() for volume in spec["volumes"] if "hostPath" in volume} == set()
    assert {name for name, spec in specs.items() if spec["enableServiceLinks"] is not False} == set()


def test_only_the_operator_has_a_token_of_the_api_server(rendered: Rendered) -> None:
    specs = {name: pod["spec"] for name, pod in rendered.pods().items()}
    with_token = [name for name, spec in specs.items() if spec["automountServiceAccountToken"]]
    assert [name.removeprefix("conch-").removeprefix("llms-") for name in with_token] == ["operator"]
    assert all(account["automountServiceAccountToken"] is False for account in rendered.of("ServiceAccount"))


def test_every_pod_but_a_test_has_its_own_account(rendered: Rendered) -> None:
    used = [pod["spec"]["serviceAccountName"] for pod in rendered.pods().values() if pod.get("kind") != "Pod"]
    assert sorted(used) == sorted(account["metadata"]["name"] for account in rendered.of("ServiceAccount"))


def test_every_container_has_requests_and_a_limit_of_memory(rendered: Rendered) -> None:
    for container in rendered.containers().values():
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]


def test_every_container_that_serves_is_probed_apart_from_its_traffic(rendered: Rendered) -> None:
    serving = {name: found for name, found in rendered.containers().items() if "ports" in found}
    assert len(serving) >= 5
    for name, container in serving.items():
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            check: Object = container[probe].get("httpGet") or container[probe]["tcpSocket"]
            assert check["port"] == ("redis" if name.endswith("/redis") else "admin")


def test_what_a_container_writes_to_is_a_volume(rendered: Rendered) -> None:
    mounts = {name: found["volumeMounts"] for name, found in rendered.containers().items()}
    assert {name for name, found in mounts.items() if "/tmp" not in [mount["mountPath"] for mount in found]} == set()
    writable = {(mount["mountPath"]) for found in mounts.values() for mount in found if not mount.get("readOnly")}
    assert writable <= {"/tmp", "/data", "/var/cache/conch"}


def test_every_workload_has_a_disruption_budget(rendered: Rendered) -> None:
    pools = rendered.operator_settings()["workerPools"].values()
    budgets = rendered.of("PodDisruptionBudget") + [pool["objects"]["podDisruptionBudget"] for pool in pools]
    selected = [budget["spec"]["selector"] for budget in budgets]
    assert all(budget["spec"]["maxUnavailable"] == 1 for budget in budgets)
    assert [w["metadata"]["name"] for w in rendered.workloads() if w["spec"]["selector"] not in selected] == []


def test_pods_of_a_workload_are_spread(rendered: Rendered) -> None:
    for workload in rendered.workloads():
        spread = workload["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert [rule["topologyKey"] for rule in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        assert all(rule["labelSelector"] == workload["spec"]["selector"] for rule in spread)


def test_a_workload_selects_its_own_pods_only(rendered: Rendered) -> None:
    pods = {name: pod["metadata"]["labels"] for name, pod in rendered.pods().items()}
    for workload in rendered.workloads():
        wanted = workload["spec"]["selector"]["matchLabels"].items()
        assert [name for name, labels in pods.items() if wanted <= labels.items()] == [workload["metadata"]["name"]]


def test_rights_are_named_one_by_one(rendered: Rendered) -> None:
    roles = rendered.of("Role") + _cluster_roles_of_the_operator(rendered)
    rules = [rule for role in roles for rule in role["rules"]]
    assert rules
    assert [rule for rule in rules if "*" in rule["resources"] + rule["verbs"] + rule["apiGroups"]] == []
    assert [rule for rule in rules if FORBIDDEN_RESOURCES & set(rule["resources"])] == []
    assert [rule for rule in rules if FORBIDDEN_VERBS & set(rule["verbs"])] == []


@pytest.mark.parametrize("kind", OWNED_KINDS, ids=lambda kind: kind.name)
def test_the_operator_may_do_all_that_it_does_to_its_objects(plain: Rendered, kind: Kind) -> None:
    (role,) = _cluster_roles_of_the_operator(plain)
    assert _verbs(role, kind.group, kind.plural) == {"get", "list", "watch", "create", "patch", "delete"}


@pytest.mark.parametrize("kind", WORKER_POOL_KINDS, ids=lambda kind: kind.name)
def test_the_operator_may_run_workers_in_its_own_namespace(rendered: Rendered, kind: Kind) -> None:
    role = rendered.one("Role", rendered.operator_settings()["owner"]["name"])
    assert _verbs(role, kind.group, kind.plural) == {"get", "list", "watch", "create", "patch", "delete"}


def test_the_operator_writes_to_pods_their_status_only(plain: Rendered) -> None:
    (role,) = _cluster_roles_of_the_operator(plain)
    assert _verbs(role, "", "pods") == {"get", "list", "watch"}
    assert _verbs(role, "", "pods/status") == {"patch"}


def _cluster_roles_of_the_operator(rendered: Rendered) -> list[Object]:
    labels = ((role, role["metadata"]["labels"]) for role in rendered.of("ClusterRole"))
    return [role for role, found in labels if found["app.kubernetes.io/component"] == "operator"]


def test_those_who_view_and_edit_a_namespace_view_and_edit_its_models(helm: Helm, plain: Rendered) -> None:
    roles = {
        label.removeprefix("rbac.authorization.k8s.io/aggregate-to-"): role
        for role in plain.of("ClusterRole")
        for label in role["metadata"]["labels"]
        if "aggregate-to" in label
    }
    assert {name: _verbs(role, "conch.dev", "modeldeployments") for name, role in roles.items()} == {
        "view": {"get", "list", "watch"},
        "edit": {"create", "update", "patch", "delete", "deletecollection"},
    }
    for role in roles.values():
        assert _verbs(role, "conch.dev", "enginepools") == _verbs(role, "conch.dev", "modeldeployments")
    assert all(_verbs(role, "conch.dev", "modeldeployments/status") == set() for role in roles.values())
    without = chart.render(helm, "--set", "userRoles.enabled=false")
    assert len(without.of("ClusterRole")) == len(plain.of("ClusterRole")) - len(roles)


def _verbs(role: Object, group: str, plural: str) -> set[str]:
    rules = [rule for rule in role["rules"] if group in rule["apiGroups"] and plural in rule["resources"]]
    return {verb for rule in rules for verb in rule["verbs"]}


def test_an_operator_limited_to_namespaces_has_no_right_elsewhere(rendered: Rendered) -> None:
    watched = rendered.operator_settings()["watchNamespaces"]
    namespaces = [role["metadata"]["namespace"] for role in rendered.of("Role")]
    assert sorted(namespaces) == sorted(["conch", *watched])
    assert bool(_cluster_roles_of_the_operator(rendered)) is not bool(watched)
    assert bool(rendered.of("ClusterRoleBinding")) is not bool(watched)


def test_every_role_is_bound_to_the_operator_only(rendered: Rendered) -> None:
    account = rendered.one("Deployment", rendered.operator_settings()["owner"]["name"])["spec"]["template"]["spec"]
    for binding in rendered.of("RoleBinding") + rendered.of("ClusterRoleBinding"):
        (subject,) = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == (account["serviceAccountName"], "conch")


def test_the_policy_about_references_knows_every_field_that_names_an_object(helm: Helm) -> None:
    policies = chart.render(helm, "--set", "referencePolicy.enabled=true").of("ValidatingAdmissionPolicy")
    asked = {policy["metadata"]["name"]: str(policy["spec"]["variables"]) for policy in policies}
    for about, definition, least in (("references", crd_text(), 6), ("pool-references", pool_crd_text(), 1)):
        (said,) = (text for name, text in asked.items() if name.endswith(f"conch-{about}"))
        schema = yaml.safe_load(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        names = ("Ref", "claimName", "imagePullSecrets", "claims")
        named = [path for path in _paths(schema, "object.spec") if path.endswith(names)]
        assert len(named) >= least
        assert [path for path in named if path not in said] == []


def _paths(schema: Object, path: str) -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _paths(part, f"{path}.{name}")


def test_secrets_reach_processes_by_reference(rendered: Rendered) -> None:
    for container in rendered.containers().values():
        given: dict[str, Any] = environment(container) if "env" in container else {}
        secret = [name for name in given if name.endswith(("_TOKEN", "_PASSWORD"))]
        assert [name for name in secret if "secretKeyRef" not in given[name]] == []


def test_every_pod_has_a_policy_of_its_own_beside_the_denial(plain: Rendered) -> None:
    policies = [policy["spec"] for policy in plain.of("NetworkPolicy")]
    for name, pod in plain.pods().items():
        labels = pod["metadata"]["labels"].items()
        chosen = [spec for spec in policies if spec["podSelector"]["matchLabels"].items() <= labels]
        assert len(chosen) == 2, name
        assert all(spec["policyTypes"] == ["Ingress", "Egress"] for spec in chosen)


@pytest.mark.parametrize(
    ("component", "port", "callers"),
    [
        ("gateway", names.GATEWAY_PORT, None),
        ("tokenizer", names.SERVICE_PORT, {"gateway"}),
        ("llm-worker", names.SERVICE_PORT, {"gateway"}),
        ("embed-worker", names.SERVICE_PORT, {"gateway"}),
        ("speech-worker", names.SERVICE_PORT, {"gateway"}),
        (
            "redis",
            names.REDIS_PORT,
            {"gateway", "tokenizer", "llm-worker", "embed-worker", "speech-worker", "operator"},
        ),
    ],
)
def test_a_port_is_open_to_those_who_call_it(
    plain: Rendered, component: str, port: int, callers: set[str] | None
) -> None:
    rules = plain.one("NetworkPolicy", f"conch-{component}")["spec"]["ingress"]
    (rule,) = [rule for rule in rules if rule["ports"] == [{"port": port}]]
    peers = rule.get("from")
    found = {peer["podSelector"]["matchLabels"][names.COMPONENT_LABEL] for peer in peers} if peers else None
    assert found == callers


def test_only_workers_and_the_operator_reach_engines(plain: Rendered) -> None:
    def reaches_engines(policy: Object) -> bool:
        peers = [peer for rule in policy["spec"].get("egress", []) for peer in rule.get("to", [])]
        return any(peer.get("podSelector", {}).get("matchExpressions") for peer in peers)

    found = {policy["metadata"]["name"] for policy in plain.of("NetworkPolicy") if reaches_engines(policy)}
    assert found == {"conch-llm-worker", "conch-embed-worker", "conch-speech-worker", "conch-operator"}


@pytest.fixture(scope="module")
def with_media(helm: Helm) -> Rendered:
    """Give the chart with the process that fetches pictures."""
    return chart.render(
        helm, "--set", "media.enabled=true", "--set", "addresses.refused={20.0.0.0/8,2a01:db8::/32,a.b}"
    )


def test_without_a_wish_for_it_nothing_fetches_pictures(plain: Rendered) -> None:
    assert [found for found in plain.objects if "conch-media" in str(found)] == []


def test_only_gateways_reach_the_process_that_fetches_pictures(with_media: Rendered) -> None:
    rules = with_media.one("NetworkPolicy", "conch-media")["spec"]["ingress"]
    (rule,) = [rule for rule in rules if rule["ports"] == [{"port": names.SERVICE_PORT}]]
    (peer,) = rule["from"]
    assert peer["podSelector"]["matchLabels"][names.COMPONENT_LABEL] == "gateway"
    out = with_media.one("NetworkPolicy", "conch-gateway")["spec"]["egress"]
    asked = [peer["podSelector"]["matchLabels"] for rule in out for peer in rule.get("to", []) if "podSelector" in peer]
    assert "media" in [labels.get(names.COMPONENT_LABEL) for labels in asked]


def test_that_process_reaches_the_internet_and_nothing_inside(with_media: Rendered) -> None:
    lookups, internet = with_media.one("NetworkPolicy", "conch-media")["spec"]["egress"]
    assert {port["port"] for port in lookups["ports"]} == {53}
    assert internet["ports"] == [{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]
    blocks = {peer["ipBlock"]["cidr"]: peer["ipBlock"]["except"] for peer in internet["to"]}
    assert set(blocks) == {"0.0.0.0/0", "::/0"}
    assert [*blocks["0.0.0.0/0"], *blocks["::/0"]] == [
        *(str(network) for network in NOT_PUBLIC if network.version == 4),
        "20.0.0.0/8",
        *(str(network) for network in NOT_PUBLIC if network.version == 6),
        "2a01:db8::/32",
    ]


def test_nobody_else_of_the_release_reaches_the_internet(with_media: Rendered) -> None:
    def open_to_all(policy: Object) -> bool:
        peers = [peer for rule in policy["spec"].get("egress", []) for peer in rule.get("to", [])]
        return any(peer.get("ipBlock", {}).get("cidr") in ("0.0.0.0/0", "::/0") for peer in peers)

    found = [policy["metadata"]["name"] for policy in with_media.of("NetworkPolicy") if open_to_all(policy)]
    assert found == ["conch-media"]


def test_that_process_has_nothing_to_lose(with_media: Rendered) -> None:
    container = with_media.containers()["conch-media/media"]
    given = environment(container)
    assert [name for name in given if "REDIS" in name] == []
    assert given["CONCH_REFUSED_ADDRESSES"] == "20.0.0.0/8,2a01:db8::/32,a.b,*.svc,*.svc.cluster.local"
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]


def test_gateways_are_told_where_pictures_are_fetched(with_media: Rendered, plain: Rendered) -> None:
    service = with_media.one("Service", "conch-media")
    given = environment(with_media.containers()["conch-gateway/gateway"])
    assert given["CONCH_MEDIA_URL"] == "http://conch-media.conch.svc:8080"
    assert service["spec"]["ports"] == [
        {"name": "http", "port": names.SERVICE_PORT, "targetPort": "http", "appProtocol": "http"}
    ]
    pod = with_media.pods()["conch-media"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert "CONCH_MEDIA_URL" not in environment(plain.containers()["conch-gateway/gateway"])


def test_the_ingress_leads_to_the_public_port_only(rendered: Rendered) -> None:
    for ingress in rendered.of("Ingress"):
        (rule,) = ingress["spec"]["rules"]
        (path,) = rule["http"]["paths"]
        service = rendered.one("Service", path["backend"]["service"]["name"])
        assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"]


def test_streams_pass_the_ingress_unbuffered(rendered: Rendered) -> None:
    for ingress in rendered.of("Ingress"):
        told = ingress["metadata"]["annotations"]
        assert told["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
        assert int(told["nginx.ingress.kubernetes.io/proxy-read-timeout"]) >= 3600


def test_a_pod_may_drain_for_as_long_as_its_process_does(rendered: Rendered) -> None:
    for name, pod in rendered.pods().items():
        for container in pod["spec"]["containers"]:
            given = environment(container) if "env" in container else {}
            needed = int(given.get("CONCH_DRAIN_DELAY_S", 0)) + int(given.get("CONCH_DRAIN_S", 0))
            assert not needed or pod["spec"]["terminationGracePeriodSeconds"] > needed, name
