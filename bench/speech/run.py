"""Sets a model of speech up, measures the paths to it in turns, and takes it down; then measures each stage alone."""

from dataclasses import dataclass
from pathlib import Path

import psutil
from redis.asyncio import Redis

from bench.chain.stack import REDIS, SPEECH_WORKER, Stack, conch_up
from bench.options import Effort
from bench.processes import CannotMeasure
from bench.report import Section
from bench.speech import rows, stages
from bench.speech.measure import measure
from bench.speech.sounds import MODEL
from bench.speech.speech_clients import DirectSpeech, GatewaySpeech, WorkerSpeech
from conch_contracts.messages.transcription import SpeechTarget, SpeechTask, TranscribeRequest
from conch_contracts.names import ROUTES_KEY, EngineAddress, workers_key
from conch_contracts.openai.audio import TranscriptionRequest
from conch_contracts.records import Heartbeat, Pool, Route
from conch_gateway.speech.job import parameters
from conch_speech_worker.vocabulary import TranscriptVocabulary

_DEPLOYMENT = f"""\
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: tiny-whisper}}
spec:
  kind: Transcription
  source: {{path: {MODEL}}}
  engine:
    cpu: {{maxBatchSize: 8}}
"""


async def sections(folder: Path, effort: Effort) -> tuple[Section, ...]:
    """Measure a window of 30 s, a file of ten minutes, and the stages."""
    async with conch_up(folder, MODEL, _DEPLOYMENT) as stack:
        found = await _registered(stack)
        request = _request(stack, found.route)
        vocabulary = TranscriptVocabulary.from_json((MODEL / "tokenizer.json").read_bytes())
        async with (
            DirectSpeech(request, vocabulary) as direct,
            WorkerSpeech(found.worker.url, _token(stack), request, vocabulary) as worker,
            GatewaySpeech(stack.url) as conch,
        ):
            paths = await measure(direct, worker, conch, effort)
    return rows.sections(paths, stages.measure(folder, effort))


@dataclass(frozen=True, slots=True)
class _Registered:
    """What stands in the registry of one model and one worker."""

    route: Route
    worker: Heartbeat


async def _registered(stack: Stack) -> _Registered:
    async with Redis(port=_redis_port(stack)) as redis:
        routes, workers = await redis.hvals(ROUTES_KEY), await redis.hvals(workers_key(Pool.SPEECH))
    if len(routes) != 1 or len(workers) != 1:
        raise CannotMeasure(f"Expected one model and one speech-worker, found {len(routes)} and {len(workers)}.")
    return _Registered(Route.model_validate_json(routes[0]), Heartbeat.model_validate_json(workers[0]))


def _redis_port(stack: Stack) -> int:
    for word in _process(stack, REDIS).cmdline():  # which shows its address: "valkey-server 127.0.0.1:6379"
        _, colon, port = word.rpartition(":")
        if colon and port.isdigit():
            return int(port)
    raise CannotMeasure("The Redis of `conch up` does not show its port.")


def _token(stack: Stack) -> str:
    """Return what services below this Conch know each other by."""
    return _process(stack, SPEECH_WORKER).environ()["CONCH_INTERNAL_TOKEN"]


def _process(stack: Stack, wanted: str) -> psutil.Process:
    for pid, role in stack.roles().items():
        if role == wanted:
            return psutil.Process(pid)
    raise CannotMeasure(f"No {wanted} runs below `conch up`.")


def _request(stack: Stack, route: Route) -> TranscribeRequest:
    target = SpeechTarget(
        grpc=EngineAddress(stack.grpc),
        model=stack.engine_model,
        dialect=route.dialect,
        tokenizer_digest=route.tokenizer_digest,
        context=route.max_model_len,
        multilingual=bool(route.speech.languages),
    )
    return TranscribeRequest(
        request_id="bench",
        model="tiny-whisper",
        created=1,
        target=target,
        task=SpeechTask.TRANSCRIBE,
        language="en",
        parameters=parameters(TranscriptionRequest(), route),
        file_bytes=0,
    )
