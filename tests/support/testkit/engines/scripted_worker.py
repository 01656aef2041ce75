"""The llm-worker's endpoint in this process, on a scripted engine."""

import json
from typing import Any

from prometheus_client import CollectorRegistry

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.messages.message import to_json
from conch_contracts.names import Digest
from conch_kit.http.request_scope import InFlightRequests
from conch_kit.tracing import Tracer, tracer
from conch_kit.triton.checked_addresses import NO_RULES, CheckedAddresses
from conch_llm_worker.engine.calls import EngineCalls
from conch_llm_worker.handler import GenerateHandler
from conch_llm_worker.metrics import LlmWorkerMetrics
from conch_llm_worker.text.vocabulary import Vocabulary
from testkit.builders.generate_requests import generate_request, sampling
from testkit.engines.engine_messages import tokens_response
from testkit.engines.scripted_triton import Caller, Event, ScriptedTriton
from testkit.models.vocabularies import BYTE_EOS, byte_level

EOS = {"eos_token_ids": (BYTE_EOS,)}
SOON_S = 0.1
HELLO = [tokens_response(b"he"), tokens_response(b"llo"), tokens_response([BYTE_EOS], "stop", BYTE_EOS)]


class _OneVocabulary:
    """Has one vocabulary for every model."""

    async def get(self, digest: Digest) -> Vocabulary:
        return byte_level()


class Worker:
    """A handler on a scripted engine."""

    def __init__(
        self, *scripts: list[Event], spans: Tracer | None = None, addresses: CheckedAddresses = NO_RULES
    ) -> None:
        self.triton = ScriptedTriton(*scripts)
        self.in_flight = InFlightRequests()
        self.registry = CollectorRegistry()
        engines = EngineCalls(self.triton, lambda: 42, spans or tracer("test", None))
        self._handler = GenerateHandler(
            engines,
            _OneVocabulary(),
            self.in_flight,
            LlmWorkerMetrics.register(self.registry),
            max_body_bytes=1_000_000,
            addresses=addresses,
        )

    async def call(self, request: GenerateRequest | bytes) -> Caller:
        caller = Caller(request if isinstance(request, bytes) else to_json(request))
        await self.serve(caller)
        return caller

    async def serve(self, caller: Caller) -> None:
        await self._handler(caller.scope, caller.receive, caller.send)  # type: ignore[arg-type]

    def rest_within_s(self) -> float:
        """Return how long the only engine call may go on, now that its answer has ended."""
        (stream,) = self.triton.streams
        assert stream.rest_within_s is not None
        return stream.rest_within_s

    def outcomes(self, outcome: str) -> float:
        return self.registry.get_sample_value("conch_llm_worker_requests_total", {"outcome": outcome}) or 0.0


def ask(**changes: Any) -> GenerateRequest:
    return generate_request(**{"sampling": sampling(**EOS), "stream": True} | changes)


def frames(caller: Caller) -> list[str]:
    return caller.body.decode().split("\n\n")[:-1]


def payloads(caller: Caller) -> list[Any]:
    return [json.loads(frame[6:]) for frame in frames(caller) if frame.startswith("data: {")]


def contents(caller: Caller, index: int = 0) -> str:
    choices = [choice for payload in payloads(caller) for choice in payload["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content", "") for choice in choices)
