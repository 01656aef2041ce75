"""A model's process that is killed inside a server: whoever waits for its answer hears of it at once."""

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import EngineLost
from conch_kit.triton.stream import EngineStream
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository
from testkit.engines.speech_client import speech_request
from testkit.engines.tokens_client import tokens_request
from testkit.models import golden, speech_golden
from testkit.models.speech_golden import SpeechGolden
from testkit.servers.triton import RunningTriton, triton_server, write_repository

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOTICED_S = 1.0
TRIES = 3
"""A machine that stops for a moment is late; one try in time is the proof."""


@pytest.fixture(params=[Dialect.TOKENS, Dialect.SPEECH])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return Dialect(request.param)


@pytest.fixture
def repository(dialect: Dialect, tmp_path: Path) -> Path:
    where = golden.FOLDER if dialect is Dialect.TOKENS else speech_golden.FOLDER
    model = CpuModel("slow", str(where), str(tmp_path / "cache"), tokens_per_second=1, dialect=dialect)
    return write_repository(render_cpu_repository(model), tmp_path / "models")


async def test_a_killed_model_breaks_its_streams_within_a_second(
    dialect: Dialect, repository: Path, tmp_path: Path, client: TritonClient, spoken: SpeechGolden
) -> None:
    passed = []
    for _ in range(TRIES):
        with triton_server(repository, "slow", folder=tmp_path) as server:
            passed.append(await killed(dialect, server, client, spoken))
        if passed[-1] <= NOTICED_S:
            return
    raise AssertionError(f"noticed after {passed} s")


async def killed(dialect: Dialect, server: RunningTriton, client: TritonClient, spoken: SpeechGolden) -> float:
    """Kill the model's process under a stream that has begun; return how long the stream takes to break."""
    item = spoken.items[0]
    request = (
        tokens_request("slow", [1, 2, 3], max_tokens=60)
        if dialect is Dialect.TOKENS
        else speech_request("slow", item.pcm, item.forced_prompt)
    )
    address = EngineAddress(server.grpc)
    stream = client.stream(address, request, first_timeout_s=60, inter_timeout_s=60, timeout_s=60)
    async with aclosing(stream):
        await anext(stream)
        (stub,) = (each for each in psutil.Process(server.pid).children() if "stub" in each.name())
        stub.kill()
        killed_at = time.monotonic()
        with pytest.raises(EngineLost):
            await asyncio.wait_for(read_out(stream), 30)
        return time.monotonic() - killed_at


async def read_out(stream: EngineStream) -> None:
    async for _ in stream:
        pass
