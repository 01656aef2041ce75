"""How many slots of an engine the rows of one request take: the handler's count, through the application."""

import asyncio

import pytest

from conch_contracts.messages.encoding import PrepareRowsRequest
from conch_contracts.messages.message import from_json
from conch_contracts.names import ENCODE_PATH, PREPARE_ROWS_PATH
from conch_contracts.records import Dialect, Engine, ModelKind, RoutingPolicy
from testkit.gateway.fakes import ENGINE, FakeAnswer, gateway, route, rows, snapshot

VECTORS = b'{"data":[{"object":"embedding","index":0,"embedding":[1.0,0.0]}]}'


@pytest.mark.parametrize(("count", "another"), [(32, 200), (33, 429), (64, 429)])
async def test_each_32_rows_take_a_slot(count: int, another: int) -> None:
    computed = asyncio.Event()
    model = route(kind=ModelKind.EMBEDDING, dialect=Dialect.ENCODER, routing=RoutingPolicy(queue_max=0))
    answers = iter(((computed, VECTORS), (VECTORS,)))
    scripts = {
        PREPARE_ROWS_PATH: lambda post: rows(*[3] * len(from_json(PrepareRowsRequest, post.body).texts))(post),
        ENCODE_PATH: lambda _: FakeAnswer(pieces=next(answers)),
    }
    served = gateway(scripts, known=snapshot(model, engines=(Engine(grpc=ENGINE, slots=2),)))
    first = asyncio.create_task(served.client.post("/v1/embeddings", {"input": ["a"] * count}))
    await served.upstream.asked(ENCODE_PATH).wait()
    assert (await served.client.post("/v1/embeddings", {"input": "a"})).status == another
    computed.set()
    assert (await first).status == 200
