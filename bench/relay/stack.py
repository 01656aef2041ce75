"""All that surrounds the gateway when it is measured alone: Redis, a tokenizer, a route, and a scripted worker."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from bench.conversations import MODEL_FOLDER, MODEL_NAME
from bench.cpu_time import Roles
from bench.processes import PYTHON, CannotMeasure, below, free_port, running, tail, wait_for_port
from bench.relay.nginx import proxy
from conch_contracts.names import LOCAL_NAMESPACE, Digest, EngineAddress, ModelId, ServedName, WorkerUrl
from conch_contracts.records import Dialect, Engine, ModelKind, Pool, Route
from conch_kit.bundles.archive import pack
from conch_kit.bundles.store import BundleStore
from conch_kit.redis.client import RedisClient
from conch_kit.registry.heartbeat import HeartbeatWriter
from conch_kit.registry.writer import RegistryWriter
from conch_operator.local import redis_binary

NGINX, GATEWAY, TOKENIZER, WORKER, REDIS = "nginx", "gateway", "tokenizer", "scripted worker", "redis"
API_KEY = "bench"
_SLOTS = 4096
_READY_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class RelayStack:
    """The two relays before one worker."""

    gateway_url: str
    nginx_url: str
    worker_port: int
    redis_url: str
    gateway_start_s: float
    """From the gateway's start to its ready file."""
    roots: Roles
    """The processes that were started; their children share their roles."""

    def roles(self) -> Roles:
        """Name all processes that run at this moment."""
        return families(self.roots)

    def roles_with(self, more: Roles) -> Callable[[], Roles]:
        """Name those and the families of some others."""
        return lambda: families({**self.roots, **more})


def families(roots: Roles) -> dict[int, str]:
    """Give the descendants of processes their roles."""
    found = dict(roots)
    for pid, role in roots.items():
        found |= dict.fromkeys((child.pid for child in below(pid)), role)
    return found


@asynccontextmanager
async def relay_stack(folder: Path) -> AsyncIterator[RelayStack]:
    """Run everything until the context ends."""
    async with AsyncExitStack() as stack:
        roles: dict[int, str] = {}
        redis_url = await _redis(stack, folder, roles)
        worker_port = await _worker(stack, folder, roles)
        nginx = await stack.enter_async_context(proxy(worker_port, folder))
        roles[nginx.pid] = NGINX
        await _register(stack, redis_url, WorkerUrl(f"http://127.0.0.1:{worker_port}"))
        keys = folder / "keys"
        keys.write_text(f"{API_KEY}\n")
        tokenizer = {"CONCH_CACHE_DIR": str(folder / "bundles")}
        await _service(stack, folder, roles, TOKENIZER, _environment(redis_url) | tokenizer)
        gateway = {"CONCH_API_KEYS_FILE": str(keys)}
        began = time.monotonic()
        url = await _service(stack, folder, roles, GATEWAY, _environment(redis_url) | gateway)
        started_s = time.monotonic() - began
        await _wait_for_model(url)
        yield RelayStack(url, nginx.url, worker_port, redis_url, started_s, roles)


@dataclass(frozen=True, slots=True)
class SecondGateway:
    """One more gateway on the same Redis."""

    url: str
    roots: Roles


@asynccontextmanager
async def second_gateway(built: RelayStack, folder: Path) -> AsyncIterator[SecondGateway]:
    """Run another gateway beside the first until the context ends; `folder` is the stack's own."""
    second = folder / "second"
    second.mkdir()
    async with AsyncExitStack() as stack:
        roles: dict[int, str] = {}
        environment = _environment(built.redis_url) | {"CONCH_API_KEYS_FILE": str(folder / "keys")}
        url = await _service(stack, second, roles, GATEWAY, environment)
        await _wait_for_model(url)
        yield SecondGateway(url, roles)


async def _redis(stack: AsyncExitStack, folder: Path, roles: dict[int, str]) -> str:
    port, log = free_port(), folder / "redis.log"
    command = [str(redis_binary.find()), "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder)]
    process = await stack.enter_async_context(running(command, log))
    await wait_for_port(port, process, "Redis", log)
    roles[process.pid] = REDIS
    return f"redis://127.0.0.1:{port}/0"


async def _worker(stack: AsyncExitStack, folder: Path, roles: dict[int, str]) -> int:
    port, log = free_port(), folder / "scripted-worker.log"
    command = [PYTHON, "-m", "bench.relay.scripted_worker", str(port)]
    process = await stack.enter_async_context(running(command, log))
    await wait_for_port(port, process, "The scripted worker", log)
    roles[process.pid] = WORKER
    return port


async def _register(stack: AsyncExitStack, redis_url: str, worker: WorkerUrl) -> None:
    redis = await stack.enter_async_context(RedisClient(redis_url))
    digest, bundle = await asyncio.to_thread(pack, MODEL_FOLDER)
    await BundleStore(redis).put(digest, bundle)
    model = ModelId(f"{LOCAL_NAMESPACE}/{MODEL_NAME}")
    engine = Engine(grpc=EngineAddress("127.0.0.1:1"), slots=_SLOTS)
    await RegistryWriter(redis).publish({model: (_route(model, digest), (engine,))})
    beats = HeartbeatWriter(redis, Pool.LLM, worker, in_flight=lambda: 0, draining=lambda: False)
    await stack.enter_async_context(beats)


def _route(model: ModelId, digest: Digest) -> Route:
    config = json.loads((MODEL_FOLDER / "config.json").read_text())
    return Route(
        model_id=model,
        served_names=(ServedName(MODEL_NAME),),
        kind=ModelKind.LLM,
        dialect=Dialect.TOKENS,
        engine_model=MODEL_NAME,
        tokenizer_digest=digest,
        max_model_len=config["max_position_embeddings"],
        vocab_size=config["vocab_size"],
        created=int(time.time()),
    )


def _environment(redis_url: str) -> dict[str, str]:
    return {
        "CONCH_REDIS_URL": redis_url,
        "CONCH_HOST": "127.0.0.1",
        "CONCH_ADMIN_HOST": "127.0.0.1",
        "CONCH_PORT": "0",
        "CONCH_ADMIN_PORT": "0",
    }


async def _service(
    stack: AsyncExitStack, folder: Path, roles: dict[int, str], name: str, environment: Mapping[str, str]
) -> str:
    ready, log = folder / f"{name}.ready", folder / f"{name}.log"
    command = [PYTHON, "-m", f"conch_{name}.main"]
    process = await stack.enter_async_context(
        running(command, log, environment={**environment, "CONCH_READY_FILE": str(ready)})
    )
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while not ready.exists():
        if process.returncode is not None or time.monotonic() > deadline:
            raise CannotMeasure(f"The {name} does not start: {tail(log)}")
        await asyncio.sleep(0.01)
    roles[process.pid] = name
    return str(json.loads(ready.read_text())["url"])


async def _wait_for_model(url: str) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while not await asyncio.to_thread(_is_ready, url):
        if time.monotonic() > deadline:
            raise CannotMeasure("The gateway does not become ready.")
        await asyncio.sleep(0.1)


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/health/ready", timeout=2):
            return True
    except (URLError, ConnectionError, TimeoutError):
        return False
