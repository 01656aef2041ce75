"""KEDA finds the operators where the page says, and nobody else does; the ScaledObjects of the page are taken."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from conch_contracts import names
from conch_operator.external_scaler.asked_model import asked_model
from conch_operator.external_scaler.messages import ScaledObjectRef
from generate.helm import Helm
from testkit.kubernetes import chart
from testkit.kubernetes.chart import Rendered, environment

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPEC: dict[str, type] = {
    "scaleTargetRef": dict,
    "minReplicaCount": int,
    "maxReplicaCount": int,
    "cooldownPeriod": int,
    "triggers": list,
}
"""Fields of KEDA's ScaledObject (v1alpha1) that the page uses, with their types there."""


def _scaled_objects() -> list[dict[str, Any]]:
    blocks = (match[1] for match in _BLOCK.finditer(PAGE.read_text()))
    found = (document for block in blocks if "kind: ScaledObject" in block for document in yaml.safe_load_all(block))
    return [document for document in found if document["kind"] == "ScaledObject"]


@pytest.fixture(scope="module")
def asked(helm: Helm) -> Rendered:
    """Give the chart of a release that KEDA asks."""
    return chart.render(helm, "--namespace", "conch", "--set", "operator.externalScaler.enabled=true")


def test_a_scaled_object_of_the_page_names_a_model_and_fields_that_keda_has() -> None:
    shown = _scaled_objects()
    assert len(shown) == 2
    for shown_object in shown:
        target = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "chat"}
        assert shown_object["apiVersion"] == "keda.sh/v1alpha1"
        assert shown_object["spec"]["scaleTargetRef"] == target
        assert {name: type(value) for name, value in shown_object["spec"].items()}.items() <= _SPEC.items()
        for trigger in shown_object["spec"]["triggers"]:
            assert trigger.keys() == {"type", "metadata"}
            assert {type(value) for value in trigger["metadata"].values()} == {str}


def test_the_trigger_of_the_page_means_its_model_and_leads_to_the_operators(asked: Rendered) -> None:
    (found,) = [one for one in _scaled_objects() if one["spec"]["triggers"][0]["type"] == "external-push"]
    metadata = found["spec"]["triggers"][0]["metadata"]
    meta = found["metadata"]
    assert asked_model(ScaledObjectRef(meta["name"], meta["namespace"], metadata)).id == "models/chat"
    service = asked.one("Service", "conch-external-scaler")
    (port,) = service["spec"]["ports"]
    place = service["metadata"]["name"], service["metadata"]["namespace"]
    assert metadata["scalerAddress"] == "{}.{}.svc:{}".format(*place, port["port"])
    pod = asked.one("Deployment", "conch-operator")["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    container = asked.containers()["conch-operator/operator"]
    assert {"name": port["targetPort"], "containerPort": names.EXTERNAL_SCALER_PORT} in container["ports"]
    assert environment(container)["CONCH_EXTERNAL_SCALER_PORT"] == str(names.EXTERNAL_SCALER_PORT)


@pytest.mark.parametrize(
    ("options", "peers"),
    [
        ((), [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "keda"}}}]),
        (("--set-json", "networkPolicy.scalerFrom=[]"), None),
    ],
)
def test_keda_alone_may_ask_unless_everybody_may(helm: Helm, options: tuple[str, ...], peers: Any) -> None:
    rendered = chart.render(helm, "--set", "operator.externalScaler.enabled=true", *options)
    rules = rendered.one("NetworkPolicy", "conch-operator")["spec"]["ingress"]
    (rule,) = [rule for rule in rules if rule["ports"] == [{"port": names.EXTERNAL_SCALER_PORT}]]
    assert rule.get("from") == peers


def test_without_a_wish_for_it_nothing_answers_keda(helm: Helm) -> None:
    rendered = chart.render(helm)
    assert [
        found for found in rendered.objects if "external" in str(found).lower() and found["kind"] == "Service"
    ] == []
    assert "CONCH_EXTERNAL_SCALER_PORT" not in environment(rendered.containers()["conch-operator/operator"])
    (rule,) = rendered.one("NetworkPolicy", "conch-operator")["spec"]["ingress"]
    assert rule["ports"] == [{"port": names.ADMIN_PORT}]
