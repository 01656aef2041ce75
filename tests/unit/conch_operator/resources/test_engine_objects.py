"""What is made for each runtime, as golden files.

After a change that is meant, make them again: PYTHONPATH=tests/support python
tests/unit/conch_operator/resources/test_engine_objects.py
"""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from conch_kit.addresses.rules import AddressRules
from conch_kit.settings import load
from conch_operator.agent.settings import FolderAgentSettings
from conch_operator.model_folder.reader import needs_of
from conch_operator.resources.agent_container import AGENT
from conch_operator.resources.download_container import download_container
from conch_operator.resources.engine_objects import make_engine_objects
from conch_operator.resources.source_volume import source_volume
from testkit.builders.every_runtime import SETTINGS, SPECS, TOKENS, as_yaml, rendered
from testkit.builders.model_deployments import desired_model

_GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", SPECS)
def test_a_runtime_is_rendered_as_before(name: str) -> None:
    golden = (_GOLDEN / f"{name}.yaml").read_text()
    assert list(yaml.safe_load_all(golden)) == orjson.loads(orjson.dumps(rendered(name))), f"see {__file__}"


@pytest.mark.parametrize("name", SPECS)
def test_an_agent_understands_what_it_is_not_told(name: str) -> None:
    pod = _deployment(name)["spec"]["template"]["spec"]
    (agent,) = [one for one in [*pod["initContainers"], *pod["containers"]] if one["name"] == AGENT]
    told = load(FolderAgentSettings, {one["name"]: one["value"] for one in agent["env"]})
    needs = needs_of(desired_model(name, **SPECS[name]).deployment.spec)
    assert (told.needs_weights, told.needs_config, told.needs_template) == (needs.weights, needs.config, needs.template)
    assert (told.takes_onnx, told.needs_speech) == (needs.onnx, needs.speech)
    assert told.port == agent["ports"][0]["containerPort"]


@pytest.mark.parametrize("name", SPECS)
def test_every_container_is_restricted(name: str) -> None:
    pod = _deployment(name)["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("name", [name for name in SPECS if name not in ("external", "bucket")])
def test_a_pod_may_take_longer_to_end_than_its_hold_and_its_drain(name: str) -> None:
    pod = _deployment(name)["spec"]["template"]["spec"]
    (server,) = pod["containers"]
    (exit_s,) = {int(arg.split("=")[1]) for arg in server["args"] if arg.startswith("--exit-timeout-secs=")}
    assert exit_s == 300
    assert pod["terminationGracePeriodSeconds"] >= exit_s + 45
    assert server["lifecycle"]["preStop"]["httpGet"]["path"] == "/withdrawn"


def test_one_server_for_each_gpu_of_a_split_tensorrtllm_engine() -> None:
    (server,) = _deployment("tensorrtllm")["spec"]["template"]["spec"]["containers"]
    assert server["command"] == ["mpirun"]
    assert server["args"].count("/opt/tritonserver/bin/tritonserver") == 2
    assert server["args"].count("--allow-grpc=false") == 1


def test_secrets_reach_the_download_alone_and_by_reference() -> None:
    for name, variables in (("hub", {"HF_TOKEN"}), ("bucket", {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"})):
        pod = _deployment(name)["spec"]["template"]["spec"]
        given = {
            container["name"]: {env["name"] for env in container.get("env", ()) if "valueFrom" in env}
            for container in (*pod["initContainers"], *pod["containers"])
        }
        assert variables <= given.pop("download")
        assert set().union(*given.values()) == set()


def test_only_pods_that_download_may_call_others() -> None:
    def egress(name: str) -> list[Any]:
        (policy,) = [made for made in rendered(name) if made["kind"] == "NetworkPolicy"]
        found: list[Any] = policy["spec"]["egress"]
        return found

    assert egress("cpu") == egress("external") == []
    names, (plain, longer) = (rule.get("to", []) for rule in egress("hub"))
    assert names == []
    assert (plain["ipBlock"]["cidr"], longer["ipBlock"]["cidr"]) == ("0.0.0.0/0", "::/0")
    assert {"169.254.0.0/16", "100.100.100.200/32"} <= set(plain["ipBlock"]["except"])
    assert {"fe80::/10", "fd20:ce::254/128", "64:ff9b::a9fe:0/112"} <= set(longer["ipBlock"]["except"])
    assert egress("bucket") == egress("hub")


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({}, False, id="one"),
        pytest.param({"replicas": 0}, False, id="none"),
        pytest.param({"replicas": 2}, True, id="two"),
        pytest.param({"scaling": {"minReplicas": 0, "maxReplicas": 1}}, False, id="one at most"),
        pytest.param({"scaling": {"minReplicas": 0, "maxReplicas": 2}}, True, id="two at most"),
    ],
)
def test_only_engines_that_may_be_several_have_a_disruption_budget(spec: dict[str, Any], wanted: bool) -> None:
    kinds = [made["kind"] for made in make_engine_objects(desired_model(**spec), SETTINGS, TOKENS)]
    assert kinds == ["NetworkPolicy", *(["PodDisruptionBudget"] if wanted else []), "Deployment"]


def test_no_queue_policy_is_rendered() -> None:
    for name in SPECS:
        assert "queue_policy" not in as_yaml(name)
        assert "max_queue_size" not in as_yaml(name)


def _deployment(name: str) -> dict[str, Any]:
    (found,) = [made for made in rendered(name) if made["kind"] == "Deployment"]
    return found


if __name__ == "__main__":
    for _name in SPECS:
        (_GOLDEN / f"{_name}.yaml").write_text(as_yaml(_name))


def test_only_a_download_from_a_server_that_its_author_names_is_told_the_rules() -> None:
    settings = SETTINGS.model_copy(update={"addresses": AddressRules(allowed=("10.0.0.0/8",))})

    def told(name: str) -> dict[str, object]:
        spec = desired_model(**SPECS[name]).deployment.spec
        env = download_container(spec, source_volume(spec), settings)["env"]
        return {each["name"]: each.get("value", each.get("valueFrom")) for each in env}

    found = told("bucket")
    assert AddressRules.model_validate_json(str(found["CONCH_ADDRESS_RULES"])) == settings.addresses
    assert found["CONCH_NAMESPACE"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
    assert "CONCH_ADDRESS_RULES" not in told("hub")
