"""KEDA's part on a real cluster: it hears of a request that is held, and scales the model from zero."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.keda import Keda
from testkit.kubernetes.operator_process import Plane, plane
from testkit.processes.conch_up import free_port, wait_until


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, tmp_path) as found:
        yield found


def scale(world: Plane, replicas: int) -> None:
    """Do what KEDA does to the scale subresource."""
    world.namespace.kubectl("scale", "modeldeployment/tiny-chat", f"--replicas={replicas}")


def ask(world: Plane) -> str:
    """Return the text of a stream."""
    body = {"model": "tiny-chat", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "stream": True}
    headers = {"Content-Type": "application/json"}
    request = Request(f"{world.gateway}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=300) as answer:
        return str(answer.read().decode())


async def test_a_request_for_a_model_at_zero_is_held_until_keda_has_heard_and_scaled_it(world: Plane) -> None:
    ports = free_port(), free_port()
    settings = [{"external_scaler_host": "127.0.0.1", "external_scaler_port": port} for port in ports]
    with world.operator("operator-1", **settings[0]), world.operator("operator-2", **settings[1]):
        world.namespace.apply(world.model(routing={"hold": 9}))
        await asyncio.to_thread(world.wait_ready, timeout_s=300)
        await asyncio.to_thread(scale, world, 0)
        at_zero = lambda: world.condition().get("reason") == "ScaledToZero"  # noqa: E731
        await asyncio.to_thread(wait_until, at_zero, "the word of it", 120, 0.5)
        async with (
            Keda(ports[0], world.namespace.name) as one,
            Keda(ports[1], world.namespace.name) as other,
            one.activity("tiny-chat") as first,
            other.activity("tiny-chat") as second,
        ):
            assert (await first(), await second()) == (False, False)
            asked = asyncio.create_task(asyncio.to_thread(ask, world))
            assert (await first(), await second()) == (True, True)
            assert (await one.metric("tiny-chat"))[1] == 1
            await asyncio.to_thread(scale, world, 1)
            text = await asked
            assert "data: [DONE]" in text
            assert (await first(), await second()) == (False, False)
        await asyncio.to_thread(world.clear)  # while an operator lets the engine go
