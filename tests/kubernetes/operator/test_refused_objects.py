"""What the API server refuses: told in the status, cured where it can be, and no obstacle to anything else."""

import json

import pytest

from testkit.kubernetes.operator_process import Plane, Process
from testkit.waiting import eventually

DRIFT_S = 30


async def test_a_child_that_cannot_be_merged_any_more_comes_back(world: Plane, operator: Process) -> None:
    world.namespace.apply(world.unschedulable("edited"))
    await eventually(lambda: world.condition("edited").get("reason") == "Unschedulable", "the model", timeout_s=60)
    before = world.namespace.get("pdb", "edited-engine")
    change = {"spec": {"maxUnavailable": None, "minAvailable": 1}}
    world.namespace.kubectl("patch", "pdb", "edited-engine", "--type=merge", "-p", json.dumps(change))
    world.namespace.kubectl("scale", "mdep", "edited", "--replicas=3")

    def is_right() -> bool:
        found = world.namespace.get("pdb", "edited-engine")
        replicas = world.namespace.get("deployment", "edited-engine")["spec"]["replicas"]
        return found["spec"] == before["spec"] and replicas == 3

    await eventually(is_right, "the budget and the replicas", timeout_s=DRIFT_S)
    assert world.namespace.get("pdb", "edited-engine")["metadata"]["uid"] == before["metadata"]["uid"]


async def test_pods_that_are_refused_are_told_until_they_may_be_made(world: Plane, operator: Process) -> None:
    world.namespace.kubectl("create", "quota", "none", "--hard=pods=0")
    world.namespace.apply(world.unschedulable("quota"))
    await eventually(lambda: world.condition("quota").get("reason") == "Rejected", "the reason", timeout_s=60)
    assert "exceeded quota: none" in world.condition("quota")["message"]
    world.namespace.kubectl("delete", "quota", "none")
    await eventually(lambda: world.condition("quota").get("reason") == "Unschedulable", "the pod", timeout_s=120)


async def test_a_model_serves_under_a_quota_on_everything(world: Plane, operator: Process) -> None:
    hard = "requests.cpu=8,requests.memory=16Gi,limits.cpu=16,limits.memory=32Gi,pods=9"
    world.namespace.kubectl("create", "quota", "everything", f"--hard={hard}")
    try:
        world.namespace.apply(world.model("bounded"))
        await eventually(lambda: world.condition("bounded").get("reason") == "Rejected", "the reason", timeout_s=60)
        refusal = world.condition("bounded")["message"]
        assert "must specify limits.cpu for: triton; limits.memory for: triton." in refusal
        assert "Set spec.engine.resources.limits" in refusal
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "engines"}}
        zones = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
        engine = {
            "cpu": {},
            "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "4", "memory": "2Gi"}},
            "initResources": {"limits": {"cpu": "500m"}},
            "serviceAccountName": "engines",
            "labels": {"team": "search"},
            "annotations": {"example.com/note": "kept"},
            "topologySpreadConstraints": [zones],
        }
        world.namespace.apply(account, world.model("bounded", engine=engine))
        world.wait_ready("bounded", timeout_s=180)
        (pod,) = json.loads(world.namespace.kubectl("get", "pods", "-l", "team=search", "-o", "json"))["items"]
        assert pod["metadata"]["annotations"]["example.com/note"] == "kept"
        assert pod["spec"]["serviceAccountName"] == "engines"
        assert [one["topologyKey"] for one in pod["spec"]["topologySpreadConstraints"]] == ["kubernetes.io/hostname"]
        assert {one["resources"]["limits"]["cpu"] for one in pod["spec"]["initContainers"]} == {"500m"}
        world.namespace.apply(world.external("read"))  # a reader of its folder must get in, too
        await eventually(lambda: world.condition("read").get("reason") == "EngineUnreachable", "the folder", 60)
    finally:
        world.namespace.kubectl("delete", "quota", "everything")
        world.namespace.kubectl("delete", "mdep", "bounded", "read", "--ignore-not-found")


@pytest.mark.parametrize(
    ("name", "engine", "says"),
    [
        pytest.param("classed", {"runtimeClassName": "none"}, 'RuntimeClass "none" not found', id="pods"),
    ],
)
async def test_a_refused_edit_is_told_while_the_model_goes_on_serving(
    world: Plane, operator: Process, name: str, engine: dict[str, object], says: str
) -> None:
    world.namespace.apply(world.model(name))
    world.wait_ready(name, timeout_s=180)
    world.namespace.kubectl("patch", "mdep", name, "--type=merge", "-p", json.dumps({"spec": {"engine": engine}}))
    await eventually(lambda: world.condition(name, "Applied").get("status") == "False", "the refusal", timeout_s=60)
    ready, applied = world.condition(name), world.condition(name, "Applied")
    assert (ready["status"], ready["reason"], applied["reason"]) == ("True", "Rejected", "Rejected")
    assert says in applied["message"]
    assert says in ready["message"]
    cured = json.dumps({"spec": {"engine": dict.fromkeys(engine)}})
    world.namespace.kubectl("patch", "mdep", name, "--type=merge", "-p", cured)
    await eventually(lambda: world.condition(name, "Applied").get("status") == "True", "the cure", timeout_s=60)
    assert world.condition(name)["reason"] == "Ready"
