"""One operator on a real cluster: from an applied ModelDeployment to an answer, and back to nothing."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.object_history import history
from testkit.kubernetes.operator_process import Plane, Process, plane
from testkit.waiting import eventually

FILE = "conch.dev/repository-0"
"""The annotation of a pod that holds the first file of its Triton repository."""
REWRITTEN_S = 10
TRIES = 3
"""How fast the operator is shows in its fastest try: a machine that tests may stop for a moment."""


@pytest.fixture(scope="module")
def world(cluster: Cluster, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    folder = tmp_path_factory.mktemp("plane")
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, folder) as found:
        yield found


@pytest.fixture(scope="module")
def tiny(world: Plane, operator: Process) -> str:
    """Give the name of a model that serves."""
    world.namespace.apply(world.model())
    world.wait_ready()
    return "tiny-chat"


async def ask(world: Plane, model: str, **fields: Any) -> tuple[int, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8} | fields
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{world.gateway}/v1/chat/completions", json=body) as response,
    ):
        return response.status, await response.json()


async def test_an_applied_model_answers(world: Plane, tiny: str) -> None:
    status, answer = await ask(world, tiny)
    assert status == 200, answer
    assert answer["choices"][0]["message"]["content"]


def test_the_status_says_what_there_is(world: Plane, tiny: str) -> None:
    found = world.namespace.get("modeldeployment", tiny)
    status = found["status"]
    assert (status["replicas"], status["readyReplicas"], status["servedNames"]) == (1, 1, ["tiny-chat"])
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert len(status["tokenizerDigest"]) == 64
    conditions = {one["type"]: one["status"] for one in status["conditions"]}
    true = ("SourceReady", "TokenizerReady", "EngineReady", "RoutePublished", "WorkersReady", "Applied", "Ready")
    assert conditions == dict.fromkeys((*true, "Progressing"), "True") | dict.fromkeys(
        ("Reconciling", "Stalled"), "False"
    )
    assert status["updatedReplicas"] == 1
    pods = json.loads(world.namespace.kubectl("get", "pods", "-l", status["selector"], "-o", "json"))
    assert len(pods["items"]) == 1


def test_everything_made_for_a_model_belongs_to_it(world: Plane, tiny: str) -> None:
    uid = world.namespace.get("modeldeployment", tiny)["metadata"]["uid"]
    (made,) = _made(world, "deployment", tiny)
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (uid, True)
    assert "finalizers" not in made["metadata"]
    assert "finalizers" not in world.namespace.get("modeldeployment", tiny)["metadata"]


def test_each_transition_is_one_event(world: Plane, tiny: str) -> None:
    events = json.loads(world.namespace.kubectl("get", "events.events.k8s.io", "-o", "json"))["items"]
    ours = [event for event in events if event["regarding"].get("name") == tiny]
    assert [event["type"] for event in ours if event["reason"] == "Ready"] == ["Normal"]
    assert len(ours) <= 6


async def test_a_pod_that_somebody_made_like_an_engine_gets_no_requests(
    world: Plane, tiny: str, operator: Process
) -> None:
    world.wait_ready(tiny)
    engines = world.engines(tiny)
    (name,) = _pods(world, tiny)
    copied = world.namespace.get("pod", name)
    copied["metadata"]["labels"].pop("pod-template-hash")  # else the ReplicaSet would adopt it, and end one of the two
    kept = {field: copied["metadata"][field] for field in ("labels", "annotations")}
    foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign", **kept}, "spec": copied["spec"]}
    try:
        world.namespace.apply(foreign)
        world.namespace.wait("condition=ContainersReady", "pod/foreign", timeout_s=60)
        await eventually(lambda: "was not made for it" in operator.log.read_text(), "the operator to say so", 30)
        before = operator.rounds()
        await eventually(lambda: operator.rounds() > before + 3, "some rounds", timeout_s=30)
        assert world.engines(tiny) == engines
        assert not any(one["type"] == "conch.dev/serving" for one in _conditions(world, "foreign"))
    finally:
        world.namespace.kubectl("delete", "pod", "foreign", "--ignore-not-found", "--grace-period=1")


async def test_a_deleted_child_comes_back(world: Plane, tiny: str) -> None:
    (made,) = _made(world, "deployment", tiny)
    world.namespace.kubectl("delete", "deployment", made["metadata"]["name"], "--wait=false")

    def is_back() -> bool:
        found = [item for item in _made(world, "deployment", tiny) if "deletionTimestamp" not in item["metadata"]]
        return [item["metadata"]["uid"] for item in found] != [made["metadata"]["uid"]] and len(found) == 1

    await eventually(is_back, "a new Deployment", timeout_s=30)
    world.wait_ready(tiny)


async def test_an_edited_child_is_put_right(world: Plane, tiny: str) -> None:
    def spec() -> Any:
        return world.namespace.get("deployment", f"{tiny}-engine")["spec"]

    annotations = spec()["template"]["metadata"]["annotations"]
    assert FILE in annotations
    spoiled = json.dumps({"spec": {"replicas": 3, "template": {"metadata": {"annotations": {FILE: "spoiled"}}}}})
    world.namespace.kubectl("patch", "deployment", f"{tiny}-engine", "--patch", spoiled)
    await eventually(lambda: spec()["replicas"] == 1, "1 replica", timeout_s=30)
    assert spec()["template"]["metadata"]["annotations"] == annotations
    world.wait_ready(tiny)


async def test_a_lost_registry_is_written_again(world: Plane, tiny: str) -> None:
    digest = world.namespace.get("modeldeployment", tiny)["status"]["tokenizerDigest"]
    key = f"conch:1:bundles:{digest}"
    took_s: list[float] = []
    while len(took_s) < TRIES and min(took_s, default=REWRITTEN_S) >= REWRITTEN_S:
        world.redis.restart()
        began = time.monotonic()
        await eventually(lambda: world.engines(tiny), "the route", timeout_s=60)
        await eventually(lambda: world.redis.command("EXISTS", key) == b":1\r\n", "the bundle", timeout_s=60)
        took_s.append(time.monotonic() - began)
    assert min(took_s) < REWRITTEN_S
    world.wait_ready(tiny)


async def test_no_request_fails_while_pods_come_and_go(world: Plane, tiny: str) -> None:
    world.wait_ready(tiny)
    answers: list[tuple[int, Any]] = []
    done = asyncio.Event()

    async def keep_asking() -> None:
        while not done.is_set():
            answers.append(await ask(world, tiny, max_tokens=2))
            await asyncio.sleep(0.05)

    asking = asyncio.create_task(keep_asking())
    try:
        await _replaced(world, tiny, "delete", "pod", "--wait=false", "--ignore-not-found", *_pods(world, tiny))
        edit = json.dumps({"spec": {"engine": {"cpu": {"maxBatchSize": 8}}}})
        await _replaced(world, tiny, "patch", "modeldeployment", tiny, "--type=merge", "-p", edit)
        world.namespace.kubectl("scale", "modeldeployment", tiny, "--replicas=2")
        await eventually(lambda: len(world.engines(tiny)) == 2, "two engines in the route", timeout_s=60)
        assert len(_made(world, "poddisruptionbudget", tiny)) == 1
        world.namespace.kubectl("scale", "modeldeployment", tiny, "--replicas=1")
        await eventually(lambda: len(_pods(world, tiny)) == 1, "one pod", timeout_s=60)
        await eventually(lambda: not _made(world, "poddisruptionbudget", tiny), "no budget", timeout_s=60)
    finally:
        done.set()
        await asking
    assert [answer for answer in answers if answer[0] != 200] == []
    assert len(answers) > 20


def test_nothing_of_an_engine_is_the_first_process_of_its_pod(world: Plane, tiny: str) -> None:
    """That one would hear no SIGTERM before it asks for it, and its pod stay for the whole grace period."""
    world.wait_ready(tiny)
    (pod,) = _pods(world, tiny)
    told = "print(open('/proc/1/cmdline').read())"
    first = world.namespace.kubectl("exec", pod, "-c", "agent", "--", "/opt/conch/bin/python", "-c", told)
    assert first.strip()
    assert "python" not in first, "the agent"


_KILL_BACKEND = """
import os, pathlib, signal

for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
    if comm.read_text().startswith("triton_python"):
        os.kill(int(comm.parent.name), signal.SIGKILL)
"""


async def test_an_engine_whose_backend_has_died_is_started_again(world: Plane, tiny: str) -> None:
    world.wait_ready(tiny)
    (pod,) = _pods(world, tiny)

    def restarts() -> int:
        statuses = world.namespace.get("pod", pod)["status"]["containerStatuses"]
        return int(next(one["restartCount"] for one in statuses if one["name"] == "triton"))

    before = restarts()
    world.namespace.kubectl("exec", pod, "-c", "agent", "--", "/opt/conch/bin/python", "-c", _KILL_BACKEND)
    await eventually(lambda: restarts() > before, "the server to be started again", timeout_s=60)
    await eventually(lambda: world.engines(tiny), "its route", timeout_s=60)
    world.wait_ready(tiny)
    assert (await ask(world, tiny))[0] == 200
    assert restarts() == before + 1, "no more than once"


async def test_a_model_whose_only_engine_is_evicted_is_ready_all_the_time(world: Plane, tiny: str) -> None:
    world.wait_ready(tiny)
    (evicted,) = _pods(world, tiny)
    with history(world.namespace, tiny, world.folder / "evicted.json") as found:
        await eventually(lambda: world.namespace.evict(evicted), "the pod to be let go", timeout_s=60)
        await eventually(
            lambda: len(now := _pods(world, tiny)) == 1 and now != [evicted], "another pod in its place", timeout_s=90
        )
        world.wait_ready(tiny)
        ready = found.conditions("Ready")
        said = [one.get("message", "") for status in found.statuses() for one in status["conditions"]]
    assert {one["status"] for one in ready} == {"True"}
    assert [message for message in said if evicted in message] == []


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        pytest.param({"engine": {"cpu": {}, "image": "conch.test/none:1"}}, "ImagePullFailed", id="image"),
        pytest.param({"source": {"path": "no-such-folder"}}, "FolderMissing", id="path"),
    ],
)
async def test_an_edit_that_fails_is_told_while_the_old_engine_serves(
    world: Plane, tiny: str, edit: dict[str, Any], reason: str
) -> None:
    good = {"source": {"path": "tiny-chat"}, "engine": {"image": None}, "progressDeadline": "10m"}
    spec = {"spec": {"progressDeadline": "20s", **edit}}
    patch = ("patch", "modeldeployment", tiny, "--type=merge", "-p")
    world.namespace.kubectl(*patch, json.dumps(spec))
    try:
        await eventually(lambda: world.condition(tiny, "Progressing")["reason"] == reason, reason, timeout_s=60)
        ready = world.condition(tiny)
        assert (ready["status"], ready["reason"]) == ("True", reason)
        world.namespace.wait("condition=Stalled", f"modeldeployment/{tiny}", timeout_s=90)
        progressing = world.condition(tiny, "Progressing")
        assert (progressing["status"], progressing["reason"]) == ("False", "ProgressDeadlineExceeded")
        assert world.condition(tiny)["status"] == "True"
        status, answer = await ask(world, tiny)
        assert status == 200, answer
        events = json.loads(world.namespace.kubectl("get", "events.events.k8s.io", "-o", "json"))["items"]
        ours = [event for event in events if event["regarding"]["name"] == tiny]
        told = [event["reason"] for event in ours if event["type"] == "Warning"]
        assert {reason, "ProgressDeadlineExceeded"} <= set(told)
    finally:
        world.namespace.kubectl(*patch, json.dumps({"spec": good}))
        world.namespace.wait("condition=Reconciling=False", f"modeldeployment/{tiny}", timeout_s=90)
    assert world.condition(tiny, "Progressing")["reason"] == "NewEngineAvailable"
    assert world.condition(tiny)["reason"] == "Ready"


@pytest.mark.parametrize(
    ("name", "spec", "reason", "says"),
    [
        ("nowhere", {"engine": {"cpu": {}, "nodeSelector": {"disk": "none"}}}, "Unschedulable", "node"),
        ("no-image", {"engine": {"cpu": {}, "image": "conch.test/none:1"}}, "ImagePullFailed", "conch.test/none:1"),
        ("no-folder", {"source": {"path": "no-such-folder"}}, "FolderMissing", "/models/no-such-folder"),
        ("no-claim", {"source": {"pvc": {"claimName": "none"}}}, "ClaimNotFound", "none"),
        ("taken", {"servedNames": ["tiny-chat"]}, "NameConflict", "tiny-chat"),
    ],
)
async def test_a_model_that_cannot_serve_says_why(
    world: Plane, tiny: str, name: str, spec: dict[str, Any], reason: str, says: str
) -> None:
    world.namespace.apply(world.model(name, **spec))
    try:
        await eventually(lambda: world.condition(name).get("reason") == reason, reason, timeout_s=60)
        assert says in world.condition(name)["message"]
        assert world.condition(tiny)["status"] == "True"
    finally:
        world.namespace.kubectl("delete", "modeldeployment", name)


async def test_external_models_share_one_reader_and_outlive_wrong_edits(world: Plane, tiny: str) -> None:
    (engine,) = world.engines(tiny)
    external = {"grpc": engine, "modelName": "model", "dialect": "tokens"}
    names = [f"external-{index}" for index in range(5)]
    world.namespace.apply(*(world.model(name, engine={"external": external}) for name in names))
    for name in names:
        world.wait_ready(name)
    made = [item["metadata"] for item in _made(world, "deployment", None)]
    readers = [meta for meta in made if meta["name"].startswith("conch-source-")]
    assert len(readers) == 1
    assert len(readers[0]["ownerReferences"]) == 5
    status, answer = await ask(world, names[0])
    assert status == 200, answer
    elsewhere = world.model(names[0], engine={"external": {**external, "modelName": "nobody"}})
    world.namespace.apply(elsewhere)
    await eventually(lambda: "older spec" in world.condition(names[0])["message"], "word of the wrong name")
    assert world.condition(names[0])["status"] == "True"
    status, answer = await ask(world, names[0])
    assert status == 200, answer
    world.namespace.kubectl("delete", "modeldeployment", *names)

    def names_left() -> list[str]:
        return [item["metadata"]["name"] for item in _made(world, "deployment", None)]

    await eventually(lambda: readers[0]["name"] not in names_left(), "the reader to go with its owners", timeout_s=60)


async def test_a_deleted_model_leaves_nothing(world: Plane, tiny: str) -> None:
    world.namespace.kubectl("delete", "modeldeployment", tiny, "--timeout=50s")
    await eventually(lambda: not world.engines(tiny), "its route to go", timeout_s=60)

    def left() -> list[str]:
        chosen = f"conch.dev/model-deployment={tiny}"
        return world.namespace.kubectl("get", "deployment,pod", "-l", chosen, "-o", "name").split()

    await eventually(lambda: not left(), "everything to go", timeout_s=60)


async def _replaced(world: Plane, model: str, *command: str) -> None:
    """Do something that replaces the model's one pod and wait until that has happened."""
    before = _pods(world, model)
    world.namespace.kubectl(*command)
    await eventually(lambda: len(now := _pods(world, model)) == 1 and now != before, "another pod", timeout_s=120)
    world.wait_ready(model)


def _conditions(world: Plane, pod: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.namespace.get("pod", pod)["status"]["conditions"]
    return found


def _pods(world: Plane, model: str) -> list[str]:
    chosen = f"conch.dev/model-deployment={model},app.kubernetes.io/component=engine"
    return sorted(world.namespace.kubectl("get", "pods", "-l", chosen, "-o", "name").replace("pod/", "").split())


def _made(world: Plane, kind: str, model: str | None) -> list[dict[str, Any]]:
    chosen = f"conch.dev/model-deployment={model}" if model else "conch.dev/model-deployment"
    found: list[dict[str, Any]] = json.loads(world.namespace.kubectl("get", kind, "-l", chosen, "-o", "json"))["items"]
    return found
