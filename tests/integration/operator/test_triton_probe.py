"""The one-token request of the readiness probe, on every form that models of other people's backends have."""

from collections.abc import Iterator

import pytest

from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.triton.client import TritonClient
from conch_kit.triton.http_client import TritonHttp
from conch_operator.probe.prober import NoAnswer, Target
from conch_operator.probe.triton_request import TritonProbeClient
from testkit.engines.dialect_stand_ins import ALL, StandIn, dialects_server
from testkit.servers.triton import RunningTriton


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    folder = tmp_path_factory.mktemp("probe")
    with dialects_server(folder, folder / "events") as server:
        yield server


async def ask(triton: RunningTriton, model: str, dialect: Dialect) -> None:
    async with TritonClient() as client, TritonHttp() as http:
        await TritonProbeClient(client, http).probe(Target(EngineAddress(triton.grpc), model, dialect))


@pytest.mark.parametrize("model", ALL, ids=lambda one: one.name)
async def test_a_model_that_answers_is_ready(triton: RunningTriton, model: StandIn) -> None:
    await ask(triton, model.name, model.dialect)


async def test_a_model_of_another_dialect_is_told_by_what_it_lacks(triton: RunningTriton) -> None:
    with pytest.raises(NoAnswer, match="needs the input input_ids, which the vllm dialect does not know"):
        await ask(triton, "tensorrtllm", Dialect.VLLM)
