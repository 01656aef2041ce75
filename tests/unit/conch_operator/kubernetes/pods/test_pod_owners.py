from collections.abc import Callable
from typing import Any

import pytest

from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.api.kinds import REPLICA_SET, Kind, Object
from conch_operator.kubernetes.pods.pod_owners import PATIENCE_S, PodOwners
from conch_operator.state import EngineName
from testkit.builders.owned_pods import deployments_of, made_by, replica_sets_of

Change = Callable[[Any], None]


class ReplicaSets(KubernetesApi):
    """An API server that has these ReplicaSets."""

    def __init__(self, *found: Object) -> None:
        super().__init__()
        self.found = list(found)

    async def list_all(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
    ) -> list[Object]:
        assert kind is REPLICA_SET
        return self.found


class Owners:
    def __init__(self, *pods: Object) -> None:
        self.now = 0.0
        self.api = ReplicaSets(*replica_sets_of(pods))
        self.deployments = deployments_of(pods)
        self._owners = PodOwners(self.api, [None], lambda: self.now)

    async def tell(self, *pods: Object) -> list[str]:
        named = {EngineName(str(pod["metadata"]["name"])): pod for pod in pods}
        return list(await self._owners.only_models(named, self.deployments))

    def knows(self, pod: Object) -> bool:
        return self._owners.is_models(pod)


def pod(name: str = "engine", replica_set: str = "rs") -> Object:
    labels = {"conch.dev/model-deployment": "m", "app.kubernetes.io/component": "engine"}
    return made_by({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels}}, replica_set)


def _no_controller(pod: Object) -> None:
    pod["metadata"]["ownerReferences"][0].pop("controller")


def _another_kind(pod: Object) -> None:
    pod["metadata"]["ownerReferences"][0]["kind"] = "Job"


def _another_group(pod: Object) -> None:
    pod["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pod: pod["metadata"].pop("ownerReferences"), id="no owner"),
        pytest.param(_no_controller, id="an owner that does not control it"),
        pytest.param(_another_kind, id="a Job"),
        pytest.param(_another_group, id="another ReplicaSet"),
        pytest.param(lambda pod: made_by(pod, "theirs"), id="a ReplicaSet of nobody's"),
        pytest.param(lambda pod: pod["metadata"]["labels"].update({"conch.dev/model-deployment": "n"}), id="model"),
        pytest.param(lambda pod: pod["metadata"]["labels"].update({"app.kubernetes.io/component": "n"}), id="part"),
        pytest.param(lambda pod: pod["metadata"].update(namespace="other"), id="another namespace"),
    ],
)
async def test_a_pod_counts_only_where_the_model_made_it(change: Change, caplog: pytest.LogCaptureFixture) -> None:
    foreign = pod("foreign")
    change(foreign)
    owners = Owners(pod())
    assert await owners.tell(pod(), foreign) == ["engine"]
    assert not caplog.records, "its ReplicaSet may be seen in a moment"
    for _ in range(2):
        owners.now += PATIENCE_S
        assert await owners.tell(pod(), foreign) == ["engine"]
    assert [record.__dict__["pod"] for record in caplog.records] == ["foreign"]


async def test_a_later_pod_of_a_replica_set_that_is_known_is_a_models() -> None:
    owners = Owners(pod())
    assert not owners.knows(pod("later"))
    await owners.tell(pod())
    assert owners.knows(pod("later"))
    assert not owners.knows(pod("foreign", "theirs"))


async def test_nothing_is_said_of_a_pod_that_ends_after_its_model(caplog: pytest.LogCaptureFixture) -> None:
    ending = pod()
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    owners = Owners()
    for _ in range(2):
        assert await owners.tell(ending) == []
        owners.now += PATIENCE_S
    assert await owners.tell(ending) == []
    assert not caplog.records


def _no_models(deployment: Object) -> None:
    deployment["metadata"].pop("ownerReferences")


def _a_jobs(deployment: Object) -> None:
    deployment["metadata"]["ownerReferences"][0]["kind"] = "Job"


def _anothers(deployment: Object) -> None:
    deployment["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1"


@pytest.mark.parametrize("change", [_no_models, _a_jobs, _anothers])
async def test_a_deployment_that_is_no_models_makes_no_engines(change: Change) -> None:
    owners = Owners(pod())
    change(owners.deployments[0])
    assert await owners.tell(pod()) == []


async def test_a_deployment_of_the_next_version_of_the_api_makes_engines() -> None:
    owners = Owners(pod())
    owners.deployments[0]["metadata"]["ownerReferences"][0]["apiVersion"] = "conch.dev/v1beta1"
    assert await owners.tell(pod()) == ["engine"]


async def test_a_pod_stays_its_models_after_its_owners_have_gone_but_not_if_it_is_let_go() -> None:
    owners = Owners(pod())
    assert await owners.tell(pod()) == ["engine"]
    owners.api.found, owners.deployments = [], []
    assert await owners.tell(pod()) == ["engine"]
    free = pod()
    free["metadata"].pop("ownerReferences")
    assert await owners.tell(free) == []
    assert await owners.tell(pod()) == []


async def test_a_pod_that_is_seen_before_its_replica_set_counts_when_that_is_seen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, new = pod(), pod("new", "rs-2")
    owners = Owners(ours, new)
    owners.api.found = replica_sets_of([ours])
    assert await owners.tell(ours, new) == ["engine"]
    owners.api.found = replica_sets_of([ours, new])
    assert await owners.tell(ours, new) == ["engine", "new"]
    owners.now += PATIENCE_S
    await owners.tell(ours, new)
    assert not caplog.records
