"""A model at zero whose next engine cannot start: who waits for it is told at once, and its status says why."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from conch_contracts.names import LOADS_KEY
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, plane
from testkit.processes.conch_up import wait_until
from testkit.waiting import eventually_in_thread

TOLD_S = 5
TRIES = 3
"""How fast the operator is shows in its fastest try: a machine that tests may stop for a moment."""
HOLD = {"routing": {"hold": 9}}


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, tmp_path) as found:
        yield found


def rest(world: Plane, **engine: Any) -> None:
    """Have no engine, and let the next one be as is said here."""
    world.namespace.apply(world.model(replicas=0, engine={"cpu": {}, **engine}, **HOLD))

    def rests() -> bool:
        found = world.namespace.get("modeldeployment", "tiny-chat")
        today = found["status"]["observedGeneration"] == found["metadata"]["generation"]
        pods = world.namespace.kubectl("get", "pods", "-o", "name").strip()
        return today and not pods and world.condition().get("reason") == "ScaledToZero"

    wait_until(rests, "no engine", 120, 0.5)


def ask(world: Plane) -> tuple[int, dict[str, Any]]:
    """Return the status of a request, and its error."""
    body = {"model": "tiny-chat", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
    headers = {"Content-Type": "application/json"}
    request = Request(f"{world.gateway}/v1/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urlopen(request, timeout=300) as answer:
            return answer.status, {}
    except HTTPError as error:
        with error:
            return error.code, json.load(error)["error"]


def has_room_for_one(world: Plane) -> dict[str, Any]:
    """Give the node room for one engine, and return what of it an engine asks for."""
    room = "example.com/room"
    (node,) = world.namespace.kubectl("get", "nodes", "-o", "name").split()
    patch = json.dumps({"status": {"capacity": {room: "1"}}})
    world.namespace.kubectl("patch", node, "--subresource=status", "--type=merge", "-p", patch)
    return {"resources": {"limits": {room: 1}}}


def found_no_node(world: Plane) -> int:
    """Return how many times pods found no node."""
    events = world.namespace.kubectl("get", "events", "--field-selector=reason=FailedScheduling", "-o", "name")
    return len(events.split())


async def told_s(world: Plane, reason: str, says: str) -> float:
    """Start an engine for a request that is held; return how long it takes until it is refused with this reason."""
    asked = asyncio.create_task(asyncio.to_thread(ask, world))
    held = lambda: b'"held":1' in world.redis.command("HVALS", LOADS_KEY)  # noqa: E731
    await eventually_in_thread(held, "the request to be held", 60)
    began_s = time.monotonic()
    world.namespace.kubectl("scale", "modeldeployment/tiny-chat", "--replicas=1")
    status, error = await asked
    assert (status, error["code"]) == (503, "model_not_ready")
    assert error["message"] == "No engine of this model starts: its status says why."
    await eventually_in_thread(lambda: world.condition().get("reason") == reason, reason, 60)
    took_s = time.monotonic() - began_s
    assert (world.condition()["status"], says in world.condition()["message"]) == ("False", True)
    assert ask(world)[0] == 503, "the next one is not held"
    return took_s


async def is_told_soon(world: Plane, reason: str, says: str, **engine: Any) -> None:
    took_s: list[float] = []
    while len(took_s) < TRIES and min(took_s, default=TOLD_S) >= TOLD_S:
        await asyncio.to_thread(rest, world, **engine)
        took_s.append(await told_s(world, reason, says))
    print(f"{reason} after {', '.join(f'{each:.1f}' for each in took_s)} s")
    assert min(took_s) < TOLD_S


async def test_whoever_waits_for_an_engine_that_cannot_start_is_told_so_within_five_seconds(world: Plane) -> None:
    with world.operator() as operator:
        world.namespace.apply(world.model(**HOLD))
        await asyncio.to_thread(world.wait_ready, timeout_s=300)
        world.namespace.kubectl("create", "quota", "none", "--hard=pods=0")
        await is_told_soon(world, "Rejected", "exceeded quota: none")
        world.namespace.kubectl("delete", "quota", "none")
        gpu = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
        await is_told_soon(world, "Unschedulable", "Insufficient nvidia.com/gpu", **gpu)
        await asyncio.to_thread(rest, world, **gpu)
        operator.stop()  # one that has never seen an engine of the model knows as much
        operator.start()
        await is_told_soon(world, "Unschedulable", "Insufficient nvidia.com/gpu", **gpu)
        image = "127.0.0.1:9/none:1"
        await is_told_soon(world, "ImagePullFailed", f"The image {image} cannot be pulled", image=image)
        await asyncio.to_thread(world.clear)


async def test_a_request_waits_for_room_that_engines_leave_or_lend(world: Plane) -> None:
    engine = {"cpu": {}, **has_room_for_one(world)}
    scaling = {"minReplicas": 0, "maxReplicas": 1}

    def rests() -> bool:
        found = world.namespace.get("deployment", "tiny-chat-engine")
        return bool(found["spec"]["replicas"] == 0)

    def why(name: str) -> str:
        return str(world.namespace.get("modeldeployment", name)["status"]["scaling"]["reason"])

    with world.operator():
        world.namespace.apply(world.model(engine=engine, scaling={**scaling, "idleAfter": "1s"}))
        await asyncio.to_thread(world.wait_ready, timeout_s=300)
        for again in range(TRIES):
            await eventually_in_thread(rests, "no engine", 120)
            assert await asyncio.to_thread(ask, world) == (200, {}), f"request {again + 1}"
            if found_no_node(world) > 0:
                break
        assert found_no_node(world) > 0, "no engine was still ending when the next one was made"

        world.namespace.apply(world.model("other", engine=engine, scaling={**scaling, "idleAfter": "1h"}))
        await asyncio.to_thread(world.wait_ready, "other", timeout_s=300)  # the room of the one that is idle after 1 s
        assert await asyncio.to_thread(ask, world) == (200, {})
        await eventually_in_thread(lambda: why("other") == "Lent", "the word of it", 60)
        await asyncio.to_thread(world.clear)
