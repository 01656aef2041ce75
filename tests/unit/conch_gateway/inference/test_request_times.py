"""How long a request may take in all: the worker keeps the time that is left of it, and the gateway comes in later."""

import asyncio

import orjson
import pytest

from conch_contracts.names import ENCODE_PATH, GENERATE_PATH, TRANSCRIBE_PATH
from conch_contracts.records import ModelKind, RoutingPolicy
from testkit.gateway import encoders, speech
from testkit.gateway.fakes import FakeAnswer, Gateway, answered, gateway, route, snapshot
from testkit.http.forms import HEADERS, form

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
VECTORS = b'{"data":[{"object":"embedding","index":0,"embedding":[1.0]}]}'
USUAL_S = RoutingPolicy().timeout_s


@pytest.mark.parametrize(
    ("served", "path", "body", "worker"),
    [
        (gateway({GENERATE_PATH: answered(b"{}")}), "/v1/chat/completions", CHAT, GENERATE_PATH),
        (encoders.serving(ModelKind.EMBEDDING, answered(VECTORS)), "/v1/embeddings", {"input": "hi"}, ENCODE_PATH),
        (speech.serving(answered(b"{}", speech.USAGE)), speech.TRANSCRIPTIONS, form(), TRANSCRIBE_PATH),
    ],
    ids=["a chat", "vectors", "a transcript"],
)
async def test_a_worker_is_given_what_is_left_of_the_requests_time(
    served: Gateway, path: str, body: object, worker: str
) -> None:
    assert (await served.client.post(path, body, HEADERS if isinstance(body, bytes) else ())).status == 200
    (sent,) = [post.body for post in served.upstream.posts if post.path == worker]
    message = orjson.loads(sent) if worker != TRANSCRIBE_PATH else {"timeout_s": speech.asked(sent).timeout_s}
    assert 0 < message["timeout_s"] < USUAL_S  # some has passed since the request came


async def test_a_worker_that_keeps_the_time_itself_has_a_moment_to_say_so() -> None:
    over = asyncio.Event()
    known = snapshot(route(routing=RoutingPolicy(timeout_s=0.05)))
    served = gateway({GENERATE_PATH: lambda _: FakeAnswer(pieces=(over, b"{}"))}, known=known, worker_grace_s=600)
    asyncio.get_running_loop().call_later(0.4, over.set)
    assert (await asyncio.wait_for(served.client.post("/v1/chat/completions", CHAT), 60)).status == 200
