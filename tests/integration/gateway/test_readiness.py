"""When a gateway process says that requests may come, to clients and to Kubernetes."""

import asyncio
import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from conch_contracts.records import Pool
from testkit.gateway.process import Process, gateway_process

LIMIT_S = 120.0


async def asked(gateway: Process) -> tuple[int, str]:
    """Return what it answers clients; Kubernetes must hear the same."""
    status, _, body = await gateway.post("/health/ready", b"", method="GET")
    said: str = json.loads(body)["status"]
    if await asyncio.to_thread(_of_kubernetes, gateway) == status:
        return status, said
    return await asked(gateway)  # it changed in between


def _of_kubernetes(gateway: Process) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{gateway.admin_port}/readyz") as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


async def said_in_the_end(gateway: Process, waits_for: str) -> tuple[int, str]:
    """Return what it says when it does not wait for this any more."""
    while waits_for in (found := await asked(gateway))[1]:
        pass
    return found


async def test_a_process_is_ready_when_it_has_known_a_tokenizer_and_a_worker_for_its_models(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), gateway_process(tmp_path, pools=(), ready=False) as gateway:
        status, said = await said_in_the_end(gateway, "registry")
        assert (status, "llm" in said, "tokenizer" in said) == (503, True, True)
        models = json.loads((await gateway.post("/v1/models", b"", method="GET"))[2])
        assert models["data"] == []
        async with gateway.beats[Pool.TOKENIZER]:
            status, said = await said_in_the_end(gateway, "tokenizer")
            assert (status, "llm" in said) == (503, True)
            async with gateway.beats[Pool.LLM]:
                assert await said_in_the_end(gateway, "llm") == (200, "ok")
        assert await asked(gateway) == (200, "ok"), "Who has once been known is believed to come back."
