"""Every container of an engine's pod says what it gets, so that a ResourceQuota lets it in."""

from typing import Any

import pytest

from conch_contracts.spec.container import ResourcesSpec
from conch_contracts.spec.engine import EngineSpec
from conch_operator.resources.container_resources import REPORTING, engine_resources, resources_beside
from conch_operator.settings import EngineSettings
from testkit.builders.every_runtime import SPECS, rendered


def _containers(name: str) -> list[dict[str, Any]]:
    pods = [made["spec"]["template"]["spec"] for made in rendered(name) if made["kind"] == "Deployment"]
    return [container for pod in pods for container in (*pod["initContainers"], *pod["containers"])]


@pytest.mark.parametrize("name", SPECS)
def test_every_container_but_the_engine_has_requests_and_limits(name: str) -> None:
    for container in _containers(name):
        kinds = {"requests"} if container["name"] == "triton" else {"requests", "limits"}
        for kind in kinds:
            given = container["resources"][kind].keys() | container["resources"].get("limits", {}).keys()
            assert {"cpu", "memory"} <= given, container["name"]


@pytest.mark.parametrize(
    ("given", "gets"),
    [
        (None, {"requests": {"cpu": "100m", "memory": "256Mi"}}),
        (
            {"limits": {"amd.com/gpu": "1"}},
            {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"amd.com/gpu": "1"}},
        ),
        ({"limits": {"cpu": "2"}}, {"requests": {"memory": "256Mi"}, "limits": {"cpu": "2"}}),
        ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "2", "memory": "256Mi"}}),
        ({"limits": {"cpu": "50m", "memory": "64Mi"}}, {"limits": {"cpu": "50m", "memory": "64Mi"}}),
    ],
)
def test_what_an_engine_is_given_leaves_the_other_defaults(given: Any, gets: dict[str, Any]) -> None:
    engine = EngineSpec.model_validate({"cpu": {}, **({} if given is None else {"resources": given})})
    assert engine_resources(engine) == gets


@pytest.mark.parametrize(
    ("of_release", "of_model", "requests", "limits"),
    [
        ({}, {}, ("10m", "64Mi"), ("1", "512Mi")),
        ({}, {"limits": {"memory": "32Mi"}}, ("10m", "32Mi"), ("1", "32Mi")),
        ({"requests": {"cpu": "3"}}, {}, ("3", "64Mi"), ("3", "512Mi")),
        ({"limits": {"cpu": "2"}}, {"requests": {"cpu": "500m"}}, ("500m", "64Mi"), ("2", "512Mi")),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "4"}}, ("10m", "64Mi"), ("4", "512Mi")),
    ],
)
def test_a_model_says_more_than_its_release_and_that_more_than_the_defaults(
    of_release: Any, of_model: Any, requests: tuple[str, str], limits: tuple[str, str]
) -> None:
    settings = EngineSettings(agent_image="a", init_resources=ResourcesSpec.model_validate(of_release))
    engine = EngineSpec.model_validate({"cpu": {}, "initResources": of_model})
    assert resources_beside(REPORTING, settings, engine) == {
        "requests": dict(zip(("cpu", "memory"), requests, strict=True)),
        "limits": dict(zip(("cpu", "memory"), limits, strict=True)),
    }
