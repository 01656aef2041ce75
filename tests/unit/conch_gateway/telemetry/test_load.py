"""How much a gateway says that it has to do."""

import asyncio
from typing import Any

import orjson

from conch_contracts.names import GENERATE_PATH
from testkit.gateway.fakes import gateway, streamed

PATH = "/v1/chat/completions"
STREAM = {"messages": [{"role": "user", "content": "hi"}], "stream": True}


async def test_the_load_counts_requests_until_they_end_in_whatever_way() -> None:
    served = gateway({GENERATE_PATH: streamed(b'data: {"choices":[]}\n\n', asyncio.Event())})

    async def load() -> Any:
        return orjson.loads((await served.client.get("/load")).body)

    assert await load() == {"server_load": 0}
    task = asyncio.create_task(served.client.post(PATH, STREAM))
    await asyncio.wait_for(served.upstream.asked(GENERATE_PATH).wait(), 60)
    assert await load() == {"server_load": 1}
    assert (await served.client.post(PATH, {})).status == 400
    assert await load() == {"server_load": 1}
    served.client.hang_up()
    await asyncio.wait_for(task, 60)
    assert await load() == {"server_load": 0}
