"""Workers dial no engine that a release forbids authors of ModelDeployments to name: each real process, and a bait."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

import aiohttp
import pytest

from conch_contracts.messages.encoding import EncodeRequest, EncoderTarget, Row, Task
from conch_contracts.messages.message import changed
from conch_contracts.names import Digest, EngineAddress, bundle_key
from conch_contracts.records import Dialect
from conch_kit.bundles.archive import pack
from testkit.builders.generate_requests import generate_request, target
from testkit.builders.transcriptions import transcribe_request
from testkit.models.tone_speech import file_of, spoken, tone_tokenizer
from testkit.models.vocabularies import byte_level_tokenizer
from testkit.processes.embed_worker import EmbedWorker
from testkit.processes.llm_worker import LlmWorker
from testkit.processes.speech_worker import SpeechWorker
from testkit.processes.worker_process import WorkerProcess
from testkit.servers.redis import RedisServer

Ask = Callable[[WorkerProcess, EngineAddress, str | None, Digest], Awaitable[tuple[int, bytes]]]
RULES = json.dumps({"allowed": ["10.0.0.0/8"]})
TEAM = "team"


async def generate(
    worker: WorkerProcess, engine: EngineAddress, named_in: str | None, tokenizer: Digest
) -> tuple[int, bytes]:
    assert isinstance(worker, LlmWorker)
    place = target(Dialect.TOKENS, grpc=engine, tokenizer_digest=tokenizer, named_in=named_in)
    async with aiohttp.ClientSession() as session:
        reply = await worker.ask(session, generate_request(target=place))
    return reply.status, reply.body


async def encode(
    worker: WorkerProcess, engine: EngineAddress, named_in: str | None, tokenizer: Digest
) -> tuple[int, bytes]:
    assert isinstance(worker, EmbedWorker)
    place = EncoderTarget(address=engine, model="m", named_in=named_in)
    request = EncodeRequest(request_id="r", target=place, task=Task.SCORE, rows=(Row(ids=(1, 2)),))
    answer = await asyncio.to_thread(worker.ask, request)
    return answer.status, json.dumps(answer.body).encode()


async def transcribe(
    worker: WorkerProcess, engine: EngineAddress, named_in: str | None, tokenizer: Digest
) -> tuple[int, bytes]:
    assert isinstance(worker, SpeechWorker)
    file = file_of(spoken([1, 2]))
    request = transcribe_request(file_bytes=len(file))
    place = changed(request.target, grpc=engine, named_in=named_in, tokenizer_digest=tokenizer)
    async with aiohttp.ClientSession() as session:
        reply = await worker.ask(session, changed(request, target=place), file)
    return reply.status, reply.body


class Bait:
    """A port on which nobody should knock; who does is counted and sent away."""

    def __init__(self) -> None:
        self.callers = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._send_away, "127.0.0.1", 0)
        self.address = EngineAddress(f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _send_away(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.callers += 1
        writer.close()


@pytest.mark.parametrize(
    ("process", "ask", "over_http"),
    [
        pytest.param(LlmWorker, generate, False, id="llm"),
        pytest.param(EmbedWorker, encode, False, id="embed"),
        pytest.param(EmbedWorker, encode, True, id="embed-http"),
        pytest.param(SpeechWorker, transcribe, False, id="speech"),
    ],
)
async def test_what_an_author_may_not_name_is_not_dialled(
    tmp_path: Path, process: type[LlmWorker | EmbedWorker | SpeechWorker], ask: Ask, *, over_http: bool
) -> None:
    vocabulary = tone_tokenizer() if process is SpeechWorker else byte_level_tokenizer()
    (bundle := tmp_path / "bundle").mkdir()
    (bundle / "tokenizer.json").write_text(vocabulary.to_str())
    digest, data = pack(bundle)
    with RedisServer() as redis, process(redis.url, tmp_path, address_rules=RULES) as worker:
        redis.command("SET", bundle_key(digest), data)
        async with Bait() as bait:
            engine = EngineAddress(f"http://{bait.address}") if over_http else bait.address
            status, body = await ask(worker, engine, TEAM, digest)
            assert (status, bait.callers) == (503, 0)
            assert bait.address.encode() not in body
            assert "may not be named" in worker.log.read_text()
            await ask(worker, engine, None, digest)
            assert bait.callers > 0, "an engine of Conch's own is dialled there"
