"""What is made for a pool."""

from typing import Any

import pytest

from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_operator.resources.engine_image import NotSupported
from conch_operator.resources.pool_objects import PoolObject, agent_owner, make_pool_objects, pooled_folder
from conch_operator.settings import EngineSettings
from testkit.builders.every_runtime import TOKENS
from testkit.builders.model_deployments import model_deployment

MIB = 1024**2
POLICY = {"enabled": True, "from": [{"podSelector": {}}], "agentFrom": [{"podSelector": {}}]}
SETTINGS = EngineSettings.model_validate({"agentImage": "a", "images": {"cpu": "c"}, "networkPolicy": POLICY})


def pool(**spec: Any) -> PoolObject:
    return PoolObject("ns", "small", "uid", 1, EnginePoolSpec.model_validate({"memory": "1Gi", **spec}))


def pod_of(pool: PoolObject) -> dict[str, Any]:
    found: dict[str, Any] = make_pool_objects(pool, SETTINGS, TOKENS)[-1]["spec"]["template"]["spec"]
    return found


def test_its_pod_is_restricted_and_ends_after_its_hold_and_its_drain() -> None:
    pod = pod_of(pool())
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert pod["shareProcessNamespace"] is True
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    (server,) = pod["containers"]
    (exit_s,) = [int(arg.split("=")[1]) for arg in server["args"] if arg.startswith("--exit-timeout-secs=")]
    assert pod["terminationGracePeriodSeconds"] >= exit_s + 45
    assert server["lifecycle"]["preStop"]["httpGet"]["path"] == "/withdrawn"
    assert not any(arg.startswith("--load-model") for arg in server["args"])


def test_the_server_cannot_write_what_the_agent_has_it_load() -> None:
    pod = pod_of(pool())
    mounts = {
        container["name"]: next(mount for mount in container["volumeMounts"] if mount["name"] == "repository")
        for container in (*pod["initContainers"], *pod["containers"])
    }
    assert mounts["triton"].get("readOnly") is True
    assert mounts["agent"].get("readOnly") is None
    assert mounts["triton"]["mountPath"] == mounts["agent"]["mountPath"]


@pytest.mark.parametrize(("memory", "asked", "most"), [("1Gi", 1280, 1792), ("4Gi", 4352, 5376)])
def test_it_asks_for_what_its_models_take_and_may_take_more(memory: str, asked: int, most: int) -> None:
    (server,) = pod_of(pool(memory=memory))["containers"]
    assert server["resources"]["requests"]["memory"] == str(asked * MIB)
    assert server["resources"]["limits"] == {"memory": str(most * MIB)}


def test_models_are_found_in_the_image_and_on_the_claims_of_the_pool() -> None:
    pod = pod_of(pool(claims=["a", "b"]))
    (server,) = pod["containers"]
    mounted = {mount["mountPath"]: mount["name"] for mount in server["volumeMounts"] if mount.get("readOnly")}
    claims = {volume["name"]: volume.get("persistentVolumeClaim") for volume in pod["volumes"]}
    for name in ("a", "b"):
        assert claims[mounted[f"/conch/claims/{name}"]] == {"claimName": name, "readOnly": True}
    folder = {
        source: pooled_folder(model_deployment(source=given))
        for source, given in {
            "path": {"path": "tiny"},
            "root": {"pvc": {"claimName": "a"}},
            "below": {"pvc": {"claimName": "a", "path": "models/tiny"}},
        }.items()
    }
    assert folder == {
        "path": "/models/tiny",
        "root": "/conch/claims/a",
        "below": "/conch/claims/a/models/tiny",
    }


def test_its_objects_go_with_it_and_are_known_by_its_name() -> None:
    made = make_pool_objects(pool(), SETTINGS, TOKENS)
    assert [one["kind"] for one in made] == ["NetworkPolicy", "Deployment"]
    for one in made:
        assert one["metadata"]["labels"]["conch.dev/engine-pool"] == "small"
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("EnginePool", "small", "uid")
    told = {env["name"]: env["value"] for env in pod_of(pool())["initContainers"][0]["env"]}
    assert told["CONCH_TOKEN_SHA256"] == TOKENS.told(agent_owner(pool().id))


def test_without_an_image_of_the_cpu_runtime_there_is_no_server() -> None:
    with pytest.raises(NotSupported):
        make_pool_objects(pool(), EngineSettings(agent_image="a"), TOKENS)
