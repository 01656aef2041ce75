"""The API server away for a minute: who serves goes on serving, and nothing is pruned."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from openai import APIError, AsyncOpenAI

from cluster.local.layout import Layout
from cluster.local.machine import Machine
from cluster.shell import Shell
from testkit.kubernetes.cluster import Cluster, Images, definition, fresh_namespace
from testkit.kubernetes.operator_process import Plane, plane
from testkit.waiting import eventually

AWAY_S = 60


@pytest.fixture
def world(cluster: Cluster, images: Images, tmp_path: Path) -> Iterator[Plane]:
    with definition(cluster), fresh_namespace(cluster) as namespace, plane(namespace, images, tmp_path) as found:
        yield found


@contextmanager
def api_server_away(cluster: Cluster) -> Iterator[None]:
    """Stop the API server's process during the body; only that of a cluster on this machine can be."""
    pid = Machine(Layout(cluster.kubeconfig.parent), Shell({}, {})).alive("kube-apiserver")
    if not pid:
        pytest.skip("The cluster does not run as processes of this machine, so its API server cannot be stopped.")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_a_minute_without_the_api_server_changes_nothing(world: Plane) -> None:
    with world.operator() as operator:
        world.namespace.apply(world.model())
        await asyncio.to_thread(world.wait_ready)
        engines = world.engines()
        assert engines
        async with AsyncOpenAI(base_url=f"{world.gateway}/v1", api_key="none", max_retries=0) as client:
            with api_server_away(world.namespace.cluster):
                began, answers = time.monotonic(), 0
                while time.monotonic() - began < AWAY_S:
                    await _ask(client)
                    answers += 1
                    assert world.engines() == engines
                    assert operator.is_live()
            assert answers > AWAY_S / 5
            await eventually(lambda: _has_answered(world), "the API server to answer", timeout_s=180)
            await _ask(client)
        assert world.engines() == engines
        world.namespace.apply(world.model("another", servedNames=["tiny-chat"]))
        await eventually(
            lambda: world.condition("another").get("reason") == "NameConflict", "work to go on", timeout_s=180
        )
        assert world.engines() == engines
        assert operator.is_running()
        await asyncio.to_thread(world.clear)


async def _ask(client: AsyncOpenAI) -> None:
    try:
        answer = await client.chat.completions.create(
            model="tiny-chat", messages=[{"role": "user", "content": "Hello"}], max_tokens=8, temperature=0
        )
    except APIError as error:
        raise AssertionError(f"A request failed: {error}") from error
    assert answer.choices[0].message.content


def _has_answered(world: Plane) -> bool:
    return world.namespace.cluster.try_kubectl("get", "--raw", "/readyz", "--request-timeout=5s").returncode == 0
