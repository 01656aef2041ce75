"""How the operator treats objects that are not its alone: status, owners, other people's fields, Events."""

import itertools
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from conch_contracts.conditions import ConditionType
from testkit.engines.external_engine import external_engine, own_address
from testkit.kubernetes.object_history import History, history
from testkit.kubernetes.operator_process import Plane, Process, nobody
from testkit.servers.triton import RunningTriton
from testkit.waiting import eventually

REASON_S = 2
MANY = 13
CHILDREN = ("deployment", "poddisruptionbudget")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    with external_engine(tmp_path_factory.mktemp("engine"), own_address()) as found:
        yield found


@pytest.fixture(scope="module")
def story(world: Plane, operator: Process, engine: RunningTriton) -> Iterator[History]:
    """Give all versions of a model that was made, edited, broken and repaired."""
    with history(world.namespace, "story", world.folder / "story.json") as found:
        world.namespace.apply(world.external("story", engine.grpc))
        world.wait_ready("story")
        for change in (
            {"servedNames": ["another"]},
            {"routing": {"timeout": "5m"}},
            {"engine": {"external": {"grpc": nobody()}}},
        ):
            _patch(world, "story", change)
        reason = "jsonpath={.status.conditions[?(@.type=='Ready')].reason}=EngineUnreachable"
        world.namespace.wait(reason, "mdep/story")
        _patch(world, "story", {"engine": {"external": {"grpc": engine.grpc}}})
        world.wait_ready("story")
        yield found


def test_a_model_has_every_condition_from_its_first_moment_and_all_are_unknown(story: History) -> None:
    made = story.versions()[0]["status"]
    assert made["observedGeneration"] == 0
    first = {condition["type"]: condition["status"] for condition in made["conditions"]}
    assert first == dict.fromkeys(ConditionType, "Unknown") | {ConditionType.RECONCILING: "True"}


async def test_a_reason_beside_many_broken_models_comes_within_two_seconds(world: Plane, operator: Process) -> None:
    crowd = [f"crowd-{index}" for index in range(MANY - 1)]
    world.namespace.apply(*(world.unschedulable(name, replicas=1) for name in crowd))
    for name in crowd:
        await _wait_for_reason(world, name)
    tries = []
    for name in ("late", "later", "latest"):
        world.namespace.apply(world.unschedulable(name, replicas=1))
        tries.append(await _wait_for_reason(world, name))
        if tries[-1] <= timedelta(seconds=REASON_S):
            break
    world.namespace.kubectl("delete", "mdep", *crowd, *("late", "later", "latest")[: len(tries)])
    assert tries[-1] <= timedelta(seconds=REASON_S)


async def _wait_for_reason(world: Plane, name: str) -> timedelta:
    """Return the time from the scheduler's word about a model's pod, of which the second is known, to the model's."""

    def told() -> list[str]:
        return [event["eventTime"] for event in _events(world, name) if event["reason"] == "Unschedulable"]

    await eventually(told, "the reason", timeout_s=60)
    chosen = f"conch.dev/model-deployment={name}"
    (pod,) = json.loads(world.namespace.kubectl("get", "pods", "-l", chosen, "-o", "json"))["items"]
    (seen,) = [one["lastTransitionTime"] for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    return datetime.fromisoformat(told()[0]) - datetime.fromisoformat(seen) - timedelta(seconds=1)


@pytest.mark.parametrize("kind", sorted(ConditionType))
def test_the_time_of_a_transition_moves_only_with_its_status(story: History, kind: ConditionType) -> None:
    said = (one for one in story.conditions(kind) if one["observedGeneration"] > 0)
    seen = [(one["status"], one["lastTransitionTime"]) for one in said]
    changes = sum(before[0] != after[0] for before, after in itertools.pairwise(seen))
    moves = [(before, after) for before, after in itertools.pairwise(seen) if before[1] != after[1]]
    assert [move for move in moves if move[0][0] == move[1][0]] == []
    assert len(moves) <= changes
    assert [time for _, time in seen] == sorted(time for _, time in seen)


def test_the_observed_generation_is_never_ahead_and_catches_up(story: History) -> None:
    versions = [version for version in story.versions() if "status" in version]
    ahead = [one for one in versions if one["status"]["observedGeneration"] > one["metadata"]["generation"]]
    assert ahead == []
    last = versions[-1]
    assert last["metadata"]["generation"] == 5
    assert last["status"]["observedGeneration"] == 5
    assert {one["observedGeneration"] for one in last["status"]["conditions"]} == {5}


def test_a_transition_is_one_event(world: Plane, story: History) -> None:
    told = [(one["status"], one["reason"], one["lastTransitionTime"]) for one in story.conditions("Ready")]
    transitions = [after for before, after in itertools.pairwise(told) if before[:2] != after[:2]]
    assert len([one for one in transitions if one[1] == "Ready"]) == 2
    events = _events(world, "story")
    assert sorted(event["reason"] for event in events) == sorted(reason for _, reason, _ in transitions)
    kinds = {event["reason"]: event["type"] for event in events}
    assert (kinds["Ready"], kinds["EngineUnreachable"]) == ("Normal", "Warning")


async def test_an_operator_that_starts_again_repeats_no_event(world: Plane, story: History, operator: Process) -> None:
    before = [event["metadata"]["name"] for event in _events(world, "story")]
    versions = len(story.versions())
    operator.kill()
    operator.start()
    await eventually(lambda: operator.rounds() >= 3, "some rounds", timeout_s=60)
    assert [event["metadata"]["name"] for event in _events(world, "story")] == before
    assert len(story.versions()) == versions


def test_status_is_written_through_its_subresource_only(world: Plane, story: History) -> None:
    before = world.namespace.get("modeldeployment", "story")["status"]
    change = {"status": {"readyReplicas": 7, "conditions": []}}
    world.namespace.kubectl("patch", "mdep", "story", "--type=merge", "-p", json.dumps(change))
    assert world.namespace.get("modeldeployment", "story")["status"] == before


def test_whoever_may_edit_a_model_may_not_set_its_status(world: Plane, story: History) -> None:
    world.namespace.kubectl("create", "role", "author", "--verb=*", "--resource=modeldeployments.conch.dev")
    world.namespace.kubectl("create", "rolebinding", "author", "--role=author", "--user=author")
    change = json.dumps({"status": {"readyReplicas": 7}})
    words = ("--namespace", world.namespace.name, "--as=author", "patch", "mdep", "story", "--type=merge", "-p", change)
    assert world.namespace.cluster.try_kubectl(*words).returncode == 0
    refused = world.namespace.cluster.try_kubectl(*words, "--subresource=status")
    assert "Forbidden" in refused.stderr


@pytest.mark.parametrize("cascade", ["background", "foreground"])
async def test_a_deleted_model_leaves_nothing(world: Plane, operator: Process, cascade: str) -> None:
    world.namespace.apply(world.unschedulable("owner"))
    await eventually(lambda: len(_children(world, "owner")) == len(CHILDREN), "its objects", timeout_s=60)
    uid = world.namespace.get("modeldeployment", "owner")["metadata"]["uid"]
    for child in _children(world, "owner"):
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)
    world.namespace.kubectl("delete", "mdep", "owner", f"--cascade={cascade}", timeout_s=60)
    await eventually(lambda: _children(world, "owner") == [], "the end of its objects", timeout_s=60)
    await eventually(lambda: _pods(world, "owner") == "", "the end of its pods", timeout_s=60)


async def test_orphans_stay_and_are_adopted_by_a_model_of_the_same_name(world: Plane, operator: Process) -> None:
    world.namespace.apply(world.unschedulable("orphan"))
    await eventually(lambda: len(_children(world, "orphan")) == len(CHILDREN), "its objects", timeout_s=60)
    before = {child["metadata"]["uid"] for child in _children(world, "orphan")}
    rounds = operator.rounds()
    world.namespace.kubectl("delete", "mdep", "orphan", "--cascade=orphan", timeout_s=60)
    await eventually(lambda: operator.rounds() >= rounds + 2, "rounds without the model", timeout_s=60)
    assert {child["metadata"]["uid"] for child in _children(world, "orphan")} == before
    assert [child["metadata"].get("ownerReferences", []) for child in _children(world, "orphan")] == [[]] * len(before)
    world.namespace.apply(world.unschedulable("orphan"))
    uid = world.namespace.get("modeldeployment", "orphan")["metadata"]["uid"]
    await eventually(lambda: _owners(world, "orphan") == {uid}, "the new owner", timeout_s=60)
    assert {child["metadata"]["uid"] for child in _children(world, "orphan")} == before
    world.namespace.kubectl("delete", "mdep", "orphan")
    await eventually(lambda: _children(world, "orphan") == [], "the end of its objects", timeout_s=60)


async def test_what_others_write_into_our_objects_stays(world: Plane, operator: Process) -> None:
    world.namespace.apply(world.unschedulable("shared"))
    await eventually(lambda: len(_children(world, "shared")) == len(CHILDREN), "its objects", timeout_s=60)
    sidecar = {"name": "injected", "image": "conch.test/none:1"}
    theirs = {
        "metadata": {"annotations": {"example.com/theirs": "yes"}},
        "spec": {"template": {"spec": {"containers": [sidecar]}}, "minReadySeconds": 3},
    }
    world.namespace.kubectl(
        "patch", "deployment", "shared-engine", "-p", json.dumps(theirs), "--field-manager=somebody"
    )
    _patch(world, "shared", {"replicas": 3})

    def scaled() -> bool:
        return bool(world.namespace.get("deployment", "shared-engine")["spec"]["replicas"] == 3)

    await eventually(scaled, "our own change", timeout_s=60)
    found = world.namespace.get("deployment", "shared-engine")
    assert found["metadata"]["annotations"]["example.com/theirs"] == "yes"
    assert found["spec"]["minReadySeconds"] == 3
    containers = found["spec"]["template"]["spec"]["containers"]
    assert sorted(container["name"] for container in containers) == ["injected", "triton"]
    shown = json.loads(
        world.namespace.kubectl("get", "deployment", "shared-engine", "-o", "json", "--show-managed-fields")
    )
    ours = [one for one in shown["metadata"]["managedFields"] if one["manager"] == "conch-operator"]
    assert [one["operation"] for one in ours] == ["Apply"]
    assert "f:minReadySeconds" not in ours[0]["fieldsV1"]["f:spec"]


async def test_a_deployment_that_somebody_has_paused_takes_up_changes_again(world: Plane, operator: Process) -> None:
    world.namespace.apply(world.unschedulable("paused"))
    await eventually(lambda: len(_children(world, "paused")) == len(CHILDREN), "its objects", timeout_s=60)
    world.namespace.kubectl("rollout", "pause", "deployment/paused-engine")

    def is_told() -> bool:
        return "Conch has resumed it" in world.namespace.kubectl("describe", "deployment", "paused-engine")

    await eventually(is_told, "the Event", timeout_s=60)
    assert "paused" not in world.namespace.get("deployment", "paused-engine")["spec"]


def _patch(world: Plane, name: str, spec: dict[str, Any]) -> None:
    world.namespace.kubectl("patch", "mdep", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def _children(world: Plane, model: str) -> list[dict[str, Any]]:
    chosen = f"conch.dev/model-deployment={model}"
    shown = json.loads(world.namespace.kubectl("get", ",".join(CHILDREN), "-l", chosen, "-o", "json"))
    return sorted(shown["items"], key=lambda item: str(item["kind"]))


def _owners(world: Plane, model: str) -> set[str]:
    references = [child["metadata"].get("ownerReferences", []) for child in _children(world, model)]
    return {owner["uid"] for found in references for owner in found} if all(references) else set()


def _pods(world: Plane, model: str) -> str:
    return world.namespace.kubectl("get", "pods", "-l", f"conch.dev/model-deployment={model}", "-o", "name").strip()


def _events(world: Plane, model: str) -> list[dict[str, Any]]:
    items = json.loads(world.namespace.kubectl("get", "events.events.k8s.io", "-o", "json"))["items"]
    ours = [event for event in items if event["regarding"].get("name") == model]
    return sorted(ours, key=lambda event: str(event["eventTime"]))
