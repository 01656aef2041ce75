"""Runs the real tritonserver on a model repository, and always cleans up after it."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from conch_operator.local.orphan_guard import kill_group, remove_shared_memory
from conch_operator.local.tritonserver import (
    TritonLaunch,
    TritonPorts,
    find_triton,
    new_shm_prefix,
    triton_arguments,
    triton_environment,
)
from testkit.processes.conch_up import free_port
from testkit.processes.tied import tied

_AS_WRITTEN = "--disable-auto-complete-config"
_LISTENS = ("--grpc-address=", "--http-address=")
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class RunningTriton:
    """A tritonserver that answers."""

    grpc: str
    """host:port"""
    http: str
    """host:port"""
    metrics: str
    """host:port"""
    pid: int
    shm_prefix: str
    log: Path

    def index(self) -> list[dict[str, str]]:
        """Return the repository index: name, state and reason of every model."""
        request = Request(f"http://{self.http}/v2/repository/index", data=b"{}", method="POST")
        with urlopen(request, timeout=30) as answer:
            models: list[dict[str, str]] = json.load(answer)
            return models

    def counted(self, name: str, model: str) -> int:
        """Return what a counter of the runtime's own says for a model."""
        with urlopen(f"http://{self.metrics}/metrics", timeout=30) as answer:
            found = re.search(rf'^{name}{{model="{model}"}} (\d+)', answer.read().decode(), re.MULTILINE)
        return int(found[1]) if found else 0


@contextmanager
def triton_server(
    repository: Path,
    *models: str,
    folder: Path,
    must_load: bool = True,
    timeout_s: float = 240.0,
    host: str = LOOPBACK,
    completes_configs: bool = False,
    grpc_port: int | None = None,
) -> Iterator[RunningTriton]:
    """Run a server with these models loaded; its log goes to `folder`.

    `host` is the address of this machine that it listens on, metrics apart, and `grpc_port` where calls go; None: any
    free one. `completes_configs` lets models add to their configs, as some of the runtimes on clusters do, but none on
    a laptop.
    Waits until it is ready; with `must_load=False` only until it answers, so that failed loads can be looked at.
    """
    triton = find_triton()
    ports = TritonPorts(free_port(), grpc_port or free_port(), free_port())
    launch = TritonLaunch(repository, models, ports, new_shm_prefix())
    log = folder / f"triton-{ports.grpc}.log"
    words = [word for word in triton_arguments(triton, launch) if not (completes_configs and word == _AS_WRITTEN)]
    command = [f"{word.split('=')[0]}={host}" if word.startswith(_LISTENS) else word for word in words]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}  # noqa: TID251
    with log.open("wb") as output:
        process = subprocess.Popen(
            tied(tuple(command)),
            env=triton_environment(triton, environ),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running = RunningTriton(
        grpc=f"{host}:{ports.grpc}",
        http=f"{host}:{ports.http}",
        metrics=f"{LOOPBACK}:{ports.metrics}",
        pid=process.pid,
        shm_prefix=launch.shm_prefix,
        log=log,
    )
    try:
        _wait(running, process, must_load, time.monotonic() + timeout_s)
        yield running
    finally:
        _end(process)
        remove_shared_memory(launch.shm_prefix)


def write_repository(files: Mapping[str, str], repository: Path) -> Path:
    """Write a rendered repository into a folder and return that."""
    for name, text in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return repository


def _wait(running: RunningTriton, process: subprocess.Popen[bytes], must_load: bool, deadline: float) -> None:
    while not _answers(running.http, "/v2/health/ready"):
        if process.poll() is not None:
            raise AssertionError(f"tritonserver ended with status {process.returncode}:\n{_tail(running.log)}")
        if _answers(running.http, "/v2/health/live"):
            if not must_load:
                return
            failed = [model for model in running.index() if model.get("state") == "UNAVAILABLE"]
            if failed:
                raise AssertionError(f"Models did not load: {failed}\n{_tail(running.log)}")
        if time.monotonic() > deadline:
            raise AssertionError(f"tritonserver was not ready in time:\n{_tail(running.log)}")
        time.sleep(0.05)


def _answers(http: str, path: str) -> bool:
    try:
        with urlopen(f"http://{http}{path}", timeout=30):
            return True
    except HTTPError as error:
        error.close()
        return False
    except (URLError, ConnectionError, TimeoutError):
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        kill_group(process.pid)


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]
