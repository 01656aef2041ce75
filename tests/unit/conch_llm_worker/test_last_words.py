"""How long the handler waits for a caller to read the end of an answer."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from conch_contracts.messages.message import to_json
from conch_contracts.names import Digest
from conch_kit.http.asgi import ClientGone
from conch_kit.http.request_scope import InFlightRequests
from conch_kit.tracing import tracer
from conch_llm_worker.engine.calls import EngineCalls
from conch_llm_worker.handler import GenerateHandler
from conch_llm_worker.metrics import LlmWorkerMetrics
from conch_llm_worker.text.vocabulary import Vocabulary
from testkit.builders.generate_requests import generate_request, sampling
from testkit.engines.engine_messages import tokens_response
from testkit.engines.scripted_triton import Caller, ScriptedTriton
from testkit.models.vocabularies import BYTE_EOS, byte_level


class OneVocabulary:
    async def get(self, digest: Digest) -> Vocabulary:
        return byte_level()


class HalfReading(Caller):
    """Reads all but the end."""

    async def send(self, message: dict[str, object]) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            await asyncio.Event().wait()
        await super().send(message)


async def test_a_caller_that_does_not_read_the_end_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch_llm_worker.handler._END_S", 0.01)
    triton = ScriptedTriton([tokens_response(b"hello"), tokens_response([BYTE_EOS], "stop", BYTE_EOS)])
    engines = EngineCalls(triton, lambda: 42, tracer("test", None))
    metrics = LlmWorkerMetrics.register(CollectorRegistry())
    handler = GenerateHandler(engines, OneVocabulary(), InFlightRequests(), metrics, max_body_bytes=1_000_000)
    request = generate_request(stream=True, sampling=sampling(eos_token_ids=(BYTE_EOS,)))
    caller = HalfReading(to_json(request))
    with pytest.raises(ClientGone):
        await handler(caller.scope, caller.receive, caller.send)  # type: ignore[arg-type]
    assert b"hello" in caller.body
