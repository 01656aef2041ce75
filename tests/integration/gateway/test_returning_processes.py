"""The only process of a service ends and another one starts: requests wait for it, on a real gateway and Redis."""

import asyncio
import json
from pathlib import Path

import pytest

from conch_contracts.names import GENERATE_PATH, PREPARE_PATH, ModelId, ServedName
from conch_contracts.records import Pool, RoutingPolicy
from testkit.gateway.fakes import route
from testkit.gateway.process import Process, answers, gateway_process
from testkit.servers.scripted_http import Call

PATH = "/v1/chat/completions"
LIMIT_S = 120.0
HASTY = route(
    model_id=ModelId("local/hasty"),
    served_names=(ServedName("hasty"),),
    routing=RoutingPolicy(queue_wait_s=0.001),
)


def chat(model: str) -> bytes:
    """Return a request to a model."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]}).encode()


async def in_work(gateway: Process) -> int:
    """Return how many requests the gateway works on."""
    _, _, body = await gateway.post("/load", b"", method="GET")
    count: int = json.loads(body)["server_load"]
    return count


async def until_gone(gateway: Process, name: str) -> None:
    """Wait until the gateway knows that there is no such process."""
    while (answer := await gateway.post(PATH, chat("hasty")))[0] == 200:
        pass
    assert json.loads(answer[2])["error"]["message"] == f"No {name} is running."


@pytest.mark.parametrize(("pool", "name"), [(Pool.TOKENIZER, "tokenizer"), (Pool.LLM, "worker")])
async def test_requests_wait_for_the_only_process_of_a_pool_to_come_back(tmp_path: Path, pool: Pool, name: str) -> None:
    async with asyncio.timeout(LIMIT_S), gateway_process(tmp_path, route(), HASTY) as gateway:
        beat = gateway.beats[pool]
        await beat.__aexit__(None, None, None)
        await until_gone(gateway, name)
        waiting = [asyncio.create_task(gateway.post(PATH, chat("tiny-chat"))) for _ in range(3)]
        while await in_work(gateway) < len(waiting):
            assert not any(request.done() for request in waiting)
        await beat.__aenter__()
        assert [(await request)[0] for request in waiting] == [200] * len(waiting)


@pytest.mark.parametrize(
    ("pool", "name", "path"), [(Pool.TOKENIZER, "tokenizer", PREPARE_PATH), (Pool.LLM, "worker", GENERATE_PATH)]
)
async def test_a_request_waits_on_when_the_last_process_answers_another_before_it_ends(
    tmp_path: Path, pool: Pool, name: str, path: str
) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def slow_at_first(call: Call) -> None:
        if call.path == path and not asked.is_set():
            asked.set()
            await ended.wait()
        await answers(call)

    async with asyncio.timeout(LIMIT_S), gateway_process(tmp_path, route(), HASTY) as gateway:
        gateway.backend.script = slow_at_first
        last = asyncio.create_task(gateway.post(PATH, chat("tiny-chat")))
        await asked.wait()
        beat = gateway.beats[pool]
        await beat.__aexit__(None, None, None)
        await until_gone(gateway, name)
        waiting = asyncio.create_task(gateway.post(PATH, chat("tiny-chat")))
        while await in_work(gateway) < 2:
            assert not waiting.done()
        await until_gone(gateway, name)  # by then it has come as far as this one, which came later
        ended.set()
        assert (await last)[0] == 200
        await until_gone(gateway, name)
        assert not waiting.done()
        await beat.__aenter__()
        assert (await waiting)[0] == 200
