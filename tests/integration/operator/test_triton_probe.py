"""The one-token request of the readiness probe, on every form that models of other people's backends have."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.addresses.rules import AddressRules
from conch_kit.triton.checked_addresses import CheckedAddresses
from conch_kit.triton.client import TritonClient
from conch_kit.triton.http_client import TritonHttp
from conch_operator.probe.prober import NoAnswer, Target
from conch_operator.probe.triton_request import TritonProbeClient
from testkit.engines.dialect_stand_ins import ALL, StandIn, dialects_server
from testkit.servers.scripted_http import Call, ScriptedHttp
from testkit.servers.triton import RunningTriton


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    folder = tmp_path_factory.mktemp("probe")
    with dialects_server(folder, folder / "events") as server:
        yield server


GUARDED = CheckedAddresses(AddressRules(allowed=("127.0.0.0/8",), refused=("127.0.0.2/32",)))


async def ask(triton: RunningTriton, model: str, dialect: Dialect) -> None:
    async with TritonClient() as client, TritonHttp() as http:
        await TritonProbeClient(client, http).probe(Target(EngineAddress(triton.grpc), model, dialect))


@pytest.mark.parametrize("model", ALL, ids=lambda one: one.name)
async def test_a_model_that_answers_is_ready(triton: RunningTriton, model: StandIn) -> None:
    await ask(triton, model.name, model.dialect)


async def test_a_model_of_another_dialect_is_told_by_what_it_lacks(triton: RunningTriton) -> None:
    with pytest.raises(NoAnswer, match="needs the input input_ids, which the vllm dialect does not know"):
        await ask(triton, "tensorrtllm", Dialect.VLLM)


async def ask_for_an_author(address: str, dialect: Dialect = Dialect.VLLM, model: str = "vllm") -> None:
    target = Target(EngineAddress(address), model, dialect, named_in="team")
    async with TritonClient() as client, TritonHttp() as http:
        await TritonProbeClient(client, http, 2.0, addresses=GUARDED).probe(target)


async def test_an_engine_that_an_author_names_is_dialled_where_it_was_checked(triton: RunningTriton) -> None:
    await ask_for_an_author(f"localhost:{triton.grpc.rpartition(':')[2]}")


async def test_its_author_learns_why_a_server_of_models_refuses(triton: RunningTriton) -> None:
    with pytest.raises(NoAnswer, match="holds no model called nope"):
        await ask_for_an_author(triton.grpc, model="nope")


@asynccontextmanager
async def silent_port() -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("over_http", [False, True])
async def test_an_author_learns_nothing_about_a_port_that_is_no_engines(*, over_http: bool) -> None:
    async def web(call: Call) -> None:
        await call.answer(b'{"error": "secret words"}', status=418, headers={"connection": "close"})
        await call.closed()

    scheme, dialect = ("http://", Dialect.ENCODER) if over_http else ("", Dialect.TOKENS)
    async with ScriptedHttp(web) as server, silent_port() as silent:
        ports = {"refused": ("127.0.0.2", 1), "closed": ("127.0.0.1", 1), "silent": ("127.0.0.1", silent)}
        ports |= {
            "web": ("127.0.0.1", int(server.url.rpartition(":")[2])),
            "metadata": ("169.254.169.254", 80),
        }
        said = {}
        for name, (host, port) in ports.items():
            with pytest.raises(NoAnswer) as told:
                await asyncio.wait_for(ask_for_an_author(f"{scheme}{host}:{port}", dialect), 30)
            said[name] = (told.value.reason, str(told.value).replace(f"{host}:{port}", "ADDRESS"))
            assert told.value.detail
    assert len(set(said.values())) == 1, said
