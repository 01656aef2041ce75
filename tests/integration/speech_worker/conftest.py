"""One Redis, one tritonserver with stand-ins of engines that hear tones, and one worker for all tests here.

Tests of the whole way have a gateway and a worker of their own before the same stand-ins.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from conch_contracts.dialects.whisper_bls import WINDOW_TOKENS
from conch_contracts.messages.message import changed
from conch_contracts.messages.transcription import SpeechParameters, SpeechTarget, SpeechTask, TranscribeRequest
from conch_contracts.names import Digest, EngineAddress, bundle_key
from conch_contracts.records import Dialect, Engine, Pool
from conch_kit.bundles.archive import pack
from testkit.engines.backend_stand_ins import install, parameter
from testkit.gateway.process import Process, gateway_process
from testkit.gateway.speech import speech_route
from testkit.models.tone_speech import tone_ids, tone_tokenizer
from testkit.processes.nameless_files import nameless_files
from testkit.processes.speech_worker import SpeechWorker, Transcript
from testkit.servers.redis import RedisServer
from testkit.servers.triton import RunningTriton, triton_server

VARIANTS = {"plain": {}, "hasty": {"most_words": "60"}, "slow": {"pace_s": "3"}}
"""`hasty` ends before a full window does."""
_STREAMED = {"decoupled: false": "decoupled: true"}
WHISPERS: Mapping[str, Mapping[str, str]] = {
    "whisper": {},
    "whisper-96": parameter("most_tokens", 96),
    "whisper-old": {r'[^\n]*"WAV_LENS"[^\n]*\n': ""},
    "whisper-streamed": _STREAMED,
    "whisper-slow": parameter("pace_s", 3),
    "whisper-slow-streamed": _STREAMED | parameter("pace_s", 3),
    "whisper-broken": parameter("fail_at", 3),
    "whisper-broken-streamed": _STREAMED | parameter("fail_at", 3),
}
"""Models of the dialect `whisper_bls`; `whisper-old` declares no length."""
PARAMETERS = SpeechParameters(
    max_tokens=448,
    temperatures=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    compression_ratio_threshold=2.4,
    logprob_threshold=-1.0,
    no_speech_threshold=0.6,
)


def install_ear(repository: Path, name: str, events: Path, **parameters: str) -> None:
    """Put a model that hears tones into a repository; it notes in `events` what it hears."""
    changes = {'name: "speech"': f'name: "{name}"'} | parameter("events", events)
    changes |= parameter("ids", json.dumps(tone_ids()).replace('"', '\\"'))
    for key, value in parameters.items():
        changes |= parameter(key, value)
    install(repository, name, "speech", changes=changes)


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that a test here needs."""

    worker: SpeechWorker
    triton: RunningTriton
    redis: RedisServer
    digest: Digest
    events: Path
    session: aiohttp.ClientSession

    def request(self, model: str = "plain", **changes: Any) -> TranscribeRequest:
        """Return a request that names its language and wants JSON."""
        target = SpeechTarget(
            grpc=EngineAddress(self.triton.grpc),
            model=model,
            dialect=Dialect.WHISPER_BLS if model in WHISPERS else Dialect.SPEECH,
            tokenizer_digest=self.digest,
            context=448,
            window_tokens=WINDOW_TOKENS if model in WHISPERS else None,
        )
        request = TranscribeRequest(
            request_id="r1",
            model="tones",
            created=1,
            target=target,
            task=SpeechTask.TRANSCRIBE,
            language="en",
            parameters=PARAMETERS,
            file_bytes=0,
        )
        return changed(request, **changes)

    async def hear(self, file: bytes, model: str = "plain", **changes: Any) -> Transcript:
        """Have a file heard."""
        return await self.worker.ask(self.session, self.request(model, file_bytes=len(file), **changes), file)

    def seen(self, what: str, request_id: str) -> list[dict[str, Any]]:
        """Return what the stand-ins have noted about a request."""
        notes = [json.loads(line) for line in self.events.read_text().splitlines()] if self.events.exists() else []
        return [note for note in notes if (note["what"], note["id"]) == (what, request_id)]

    def idle(self, request_id: str) -> bool:
        """Tell whether the stand-ins are done with all that they have begun to hear of a request."""
        heard, answered, cancelled = (len(self.seen(what, request_id)) for what in ("heard", "answered", "cancelled"))
        return heard == answered + cancelled


def put_tokenizer(redis: RedisServer, folder: Path) -> Digest:
    """Publish the tokenizer of tones and return its digest."""
    (bundle := folder / "bundle").mkdir()
    (bundle / "tokenizer.json").write_text(tone_tokenizer().to_str())
    digest, data = pack(bundle)
    redis.command("SET", bundle_key(digest), data)
    return digest


@pytest.fixture(scope="session")
def parts(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[SpeechWorker, RunningTriton, RedisServer, Digest, Path]]:
    folder = tmp_path_factory.mktemp("speech")
    events = folder / "events"
    for name, variant in VARIANTS.items():
        install_ear(folder / "models", name, events, **variant)
    for name, changes in WHISPERS.items():
        named = {'name: "whisper_bls"': f'name: "{name}"'} | parameter("events", events)
        install(folder / "models", name, "whisper_bls", changes=named | dict(changes))
    with (
        RedisServer() as redis,
        triton_server(folder / "models", *VARIANTS, *WHISPERS, folder=folder) as triton,
        SpeechWorker(redis.url, folder, child_silence_s=4) as worker,
    ):
        yield worker, triton, redis, put_tokenizer(redis, folder), events


@pytest.fixture
async def stage(parts: tuple[SpeechWorker, RunningTriton, RedisServer, Digest, Path]) -> AsyncIterator[Stage]:
    async with aiohttp.ClientSession() as session:
        yield Stage(*parts, session)


@dataclass(frozen=True, slots=True)
class Way:
    """A gateway, a worker behind it, and behind that the stand-ins, as the models `plain` and `slow`."""

    gateway: Process
    worker: SpeechWorker
    stage: Stage

    def files(self) -> list[str]:
        """Return what gateway and worker hold of files that clients have sent."""
        return [file for pid in (self.gateway.process.pid, self.worker.pid) for file in nameless_files(pid)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def way(
    parts: tuple[SpeechWorker, RunningTriton, RedisServer, Digest, Path], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Way]:
    folder = tmp_path_factory.mktemp("way")
    _, triton, _, digest, _ = parts
    routes = [
        speech_route(
            model_id=f"local/{name}",
            served_names=(name,),
            engine_model=name,
            tokenizer_digest=digest,
            max_model_len=448,
        )
        for name in ("plain", "slow")
    ]
    engines = (Engine(grpc=EngineAddress(triton.grpc)),)
    async with (
        aiohttp.ClientSession() as session,
        gateway_process(folder, *routes, engines=engines, pools=(Pool.TOKENIZER,), ready=False) as gateway,
    ):
        put_tokenizer(gateway.redis, folder)
        with SpeechWorker(gateway.redis.url, folder) as worker:
            async with asyncio.timeout(60):
                while b" 200 " not in await gateway.raw(b"GET /health/ready HTTP/1.0\r\n\r\n"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            yield Way(gateway, worker, Stage(*parts, session))
