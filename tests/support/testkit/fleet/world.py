"""Conch beside a played cluster: its parts are processes, and one tritonserver is all engines.

KWOK gives pods addresses of a network that is this machine's alone. A real tritonserver listens there, and the agents'
own code (`agents.py`): the operator asks both as it asks those in pods.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from bench.conversations import MODEL_FOLDER

from cluster.local.machine import Machine
from cluster.local.played.control_plane import played_cluster
from cluster.settings import Settings
from cluster.shell import Shell
from conch_contracts.names import TRITON_GRPC_PORT
from generate.helm import Helm
from testkit.engines.backend_stand_ins import install
from testkit.fleet.api import MODELS, Api, Audit
from testkit.fleet.watched_objects import WatchedObjects, watched
from testkit.kubernetes.chart import Rendered, render
from testkit.kubernetes.operator_process import INTERNAL_TOKEN, Process
from testkit.processes.tied import tied
from testkit.servers.redis import RedisServer
from testkit.servers.triton import triton_server

ROOT = Path(__file__).resolve().parents[4]
NAMESPACE = "conch"
_PATH = MODELS.format(namespace=NAMESPACE)
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:conch-operator"
_RIGHTS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_SERVICES = {
    "tokenizer": "conch_tokenizer.main",
    "llm-worker": "conch_llm_worker.main",
    "gateway": "conch_gateway.main",
}


@dataclass(frozen=True, slots=True)
class Fleet:
    """All that runs."""

    folder: Path
    api: Api
    audit: Audit
    redis: RedisServer
    services: dict[str, Process]
    operator: Process

    models: WatchedObjects
    """All ModelDeployments."""

    @property
    def path(self) -> str:
        """Return the API's path of the ModelDeployments."""
        return _PATH


@contextmanager
def fleet(folder: Path, models: Sequence[str]) -> Iterator[Fleet]:
    """Run all but the models themselves, of which these are to come."""
    environ = {**os.environ, "CONCH_CLUSTER_HOME": str(folder / "cluster")}  # noqa: TID251
    shell = Shell.without_proxies(environ)
    audit = Audit(folder / "audit", ACCOUNT)
    with ExitStack() as stack:
        machine = stack.enter_context(played_cluster(Settings.from_environ(environ), shell, audit.options))
        made = render(Helm.find(environ), "--namespace", NAMESPACE)
        _establish(machine, made)
        redis = stack.enter_context(RedisServer())
        install(folder / "engines", "model", "tokens")
        engines = triton_server(folder / "engines", "model", folder=folder, host="0.0.0.0", grpc_port=TRITON_GRPC_PORT)
        stack.enter_context(engines)
        stack.enter_context(_agents(folder, models))
        services = {}
        for name, module in _SERVICES.items():
            cache = {} if name == "gateway" else {"cache_dir": folder / name / "cache"}
            services[name] = Process(module, folder / name, _settings(redis, folder / name, **cache), {})
            stack.enter_context(services[name])
        operator = _operator(machine, made, redis, folder / "operator")
        stack.enter_context(operator)
        api = stack.enter_context(closing(Api(machine.layout)))
        seen = stack.enter_context(watched(api, _PATH))
        yield Fleet(folder, api, audit, redis, services, operator, seen)


def gateway_of(redis: RedisServer, folder: Path) -> Process:
    """Return another gateway, on another Redis, not started yet."""
    return Process(_SERVICES["gateway"], folder, _settings(redis, folder), {})


def _settings(redis: RedisServer, folder: Path, **more: object) -> dict[str, object]:
    return {
        "redis_url": redis.url,
        "host": "127.0.0.1",
        "port": 0,
        "admin_host": "127.0.0.1",
        "admin_port": 0,
        "ready_file": folder / "ready.json",
        **more,
    }


def _establish(machine: Machine, made: Rendered) -> None:
    """Make the definitions, the namespace, and the operator's account with the rights that the chart gives it."""
    definitions = ROOT / "crds"
    machine.wait(
        "the definitions", lambda: machine.kubectl("apply", "--server-side", "-f", definitions).returncode == 0
    )
    machine.wait("a namespace", lambda: machine.kubectl("create", "namespace", NAMESPACE).returncode == 0)
    rights = yaml.safe_dump_all([found for kind in _RIGHTS for found in made.of(kind)])
    machine.wait(
        "the rights", lambda: machine.kubectl("apply", "-n", NAMESPACE, "-f", "-", text=rights).returncode == 0
    )
    told = machine.kubectl("wait", "--for=condition=Established", "-f", definitions, "--timeout=60s")
    assert told.returncode == 0, told.stderr


def _operator(machine: Machine, made: Rendered, redis: RedisServer, folder: Path) -> Process:
    """Return the operator with the chart's own settings; workers are processes here, so it runs none."""
    folder.mkdir()
    file = folder / "settings.yaml"
    file.write_text(yaml.safe_dump(made.operator_settings() | {"workerPools": {}}))
    token = machine.kubectl("create", "token", "conch-operator", "-n", NAMESPACE, "--duration=12h").stdout.strip()
    config = yaml.safe_load(machine.layout.admin.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    given = _settings(redis, folder, settings_file=file, pod_name="operator-1", internal_token=INTERNAL_TOKEN)
    del given["host"], given["port"]
    return Process("conch_operator.main", folder, given, {"KUBECONFIG": str(folder / "kubeconfig")})


@contextmanager
def _agents(folder: Path, models: Sequence[str]) -> Iterator[None]:
    command = [sys.executable, "-m", "testkit.fleet.agents", str(MODEL_FOLDER), INTERNAL_TOKEN, NAMESPACE]
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "tests/support", "hack"))
    log = folder / "agents.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            tied(command),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": paths},  # noqa: TID251
        )
    assert process.stdin is not None
    process.stdin.write("\n".join(models).encode())
    process.stdin.close()
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
