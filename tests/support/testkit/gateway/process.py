"""A real gateway process on a real Redis; tokenizer and worker are one scripted HTTP server."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from conch_contracts.names import (
    DETOKENIZE_PATH,
    ENCODE_PATH,
    PREPARE_PATH,
    PREPARE_ROWS_PATH,
    TOKENIZE_PATH,
    TRANSCRIBE_PATH,
    EngineAddress,
    WorkerUrl,
)
from conch_contracts.records import Engine, Pool, Route
from conch_kit.registry.heartbeat import HeartbeatWriter
from conch_kit.registry.writer import RegistryWriter
from testkit.gateway.fakes import route
from testkit.gateway.speech_worker import transcribe
from testkit.patient_redis import patient_redis
from testkit.processes.tied import tied
from testkit.servers.redis import RedisServer
from testkit.servers.scripted_http import Call, ScriptedHttp

ENGINES = (Engine(grpc=EngineAddress("e:1")),)
POOLS = (Pool.TOKENIZER, Pool.LLM, Pool.EMBED, Pool.SPEECH)
FRAMES = (b'data: {"a":1}\n\n', b'data: {"a":2}\n\n', b"data: [DONE]\n\n")
USAGE = b': usage {"prompt_tokens":3,"completion_tokens":2}\n\n'
PREPARED = b'{"prompts":[{"ids":[1,2,3],"text":"abc"}]}'
TOKENIZED = {
    PREPARE_PATH: PREPARED,
    PREPARE_ROWS_PATH: b'{"rows":[{"ids":[1,2,3]}]}',
    TOKENIZE_PATH: b'{"tokens":[1,2,3]}',
    DETOKENIZE_PATH: b'{"prompt":"abc"}',
}
VECTORS = b'{"data":[{"object":"embedding","index":0,"embedding":[1.0,0.0]}]}'
SCORES = b'{"rows":[[0.5]]}'

PATIENT = {"CONCH_CONNECT_TIMEOUT_S": "20", "CONCH_TOKENIZER_TIMEOUT_S": "60", "CONCH_REDIS_TIMEOUT_S": "20"}
"""Variables of a gateway whose time-outs are not what is tested: longer than any pause of a busy machine."""


@dataclass(slots=True)
class Process:
    """A running gateway."""

    process: asyncio.subprocess.Process
    port: int
    admin_port: int
    redis: RedisServer
    backend: ScriptedHttp
    log: Path
    beats: Mapping[Pool, HeartbeatWriter]
    """Announce the backend in each pool: `__aexit__` and `__aenter__` let it go and come back."""
    registry: RegistryWriter
    """Has published what there is, and publishes what a test changes of it."""

    async def raw(self, data: bytes, *, wait_s: float = 60.0, half_close: bool = False) -> bytes:
        """Send bytes as they are; return all that comes back until the gateway closes or `wait_s` has passed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            if half_close:
                writer.write_eof()
            return await _read_for(reader, wait_s)
        finally:
            writer.transport.abort()

    async def post(
        self, path: str, body: bytes, *headers: str, method: str = "POST"
    ) -> tuple[int, dict[str, str], bytes]:
        """Make one well-formed request."""
        lines = [f"{method} {path} HTTP/1.1", "host: x", f"content-length: {len(body)}", "connection: close", *headers]
        answer = await self.raw("\r\n".join([*lines, "", ""]).encode() + body)
        head, _, rest = answer.partition(b"\r\n\r\n")
        status, *fields = head.decode().split("\r\n")
        return int(status.split(" ")[1]), dict(field.lower().split(": ", 1) for field in fields), rest


async def _read_for(reader: asyncio.StreamReader, wait_s: float) -> bytes:
    pieces = []
    try:
        async with asyncio.timeout(wait_s):
            while piece := await reader.read(65536):
                pieces.append(piece)
    except (TimeoutError, ConnectionError):
        pass
    return b"".join(pieces)


async def answers(call: Call) -> None:
    """Play tokenizer and workers."""
    if call.path in TOKENIZED:
        await call.answer(TOKENIZED[call.path])
    elif call.path == ENCODE_PATH:
        await call.answer(VECTORS if json.loads(call.body)["task"] in ("embed", "pool") else SCORES)
    elif call.path == TRANSCRIBE_PATH:
        await transcribe(call)
    elif json.loads(call.body)["stream"]:
        await call.begin()
        for frame in (*FRAMES, USAGE):
            await call.chunk(frame)
        await call.chunk(b"")
    else:
        await call.answer(b'{"id":"x"}', headers={"x-conch-usage": '{"prompt_tokens":3,"completion_tokens":2}'})


@asynccontextmanager
async def gateway_process(
    folder: Path,
    *models: Route,
    pools: Collection[Pool] = POOLS,
    ready: bool = True,
    engines: Sequence[Engine] = ENGINES,
    **settings: str,
) -> AsyncIterator[Process]:
    """Run a gateway that knows these models, tiny-chat when none is given, until the context ends.

    Each has these `engines`. The backend is announced in these `pools`. Not to wait until the gateway is `ready` is for
    those that are not.
    """
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(RedisServer())
        backend = await stack.enter_async_context(ScriptedHttp(answers))
        client = await stack.enter_async_context(patient_redis(redis.url))
        writer = RegistryWriter(client)
        await writer.publish({model.model_id: (model, tuple(engines)) for model in models or (route(),)})
        beats = {
            pool: HeartbeatWriter(
                client, pool, WorkerUrl(backend.url), in_flight=lambda: 0, draining=lambda: False, interval_s=0.5
            )
            for pool in POOLS
        }
        for pool in pools:
            await stack.enter_async_context(beats[pool])
        running = _started(folder, redis, backend, beats, writer, settings, ready=ready)
        yield await stack.enter_async_context(running)


@asynccontextmanager
async def gateway_beside(gateway: Process, folder: Path, **settings: str) -> AsyncIterator[Process]:
    """Run another gateway on the same Redis, with the same tokenizer and workers."""
    parts = gateway.redis, gateway.backend, gateway.beats, gateway.registry
    async with _started(folder, *parts, settings, ready=True) as process:
        yield process


@asynccontextmanager
async def _started(
    folder: Path,
    redis: RedisServer,
    backend: ScriptedHttp,
    beats: Mapping[Pool, HeartbeatWriter],
    registry: RegistryWriter,
    settings: dict[str, str],
    *,
    ready: bool,
) -> AsyncIterator[Process]:
    ready_file = folder / "ready.json"
    environ = {
        "PATH": os.environ["PATH"],  # noqa: TID251
        "CONCH_REDIS_URL": redis.url,
        "CONCH_HOST": "127.0.0.1",
        "CONCH_ADMIN_HOST": "127.0.0.1",
        "CONCH_PORT": "0",
        "CONCH_ADMIN_PORT": "0",
        "CONCH_READY_FILE": str(ready_file),
        **PATIENT,
        **{f"CONCH_{name.upper()}": value for name, value in settings.items()},
    }
    log = folder / "log"
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *tied([str(Path(sys.executable).with_name("conch-gateway"))]), env=environ, stdout=output, stderr=output
        )
    try:
        async with asyncio.timeout(120):
            while not ready_file.exists():
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.02)
            bound = json.loads(ready_file.read_text())
            port, admin_port = (int(bound[key].rpartition(":")[2]) for key in ("url", "admin_url"))
            running = Process(process, port, admin_port, redis, backend, log, beats, registry)
            while ready and b" 200 " not in await running.raw(b"GET /health/ready HTTP/1.0\r\n\r\n"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        yield running
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                await process.wait()
