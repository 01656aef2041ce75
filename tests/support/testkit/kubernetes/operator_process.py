"""A real operator process against a real cluster, with Redis and the data plane as processes of this machine.

Engines run in the cluster; their pods' addresses can be reached from here. Each test's operator watches one namespace
only, and keeps its Lease there too, so tests do not meet.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from conch_contracts.records import Pool
from conch_kit.registry.heartbeat import HeartbeatWriter
from testkit.engines.external_engine import MODEL, own_address
from testkit.kubernetes.cluster import Images, Namespace
from testkit.patient_redis import patient_redis
from testkit.processes.conch_up import free_port, wait_until
from testkit.processes.tied import tied
from testkit.servers.redis import RedisServer
from testkit.threads import in_thread

_KEEP_FILES = ("tokenizer", "llm-worker")
ENGINE_DRAIN_S = 10
INTERNAL_TOKEN = "of-these-tests-0123456789"
_POD_NETWORK = "127.0.0.1,172.30.0.0/16,10.0.0.0/8"


def nobody() -> str:
    """Return an address of this machine at which nobody listens."""
    return f"{own_address()}:9"


class Process:
    """One of our processes; a context manager that always ends it."""

    def __init__(self, module: str, folder: Path, settings: Mapping[str, object], environ: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        self.ready = folder / "ready.json"
        self._module = module
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}  # noqa: TID251
        directly = f"{_POD_NETWORK},{own_address()}"
        self._environ |= {"NO_PROXY": directly, "no_proxy": directly, **environ}
        self._environ |= {f"CONCH_{name.upper()}": str(value) for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            self.send(signal.SIGCONT)
        self.stop()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """End it after the body; it was started elsewhere."""
        try:
            yield
        finally:
            self.__exit__(None, None, None)

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it serves."""
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Start it; it does not serve yet."""
        self.ready.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                tied([sys.executable, "-m", self._module]), env=self._environ, stdout=log, stderr=subprocess.STDOUT
            )

    def wait_ready(self) -> None:
        """Wait until it serves."""
        process = self._process
        assert process is not None
        wait_until(lambda: self.ready.exists() or process.poll() is not None, f"{self._module} to serve", 90)
        assert process.poll() is None, self.log.read_text()

    def stop(self) -> None:
        """Ask it to end and wait until it has."""
        if self._process is None or self._process.poll() is not None:
            return
        self.send(signal.SIGTERM)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def pid(self) -> int:
        """Return its process id."""
        assert self._process is not None
        return self._process.pid

    def memory_bytes(self) -> int:
        """Return how much memory it has resident."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def is_live(self) -> bool:
        """Return what its liveness probe says; false also when nothing answers in time."""
        try:
            with urlopen(f"{self.url('admin_url')}/livez", timeout=5):
                return True
        except (URLError, ConnectionError, TimeoutError):
            return False

    def rounds(self) -> int:
        """Return how many times an operator has reconciled."""
        with urlopen(f"{self.url('admin_url')}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith("conch_operator_reconciles_total"))

    def url(self, key: str = "url") -> str:
        """Return where it serves."""
        return str(json.loads(self.ready.read_text())[key])


@dataclass
class Plane:
    """What is around the operators of one test."""

    namespace: Namespace
    images: Images
    folder: Path
    redis: RedisServer
    services: dict[str, Process] = field(default_factory=dict)

    @property
    def gateway(self) -> str:
        """Return the gateway's URL."""
        return self.services["gateway"].url()

    def operator(
        self,
        name: str = "operator-1",
        *,
        release: Mapping[str, object] | None = None,
        kubeconfig: Path | None = None,
        **settings: object,
    ) -> Process:
        """Return an operator of this test's namespace, not started yet."""
        content = {
            "release": {"name": "conch", "namespace": self.namespace.name},
            "watchNamespaces": [self.namespace.name],
            "engines": self.engine_settings(),
            **(release or {}),
        }
        folder = self.folder / name
        folder.mkdir()
        file = folder / "settings.yaml"
        file.write_text(json.dumps(content))
        given = {
            "redis_url": self.redis.url,
            "settings_file": file,
            "pod_name": name,
            "internal_token": INTERNAL_TOKEN,
            "admin_host": "127.0.0.1",
            "admin_port": 0,
            "ready_file": folder / "ready.json",
            **settings,
        }
        environ = {"KUBECONFIG": str(kubeconfig or self.namespace.cluster.kubeconfig)}
        return Process("conch_operator.main", folder, given, environ)

    def engine_settings(self, **more: object) -> dict[str, object]:
        """Return what an operator is told about engines; their time to end is short, so that namespaces go soon."""
        images = {"cpu": self.images["engine-cpu"]}
        return {"agentImage": self.images["operator"], "images": images, "drainSeconds": ENGINE_DRAIN_S, **more}

    def model(self, name: str = "tiny-chat", **spec: Any) -> dict[str, Any]:
        """Return a ModelDeployment of the example model."""
        given = {"kind": "LLM", "source": {"path": "tiny-chat"}, "engine": {"cpu": {}}} | spec
        return {
            "apiVersion": "conch.dev/v1alpha1",
            "kind": "ModelDeployment",
            "metadata": {"name": name},
            "spec": given,
        }

    def external(self, name: str, grpc: str | None = None, **spec: Any) -> dict[str, Any]:
        """Return a model whose engine someone else runs; by default there is nobody, which is quick."""
        engine = {"external": {"grpc": grpc or nobody(), "dialect": MODEL, "modelName": MODEL}}
        return self.model(name, engine=engine, **spec)

    def unschedulable(self, name: str, **spec: Any) -> dict[str, Any]:
        """Return a model with all its objects, but with pods that no node can run: two, where nothing else is said."""
        several = {} if "scaling" in spec else {"replicas": 2}
        return self.model(name, engine={"cpu": {}, "nodeSelector": {"disk": "none"}}, **(several | spec))

    def condition(self, name: str = "tiny-chat", kind: str = "Ready") -> dict[str, Any]:
        """Return one condition of a model, empty before an operator has said something of it."""
        status = self.namespace.get("modeldeployment", name).get("status", {})
        said = (one for one in status.get("conditions", ()) if one["observedGeneration"] > 0)
        return next((one for one in said if one["type"] == kind), {})

    def wait_ready(self, name: str = "tiny-chat", timeout_s: float = 60) -> None:
        """Wait until a model serves; a failure says what its status says."""
        try:
            self.namespace.wait("condition=Ready", f"modeldeployment/{name}", timeout_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{name} is not ready: {self.condition(name)}") from error

    def clear(self) -> None:
        """Delete all models and pools and wait until their pods have gone: with pods a namespace takes a minute."""
        self.namespace.kubectl("delete", "modeldeployments,enginepools", "--all")
        wait_until(lambda: not self.namespace.kubectl("get", "pods", "-o", "name").strip(), "all pods to go", 90, 0.5)

    def engines(self, name: str = "tiny-chat") -> list[str]:
        """Return the addresses that the registry has for a model."""
        reply = self.redis.command("HKEYS", f"conch:1:engines:{self.namespace.name}/{name}")
        return sorted(line.decode() for line in reply.split(b"\r\n")[1:] if line and not line.startswith((b"$", b"*")))


@contextmanager
def plane(namespace: Namespace, images: Images, folder: Path, worker: str = "llm-worker") -> Iterator[Plane]:
    """Give Redis, gateway, tokenizer and a worker on this machine."""
    with RedisServer() as redis:
        found = Plane(namespace, images, folder, redis)
        try:
            for name in ("gateway", "tokenizer", worker):
                module = f"conch_{name.replace('-', '_')}.main"
                settings = {
                    "redis_url": redis.url,
                    "host": "127.0.0.1",
                    "port": free_port() if name == "gateway" else 0,
                    "admin_host": "127.0.0.1",
                    "admin_port": 0,
                    "ready_file": folder / name / "ready.json",
                    **({"cache_dir": folder / name / "cache"} if name in _KEEP_FILES else {}),
                }
                found.services[name] = Process(module, folder / name, settings, {})
                found.services[name].begin()
            for process in found.services.values():
                process.wait_ready()
            yield found
        finally:
            for process in found.services.values():
                process.stop()


@contextmanager
def bare_plane(namespace: Namespace, images: Images, folder: Path) -> Iterator[Plane]:
    """Give Redis, and workers in it that announce themselves and do nothing: for tests in which nobody asks."""
    with RedisServer() as redis, in_thread(partial(_announce, redis.url), "announcements"):
        yield Plane(namespace, images, folder, redis)


async def _announce(url: str, started: Callable[[], None], stop: asyncio.Event) -> None:
    async with patient_redis(url) as redis, AsyncExitStack() as stack:
        for pool in Pool:
            writer = HeartbeatWriter(
                redis, pool, f"http://127.0.0.1:9/{pool}", in_flight=lambda: 0, draining=lambda: False
            )
            await stack.enter_async_context(writer)
        started()
        await stop.wait()
