"""Encoders on a real cluster take turns in the one pod of their pool, and each is asked through the gateway."""

import json
import signal
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, plane
from testkit.processes.conch_up import wait_until

NAMES = ("one", "two", "three")
ROOM = 2
START_S = 300


@pytest.fixture(scope="module")
def world(cluster: Cluster, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    folder = tmp_path_factory.mktemp("pools")
    with (
        definition(cluster),
        fresh_namespace(cluster) as namespace,
        plane(namespace, images, folder, "embed-worker") as found,
        found.operator(),
    ):
        namespace.apply(pool(), *(placed(found, name) for name in NAMES))
        for name in NAMES:
            found.wait_ready(name, START_S)
        yield found
        found.clear()


def pool(**spec: Any) -> dict[str, Any]:
    given = {"memory": "1Gi", "maxModels": ROOM, "minResident": "1s", "maxWait": "500ms", **spec}
    return {
        "apiVersion": "conch.dev/v1alpha1",
        "kind": "EnginePool",
        "metadata": {"name": "encoders"},
        "spec": given,
    }


def placed(world: Plane, name: str, pool: str = "encoders", **spec: Any) -> dict[str, Any]:
    given = {"kind": "Rerank", "source": {"path": "tiny-reranker"}, "placement": {"pool": pool}, **spec}
    return world.model(name, **given)


def ask(world: Plane, name: str) -> list[float]:
    body = {"model": name, "query": "What do cats eat?", "documents": ["Cats eat fish.", "Tax is due in May."]}
    request = Request(f"{world.gateway}/v1/rerank", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=120) as answer:
        return [round(row["relevance_score"], 4) for row in json.load(answer)["results"]]


def pods(world: Plane) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(world.namespace.kubectl("get", "pods", "-o", "json"))["items"]
    return found


def container(pod: dict[str, Any], name: str) -> Any:
    """Return what the kubelet tells of a container; the agent is an init container that goes on."""
    status = pod["status"]
    return next(one for one in (*status["containerStatuses"], *status["initContainerStatuses"]) if one["name"] == name)


def in_agent(world: Plane, pod: dict[str, Any], program: str) -> tuple[str, ...]:
    """Return the words for kubectl that run a program beside a pod's agent."""
    where = (f"--namespace={world.namespace.name}", pod["metadata"]["name"], "--container=agent")
    return ("exec", *where, "--", "/opt/conch/bin/python", "-c", program)


def said(world: Plane) -> dict[str, Any]:
    found: dict[str, Any] = world.namespace.get("enginepool", "encoders").get("status", {})
    return found


def condition(world: Plane, kind: str) -> dict[str, Any]:
    return next((one for one in said(world).get("conditions", ()) if one["type"] == kind), {})


def test_three_are_answered_in_the_room_of_two_by_the_one_pod_of_their_pool(world: Plane) -> None:
    answers = [ask(world, name) for name in (*NAMES, *NAMES)]
    assert answers == [answers[0]] * len(answers)
    assert [pod["metadata"]["labels"]["conch.dev/engine-pool"] for pod in pods(world)] == ["encoders"]
    wait_until(lambda: said(world).get("loaded") == ROOM, "what is loaded in the status", 60, 0.5)
    status = said(world)
    assert (status["models"], len(status["residents"])) == (len(NAMES), ROOM)
    assert status["memoryBytes"] == sum(resident["memoryBytes"] for resident in status["residents"]) > 1024**2
    assert status["memoryUsed"] == f"{round(status['memoryBytes'] / 1024**2)}Mi"
    ready = status["conditions"][0]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "Ready")
    scaling = world.namespace.get("modeldeployment", NAMES[0])["status"]["scaling"]
    assert scaling["memoryBytes"] > 1024**2


_TRIM = """
import asyncio, os
from conch_operator.agent.graph_cache import CACHE, GraphCache
from conch_operator.agent.pod_server import PodServer

class NothingLoaded:
    seen = ()

server = PodServer(lambda: None)
server.look()
folder = server.root / CACHE[1:]
(folder / "old" / "entry").mkdir(parents=True)
(folder / "old" / "entry" / "model.onnx").write_bytes(b"graph")
asyncio.run(GraphCache(server, NothingLoaded(), lambda _: (100, 100, 0)).trim())
print(os.listdir(folder))
"""


def test_the_agent_can_remove_what_the_server_has_made_of_models(world: Plane) -> None:
    (pod,) = pods(world)
    told = world.namespace.cluster.kubectl(*in_agent(world, pod, _TRIM))
    assert "old" not in told.splitlines()[-1]
    assert ask(world, NAMES[0])


_KILL_AGENT = """
import os, signal
from pathlib import Path

for file in Path("/proc").glob("[0-9]*/cmdline"):
    if any(word.endswith(b"/conch-engine-agent") for word in file.read_bytes().split(b"\\0")):
        os.kill(int(file.parent.name), signal.SIGKILL)
"""
_PROCESSES = """
import json
from conch_operator.agent.pod_server import PodServer
from conch_operator.agent.pool_agent import POOL_REPOSITORY
from conch_operator.engine_pools.stub_processes import stubs_of

server = PodServer(lambda: None)
server.look()
print(json.dumps(sorted(len(stubs) for stubs in stubs_of(server.pid, POOL_REPOSITORY).values())))
"""


def test_an_agent_after_one_that_was_killed_finds_no_model_loaded_and_loads_each_once(world: Plane) -> None:
    """What the one before it has loaded into the server nobody knows any more, so the server is started again."""
    (before,) = pods(world)
    answer = ask(world, NAMES[0])
    restarts = {name: container(before, name)["restartCount"] + 1 for name in ("agent", "triton")}
    # The container ends below the command, which therefore may fail.
    world.namespace.cluster.try_kubectl(*in_agent(world, before, _KILL_AGENT))
    assert [ask(world, name) for name in (*NAMES, *NAMES)] == [answer] * 2 * len(NAMES)
    wait_until(
        lambda: (
            [{name: container(pod, name)["restartCount"] for name in restarts} for pod in pods(world)] == [restarts]
        ),
        "another agent and another server",
        60,
        0.5,
    )
    assert [ask(world, name) for name in NAMES] == [answer] * len(NAMES)
    wait_until(
        lambda: json.loads(world.namespace.cluster.kubectl(*in_agent(world, before, _PROCESSES))) == [1] * ROOM,
        "one process for each model that is in",
        60,
        0.5,
    )


def test_a_pod_that_ends_is_replaced_and_no_request_fails(world: Plane) -> None:
    (before,) = pods(world)
    world.namespace.kubectl("delete", "pod", before["metadata"]["name"], "--wait=false")
    answers = [ask(world, name) for name in (*NAMES, *NAMES)]
    assert answers == [answers[0]] * len(answers)
    wait_until(lambda: len(pods(world)) == 1, "one pod again", 120, 0.5)
    assert pods(world)[0]["metadata"]["uid"] != before["metadata"]["uid"]
    assert ask(world, NAMES[0]) == answers[0]


_KILL = """
import os, signal
from conch_operator.agent.pod_server import PodServer

server = PodServer(lambda: None)
server.look()
os.kill(server.pid, signal.SIGKILL)
"""


def test_a_server_that_is_killed_for_its_memory_has_the_models_again_that_are_asked_for(world: Plane) -> None:
    """Of a container whose memory is used up the kernel kills the largest process with this signal."""

    def resident() -> set[str]:
        return {one["name"] for one in said(world).get("residents", ())}

    (before,) = pods(world)
    answer = ask(world, NAMES[0])
    wait_until(lambda: NAMES[0] in resident() and len(resident()) == ROOM, "the status to say so", 60, 0.5)
    out = next(name for name in NAMES if name not in resident())
    world.namespace.cluster.kubectl(*in_agent(world, before, _KILL))
    assert [ask(world, name) for name in (out, NAMES[0])] == [answer] * 2
    killed = container(before, "triton")["restartCount"] + 1, 128 + signal.SIGKILL

    def ends() -> list[tuple[int, int | None]]:
        triton = [container(pod, "triton") for pod in pods(world)]
        return [(one["restartCount"], one["lastState"].get("terminated", {}).get("exitCode")) for one in triton]

    wait_until(lambda: ends() == [killed], "the kubelet's word", 30, 0.5)
    (after,) = pods(world)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    wait_until(lambda: resident() == {out, NAMES[0]}, "those that were asked for", 60, 0.5)


def test_an_edit_whose_pod_does_not_come_says_why_and_the_pool_serves_on(world: Plane) -> None:
    (before,) = pods(world)
    wait_until(lambda: condition(world, "Applied").get("status") == "True", "the pool as it was made", 60, 0.5)
    for edit, reason, words in (
        ({"memory": "900Ti"}, "Unschedulable", "Lower spec.memory of the EnginePool, or add a node."),
        ({"claims": ["not-there"]}, "ClaimNotFound", "The PersistentVolumeClaim not-there is missing"),
    ):
        world.namespace.apply(pool(**edit))
        wait_until(lambda reason=reason: condition(world, "Applied").get("reason") == reason, reason, 120, 0.5)  # type: ignore[misc]
        applied, ready = condition(world, "Applied"), condition(world, "Ready")
        assert (applied["status"], ready["status"]) == ("False", "True")
        assert words in applied["message"]
        assert applied["observedGeneration"] == world.namespace.get("enginepool", "encoders")["metadata"]["generation"]
        assert all(ask(world, name) for name in NAMES)
    world.namespace.apply(pool())
    wait_until(lambda: condition(world, "Applied").get("status") == "True", "the edit that was put right", 120, 0.5)
    wait_until(lambda: len(pods(world)) == 1, "the pods that did not come to go", 120, 0.5)
    assert pods(world)[0]["metadata"]["uid"] == before["metadata"]["uid"]
    assert condition(world, "Ready")["status"] == "True"


def test_what_a_pool_cannot_take_says_why_and_the_others_go_on(world: Plane) -> None:
    world.namespace.apply(
        placed(world, "elsewhere", pool="none"),
        placed(world, "hub", source={"huggingFace": {"repo": "a/b"}}),
        placed(world, "claimed", source={"pvc": {"claimName": "models"}}),
        placed(world, "own", engine={"cpu": {}, "nodeSelector": {"disk": "fast"}}),
        placed(world, "gone", source={"path": "not-there"}),
        placed(world, "huge", placement={"pool": "encoders", "sizeHint": "3Gi"}),
    )
    expected = {
        "elsewhere": ("PoolNotFound", "There is no EnginePool none"),
        "hub": ("NotHere", "path or pvc, not huggingFace"),
        "claimed": ("NotHere", "add it to spec.claims"),
        "own": ("NotHere", "spec.engine.nodeSelector"),
        "gone": ("FolderMissing", "/models/not-there does not exist"),
        "huge": ("TooLarge", "It takes 3072 MiB"),
    }
    for name, (reason, words) in expected.items():
        wait_until(lambda name=name, reason=reason: world.condition(name).get("reason") == reason, reason, 60, 0.5)  # type: ignore[misc]
        assert words in world.condition(name)["message"]
        with pytest.raises(HTTPError) as caught:
            ask(world, name)
        caught.value.close()
        assert caught.value.code in (404, 503)
        world.namespace.kubectl("delete", "modeldeployment", name)
    assert ask(world, NAMES[-1])
