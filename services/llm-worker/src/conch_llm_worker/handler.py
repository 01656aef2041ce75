"""The generate endpoint: reads a request, has its choices run, and ends the answer in the one right way."""

import logging
from typing import Protocol

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.messages.message import changed
from conch_contracts.names import Digest
from conch_kit.deadlines import time_limit
from conch_kit.errors import ServiceError
from conch_kit.http.asgi import ClientGone, Receive, Scope, Send
from conch_kit.http.caller_connection import connection
from conch_kit.http.message_body import read_message
from conch_kit.http.request_scope import InFlightRequests, Interruption, overdue, shutting_down
from conch_kit.triton.checked_addresses import NO_RULES, CheckedAddresses
from conch_kit.triton.errors import EngineError, EngineUnavailable
from conch_llm_worker.answer_writer import AnswerWriter, answer_for
from conch_llm_worker.choices import Choices
from conch_llm_worker.engine.api_errors import service_error
from conch_llm_worker.engine.calls import EngineCalls
from conch_llm_worker.engine.refusal_messages import ParameterNames
from conch_llm_worker.metrics import LlmWorkerMetrics
from conch_llm_worker.text.vocabulary import Vocabulary

log = logging.getLogger(__name__)

_END_S = 30.0
"""How long a reader that has fallen behind may take for the last bytes."""


class Vocabularies(Protocol):
    """Where vocabularies come from."""

    async def get(self, digest: Digest) -> Vocabulary:
        """Return the vocabulary of a tokenizer bundle; raise `ServiceError` when it cannot be had."""
        ...


class GenerateHandler:
    """Answers `POST /internal/v1/generate`."""

    def __init__(
        self,
        engines: EngineCalls,
        vocabularies: Vocabularies,
        in_flight: InFlightRequests,
        metrics: LlmWorkerMetrics,
        max_body_bytes: int,
        *,
        addresses: CheckedAddresses = NO_RULES,
    ) -> None:
        self._engines = engines
        self._addresses = addresses
        self._vocabularies = vocabularies
        self._in_flight = in_flight
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; raise `ServiceError` for what fails before the first byte."""
        request = await read_message(receive, GenerateRequest, limit=self._max_body_bytes)
        request = await self._located(request)
        vocabulary = await self._vocabularies.get(request.target.tokenizer_digest)
        answer = answer_for(request, vocabulary, send)
        choices = Choices(request, vocabulary, self._engines, answer)
        async with self._in_flight.scope(connection(scope)) as work:
            error = await _attempt(choices, answer, request)
        if work.interruption is Interruption.SHUTTING_DOWN:
            error = shutting_down()
        usage = choices.usage()
        if work.interruption is Interruption.CLIENT_GONE:
            self._metrics.finished("client_gone", usage)
            return
        self._metrics.finished("ok" if error is None else str(error.status), usage)
        if error is not None and not answer.started:
            raise error
        try:
            with time_limit(_END_S):
                await (answer.finish(usage) if error is None else answer.fail(error, usage))
        except TimeoutError:
            raise ClientGone from None  # the connection is closed in the middle, which the reader cannot mistake

    async def _located(self, request: GenerateRequest) -> GenerateRequest:
        """Return the request with the address at which to dial its engine; raise `ServiceError` where that is none."""
        target = request.target
        try:
            address = await self._addresses.dialled(target.grpc, target.named_in)
        except EngineUnavailable as failure:
            log.warning("An engine is not dialled.", extra={"engine": target.grpc, "error": failure.message})
            raise service_error(failure, begun=False, names=_names(request)) from failure
        if address == target.grpc:
            return request
        return changed(request, target=changed(target, grpc=address))


async def _attempt(choices: Choices, answer: AnswerWriter, request: GenerateRequest) -> ServiceError | None:
    """Run the choices and return what went wrong, in the API's words; the engine's own words go to the log."""
    try:
        with time_limit(request.timeout_s):
            await choices.run()
    except TimeoutError:
        return overdue()
    except ServiceError as error:
        return error
    except EngineError as failure:
        place = {"engine": request.target.grpc, "engine_model": request.target.model}
        log.warning("An engine call failed.", extra={**place, "error": repr(failure), "begun": answer.started})
        return service_error(failure, begun=answer.started, names=_names(request))
    return None


def _names(request: GenerateRequest) -> ParameterNames:
    return ParameterNames(request.api.prompt_param, request.grammar_param)
