from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.pods.pod_events import ASK_AGAIN_S, FIRST_S, PodEvents, event_fault, is_waiting
from conch_operator.state import EngineName

NAME = EngineName("models/tiny-engine-1")
PULLING = {"waiting": {"reason": "ImagePullBackOff", "message": "unauthorized"}}
CREATING = {"waiting": {"reason": "ContainerCreating"}}
UNAUTHORIZED = "The image r.io/a cannot be pulled: unauthorized"
NO_SECRET = "FailedToRetrieveImagePullSecret"
PULL_SECRET = "Unable to retrieve some image pull secrets (registry); attempting to pull the image may not succeed."


def pod(state: dict[str, Any], phase: str = "Pending", **meta: Any) -> Object:
    statuses = [{"name": "triton", "image": "r.io/a", "state": state}]
    return {
        "metadata": {"namespace": "models", "name": "tiny-engine-1", "uid": "7", **meta},
        "status": {"phase": phase, "containerStatuses": statuses},
    }


def event(reason: str, message: str, count: int = 3, at: str = "2026-01-01T00:00:00Z") -> Object:
    return {"reason": reason, "message": message, "count": count, "lastTimestamp": at}


@pytest.mark.parametrize(
    ("state", "events", "reason", "says"),
    [
        (
            CREATING,
            [event("FailedMount", 'MountVolume.SetUp failed for volume "ca" : secret "hub" not found')],
            *(Reason.SECRET_NOT_FOUND, "The Secret hub is missing"),
        ),
        (
            CREATING,
            [event("FailedMount", 'MountVolume.SetUp failed for volume "x" : configmap "tiny" not found')],
            *(Reason.CONFIG_MAP_NOT_FOUND, "The ConfigMap tiny is missing"),
        ),
        (CREATING, [event("FailedAttachVolume", "Multi-Attach error")], Reason.VOLUME_NOT_MOUNTED, "Multi-Attach"),
        (PULLING, [event(NO_SECRET, PULL_SECRET)], Reason.SECRET_NOT_FOUND, UNAUTHORIZED),
        (PULLING, [event(NO_SECRET, PULL_SECRET)], Reason.SECRET_NOT_FOUND, "The Secret registry is missing"),
    ],
)
def test_row_26_what_a_node_misses_is_named(
    state: dict[str, Any], events: list[Object], reason: Reason, says: str
) -> None:
    fault = event_fault(pod(state), events)
    assert fault is not None
    assert fault.reason is reason
    assert says in fault.message


@pytest.mark.parametrize(
    ("state", "events"),
    [
        (CREATING, []),
        (CREATING, [event("FailedMount", "failed to sync configmap cache", count=1)]),
        (CREATING, [event(NO_SECRET, PULL_SECRET)]),
        (CREATING, [event("Pulling", "Pulling image")]),
        pytest.param(PULLING, [event("FailedMount", "failed to sync configmap cache")], id="mounted since"),
    ],
)
def test_what_may_pass_is_no_fault(state: dict[str, Any], events: list[Object]) -> None:
    assert event_fault(pod(state), events) is None


class Events(KubernetesApi):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.away = False

    async def list_all(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
    ) -> list[Object]:
        assert (kind.path(namespace), fields) == (
            "/api/v1/namespaces/models/events",
            "involvedObject.kind=Pod,type=Warning",
        )
        self.asked += 1
        if self.away:
            raise ApiError(0, "it is away")
        return [event("FailedAttachVolume", "Multi-Attach error") | {"involvedObject": {"uid": "7"}}]


async def test_only_pods_that_wait_are_asked_about_and_seldom() -> None:
    api, now = Events(), 0.0
    events = PodEvents(api, lambda: now)
    for other in (pod({"running": {}}), pod(CREATING, phase="Running"), pod(CREATING, deletionTimestamp="now")):
        assert await events.faults({NAME: other}) == {}
    assert await events.faults({NAME: pod(CREATING)}) == {}
    now = FIRST_S / 2
    assert await events.faults({NAME: pod(CREATING)}) == {}
    assert api.asked == 0, "it may start in a moment"
    now = FIRST_S
    for _ in range(3):
        assert (await events.faults({NAME: pod(CREATING)}))[NAME].reason is Reason.VOLUME_NOT_MOUNTED
    assert api.asked == 1
    now, api.away = FIRST_S + ASK_AGAIN_S, True
    assert NAME in await events.faults({NAME: pod(CREATING)}), "what is known stands while nobody answers"
    assert api.asked == 2
    assert await events.faults({NAME: pod({"running": {}})}) == {}
    assert await events.faults({NAME: pod(CREATING)}) == {}
    assert api.asked == 2, "one that waits again is asked about after a while again"


async def test_a_thousand_pods_that_wait_take_one_list_and_each_hears_of_itself_alone() -> None:
    api, now = Events(), 0.0
    events = PodEvents(api, lambda: now)
    pods = {EngineName(f"models/{number}"): pod(CREATING, uid=str(number)) for number in range(1000)}
    assert await events.faults(pods) == {}
    now = FIRST_S
    late = {EngineName("models/late"): pod(CREATING, uid="late")}
    assert list(await events.faults(pods | late)) == ["models/7"]
    assert api.asked == 1
    now += FIRST_S
    assert list(await events.faults(pods | late)) == ["models/7"]
    assert api.asked == 2, "one has waited for long enough since"


@pytest.mark.parametrize(
    "state",
    [
        {"waiting": {"reason": "CreateContainerConfigError", "message": "no"}},
        {"terminated": {"exitCode": 1}},
        {"running": {}},
    ],
)
def test_a_pod_whose_own_status_tells_is_not_asked_about(state: dict[str, Any]) -> None:
    assert not is_waiting(pod(state))
