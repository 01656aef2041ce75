"""A Conch of the benchmark's own: the real `conch up` on its own file, ports and state folder."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import grpc
import psutil
from tritonclient.grpc import service_pb2, service_pb2_grpc

from bench.conversations import MODEL_FOLDER, MODEL_NAME
from bench.cpu_time import Roles
from bench.processes import PYTHON, CannotMeasure, below, free_port, running, tail

_DEPLOYMENT = f"""\
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: {MODEL_NAME}}}
spec:
  kind: LLM
  servedNames: [{MODEL_NAME}]
  source: {{path: {MODEL_FOLDER}}}
  engine:
    cpu: {{maxBatchSize: 64}}
"""
_READY_TIMEOUT_S = 120.0

SERVER, STUB, WORKER, EMBED_WORKER, SPEECH_WORKER, TOKENIZER, GATEWAY, REDIS, OPERATOR, CLIENT = (
    "tritonserver",
    "stub",
    "llm-worker",
    "embed-worker",
    "speech-worker",
    "tokenizer",
    "gateway",
    "redis",
    "operator",
    "client",
)
_MARKERS = {
    "triton_python_backend_stub": STUB,
    "tritonserver": SERVER,
    "conch_embed_worker": EMBED_WORKER,
    "conch_speech_worker": SPEECH_WORKER,
    "conch_llm_worker": WORKER,
    "conch-llm-worker": WORKER,
    "conch_tokenizer": TOKENIZER,
    "conch-tokenizer": TOKENIZER,
    "conch_gateway": GATEWAY,
    "conch-gateway": GATEWAY,
    "valkey-server": REDIS,
    "redis-server": REDIS,
}


@dataclass(frozen=True, slots=True)
class Stack:
    """A running Conch and the way around it."""

    url: str
    grpc: str
    """Where its Triton answers."""
    engine_model: str
    pid: int

    def roles(self) -> Roles:
        """Name all processes that run at this moment."""
        return roles_below(self.pid)


@asynccontextmanager
async def conch_up(folder: Path, model: Path = MODEL_FOLDER, text: str = _DEPLOYMENT) -> AsyncIterator[Stack]:
    """Run Conch on one model until the context ends; by default on the example model with 64 rows a batch."""
    _check_is_there(model)
    deployment = folder / "bench.yaml"
    deployment.write_text(text)
    port, log, state = free_port(), folder / "conch-up.log", folder / "state"
    command = [PYTHON, "-m", "conch_operator.cli", "up", "-f", str(deployment)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--state-dir", str(state)]
    async with running(command, log, sent=signal.SIGINT) as process:
        await _wait_ready(port, state, process, log)
        address = _triton_address(roles_below(process.pid))
        yield Stack(f"http://127.0.0.1:{port}", address, await _engine_model(address), process.pid)


def _check_is_there(model: Path) -> None:
    if not model.is_dir():
        raise CannotMeasure(f"The example model is missing: {model}")


def roles_below(root: int) -> dict[int, str]:
    """Name every process of a Conch by what it does; a child that shows no name of its own shares its parent's."""
    roles = {root: OPERATOR}
    for process in below(root):
        try:
            line, parent = " ".join(process.cmdline()), process.ppid()
        except psutil.NoSuchProcess:
            continue
        roles[process.pid] = next(
            (role for marker, role in _MARKERS.items() if marker in line), roles.get(parent, OPERATOR)
        )
    return roles


async def _wait_ready(port: int, state: Path, process: asyncio.subprocess.Process, log: Path) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _READY_TIMEOUT_S
    while process.returncode is None and loop.time() < deadline:
        if await asyncio.to_thread(_lists_model, port) and await _status_is_ready(state):
            return
        await asyncio.sleep(0.1)
    raise CannotMeasure(f"`conch up` did not become ready: {tail(log)}")


def _lists_model(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=2) as answer:
            return bool(json.load(answer)["data"])
    except (URLError, ConnectionError, TimeoutError):
        return False


async def _status_is_ready(state: Path) -> bool:
    status = await asyncio.create_subprocess_exec(
        *(PYTHON, "-m", "conch_operator.cli", "status", "--state-dir", str(state), "-o", "json"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await status.wait() == 0


def _triton_address(roles: Roles) -> str:
    for pid, role in roles.items():
        if role == SERVER:
            for argument in psutil.Process(pid).cmdline():
                name, _, value = argument.partition("=")
                if name == "--grpc-port":
                    return f"127.0.0.1:{value}"
    raise CannotMeasure("No tritonserver with a --grpc-port runs below `conch up`.")


async def _engine_model(address: str) -> str:
    async with grpc.aio.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        index = await stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(ready=True), timeout=10)
    names = [model.name for model in index.models]
    if len(names) != 1:
        raise CannotMeasure(f"Triton at {address} should hold one model and holds {names}.")
    return str(names[0])
