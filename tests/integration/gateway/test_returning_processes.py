"""The only process of a service ends and another one starts: requests wait for it, on a real gateway and Redis."""

import asyncio
import json
from pathlib import Path

import pytest

from conch_contracts.names import ModelId, ServedName
from conch_contracts.records import Pool, RoutingPolicy
from testkit.gateway.fakes import route
from testkit.gateway.process import Process, gateway_process

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


@pytest.mark.parametrize(("pool", "name"), [(Pool.TOKENIZER, "tokenizer"), (Pool.LLM, "worker")])
async def test_requests_wait_for_the_only_process_of_a_pool_to_come_back(tmp_path: Path, pool: Pool, name: str) -> None:
    async with asyncio.timeout(LIMIT_S), gateway_process(tmp_path, route(), HASTY) as gateway:
        beat = gateway.beats[pool]
        await beat.__aexit__(None, None, None)
        while (answer := await gateway.post(PATH, chat("hasty")))[0] == 200:
            pass
        assert json.loads(answer[2])["error"]["message"] == f"No {name} is running."
        waiting = [asyncio.create_task(gateway.post(PATH, chat("tiny-chat"))) for _ in range(3)]
        while await in_work(gateway) < len(waiting):
            assert not any(request.done() for request in waiting)
        await beat.__aenter__()
        assert [(await request)[0] for request in waiting] == [200] * len(waiting)
