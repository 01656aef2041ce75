"""One real tritonserver with tiny-chat, once at full speed and once at a known slow one."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from conch_contracts.names import EngineAddress
from conch_kit.triton.client import TritonClient
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository
from testkit.engines.tokens_client import TokensEngine
from testkit.models.golden import FOLDER, Golden, load_golden
from testkit.servers.triton import RunningTriton, triton_server, write_repository

PACED_TOKENS_PER_SECOND = 25


@pytest.fixture(scope="session")
def golden() -> Golden:
    return load_golden()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    folder = tmp_path_factory.mktemp("runtime_cpu")
    for name, pace in (("tiny", 0), ("paced", PACED_TOKENS_PER_SECOND)):
        model = CpuModel(name, str(FOLDER), str(folder / "cache"), max_batch_size=16, tokens_per_second=pace)
        write_repository(render_cpu_repository(model), folder / "models")
    with triton_server(folder / "models", "tiny", "paced", folder=folder) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def client() -> AsyncIterator[TritonClient]:
    """Give a client of the test's own: while its loop rests, it answers no ping, and a server ends such connections."""
    async with TritonClient() as opened:
        yield opened


@pytest.fixture
def tiny(server: RunningTriton, client: TritonClient) -> TokensEngine:
    return TokensEngine(client, EngineAddress(server.grpc), "tiny")


@pytest.fixture
def paced(server: RunningTriton, client: TritonClient) -> TokensEngine:
    return TokensEngine(client, EngineAddress(server.grpc), "paced")
