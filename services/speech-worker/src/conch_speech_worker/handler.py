"""The transcribe endpoint: takes a file, has it decoded and heard, and ends the answer in the one right way."""

import logging
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from conch_contracts.messages.message import changed
from conch_contracts.messages.transcription import SpeechTarget, TranscribeRequest
from conch_contracts.names import Digest
from conch_kit.deadlines import time_limit
from conch_kit.errors import ServiceError
from conch_kit.http.asgi import ClientGone, Receive, Scope, Send
from conch_kit.http.caller_connection import connection
from conch_kit.http.request_scope import InFlightRequests, Interruption, overdue, shutting_down
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import EngineError, EngineUnavailable
from conch_speech_worker.audio.child_messages import DecodingLimits
from conch_speech_worker.audio.child_pool import DecodingChildren
from conch_speech_worker.engine.api_errors import service_error
from conch_speech_worker.engine.calls import WindowCalls, calls_for
from conch_speech_worker.engine.file_engine import FileEngine, HeldEngine
from conch_speech_worker.engine.ready_engines import ReadyEngines
from conch_speech_worker.hearing import FileHearing
from conch_speech_worker.intake import IntakeLimits, TakenRequest, taken
from conch_speech_worker.metrics import SpeechWorkerMetrics
from conch_speech_worker.signs_of_life import SignsOfLife
from conch_speech_worker.transcript_writer import TranscriptWriter, answer_for
from conch_speech_worker.vocabulary import TranscriptVocabulary

log = logging.getLogger(__name__)

_END_S = 30.0
"""How long a reader that has fallen behind may take for the last bytes."""


class SpeechVocabularies(Protocol):
    """Where vocabularies come from."""

    async def get(self, digest: Digest) -> TranscriptVocabulary:
        """Return the vocabulary of a tokenizer bundle; raise `ServiceError` when it cannot be had."""
        ...


@dataclass(frozen=True, slots=True)
class ChildBounds:
    """What decoding one file may take."""

    memory_bytes: int
    cpu_s: int
    silence_s: float


class TranscribeHandler:
    """Answers `POST /internal/v1/transcribe`."""

    def __init__(
        self,
        triton: TritonClient,
        vocabularies: SpeechVocabularies,
        children: DecodingChildren,
        in_flight: InFlightRequests,
        metrics: SpeechWorkerMetrics,
        *,
        intake: IntakeLimits,
        bounds: ChildBounds,
        engines: ReadyEngines,
    ) -> None:
        self._triton = triton
        self._vocabularies = vocabularies
        self._children = children
        self._in_flight = in_flight
        self._metrics = metrics
        self._intake = intake
        self._bounds = bounds
        self._engines = engines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; raise `ServiceError` for what fails before the first byte."""
        async with taken(receive, self._intake) as given:
            request = given.request
            vocabulary = await self._vocabularies.get(request.target.tokenizer_digest)
            answer = answer_for(request, vocabulary, send)
            seen = SignsOfLife()
            engine = await self._engine_of(request, vocabulary, seen)
            hearing = FileHearing(request, vocabulary, engine.hear)
            error = None  # what interrupts the work ends it before it can tell of one
            async with self._in_flight.scope(connection(scope)) as work:
                error = await self._attempt(hearing, engine, answer, given, seen)
        await self._end(hearing, answer, error, work.interruption)

    async def _engine_of(
        self, request: TranscribeRequest, vocabulary: TranscriptVocabulary, seen: SignsOfLife
    ) -> FileEngine:
        """Return what hears a request's file; raise `ServiceError` where its engine may not be dialled."""

        async def calls_of(target: SpeechTarget) -> WindowCalls:
            dialled = changed(request, target=await self._engines.dialled(target))
            return calls_for(self._triton, dialled, vocabulary, seen.note)

        try:
            first = HeldEngine(request.target, await calls_of(request.target))
        except EngineUnavailable as failure:
            log.warning("An engine is not dialled.", extra={"engine": request.target.grpc, "error": failure.message})
            raise service_error(failure, begun=False) from failure
        return FileEngine(
            first, calls_of, self._engines, timeout_s=request.timeout_s, patience_s=request.inter_token_timeout_s
        )

    async def _attempt(
        self,
        hearing: FileHearing,
        engine: FileEngine,
        answer: TranscriptWriter,
        given: TakenRequest,
        seen: SignsOfLife,
    ) -> ServiceError | None:
        """Hear the file and return what went wrong, in the API's words; the engine's own words go to the log."""
        request = given.request
        limits = DecodingLimits(
            max_audio_s=request.max_audio_s,
            memory_bytes=self._bounds.memory_bytes,
            cpu_s=self._bounds.cpu_s,
            silence_s=self._bounds.silence_s,
        )
        try:
            with time_limit(request.timeout_s):
                async with (
                    self._children.decoding(given.file.fileno(), limits) as sound,
                    seen.telling(answer),
                    aclosing(hearing.segments(sound)) as parts,
                ):
                    async for segments in parts:
                        await answer.add(segments, hearing.counts.usage())
        except TimeoutError:
            return overdue()
        except ServiceError as error:
            return error
        except EngineError as failure:
            place = {"engine": engine.target.grpc, "engine_model": engine.target.model}
            log.warning("An engine call failed.", extra={**place, "error": repr(failure), "begun": answer.started})
            return service_error(failure, begun=answer.started)
        return None

    async def _end(
        self,
        hearing: FileHearing,
        answer: TranscriptWriter,
        error: ServiceError | None,
        interruption: Interruption | None,
    ) -> None:
        if interruption is Interruption.SHUTTING_DOWN:
            error = shutting_down()
        usage = hearing.counts.usage()
        self._metrics.windows.inc(hearing.counts.windows)
        if interruption is Interruption.CLIENT_GONE:
            self._metrics.finished("client_gone", usage)
            return
        self._metrics.finished("ok" if error is None else str(error.status), usage)
        if error is not None and not answer.started:
            raise error
        try:
            with time_limit(_END_S):
                await (answer.finish(hearing.language, usage) if error is None else answer.fail(error, usage))
        except TimeoutError:
            raise ClientGone from None  # the connection is closed in the middle, which the reader cannot mistake
