"""The Deployment of a model's engines, with its pods: Triton, the agent beside it, and the folder that both read.

A pod counts as ready only when the operator says so (a readiness gate), so a rollout goes on when requests reach the
new engine. A pod that ends is held by its preStop hook, which asks the agent, until no gateway sends it anything new;
then Triton gets its SIGTERM and finishes what it has.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from conch_contracts.names import (
    AGENT_PORT,
    ENGINE_ANNOTATION,
    ENGINE_COMPONENT,
    SERVING_GATE,
    SOURCE_ANNOTATION,
    TRITON_GRPC_PORT,
    TRITON_HTTP_PORT,
    TRITON_METRICS_PORT,
)
from conch_operator.agent.messages import WITHDRAWN_PATH
from conch_operator.agent.termination import LONGEST_HOLD_S
from conch_operator.agent.tokens import AgentOwner, AgentTokens
from conch_operator.resources.agent_container import agent_container
from conch_operator.resources.compile_cache import CompileCache, compile_cache
from conch_operator.resources.container_resources import COPYING, engine_resources, resources_beside
from conch_operator.resources.download_container import download_container
from conch_operator.resources.engine_image import engine_image
from conch_operator.resources.metadata import child_name, labels, metadata, selector, with_template_hash
from conch_operator.resources.model_repository import (
    REPOSITORY_MOUNT,
    repository_annotations,
    repository_container,
    repository_volumes,
)
from conch_operator.resources.pod_defaults import POD_SECURITY, container_defaults
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.resources.source_volume import SourceVolume, copying_container, source_hash
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel, EngineContract
from conch_operator.triton.server_options import KEEPALIVE

Object = dict[str, Any]

TRITON = "triton"
"""The name of the engine's container."""
SERVER = "/opt/tritonserver/bin/tritonserver"
HANGS_END_S = 10
"""How long a server that is not live any more may take to end."""
SLOWEST_START_S = 3600


def make_engine_deployment(
    model: DesiredModel, server: RuntimeServer, source: SourceVolume, settings: EngineSettings, tokens: AgentTokens
) -> Object:
    """Return the Deployment of a model's engines."""
    engine = model.deployment.spec.engine
    annotations = {
        **(engine.annotations or {}),
        ENGINE_ANNOTATION: json.dumps(_said(server.contract), sort_keys=True),
        SOURCE_ANNOTATION: source_hash(model),
        **repository_annotations(server),
    }
    template = {
        "metadata": {"labels": {**(engine.labels or {}), **labels(model)}, "annotations": annotations},
        "spec": _pod(model, server, source, settings, tokens),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(model, child_name(model)),
        "spec": {
            "replicas": model.replicas,
            "selector": {"matchLabels": selector(model)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": SLOWEST_START_S,
            "template": with_template_hash(template),
        },
    }


def _said(contract: EngineContract) -> dict[str, object]:
    return {name: value for name, value in asdict(contract).items() if value is not None}


def triton_command(model: DesiredModel, server: RuntimeServer, drain_s: int) -> Object:
    """Return how an engine's tritonserver is started; the ModelDeployment's own options come last."""
    outside = {"exit-timeout-secs": drain_s, **ports_and_keepalive()}
    first = [*_options(server, outside), *model.deployment.spec.engine.args]
    if server.ranks == 1:
        return {"command": [SERVER], "args": first}
    args = ["-n", "1", SERVER, *first]
    for rank in range(1, server.ranks):
        inside = dict.fromkeys(("allow-http", "allow-grpc", "allow-metrics"), "false") | {"exit-timeout-secs": drain_s}
        args += [":", "-n", "1", SERVER, *_options(server, inside, rank)]
    return {"command": ["mpirun"], "args": args}


def ports_and_keepalive() -> dict[str, object]:
    """Return the options of a server that is reached from outside its pod."""
    ports = {"http-port": TRITON_HTTP_PORT, "grpc-port": TRITON_GRPC_PORT, "metrics-port": TRITON_METRICS_PORT}
    return {**ports, **KEEPALIVE}


def _options(server: RuntimeServer, network: Mapping[str, object], rank: int = 0) -> list[str]:
    options: dict[str, object] = {
        "model-repository": REPOSITORY_MOUNT,
        "backend-directory": "/opt/tritonserver/backends",
        "model-control-mode": "explicit",
        "load-model": server.contract.triton_model,
        "exit-on-error": "false",
        **network,
        **server.options,
        # Every server of an engine shares /dev/shm with the others.
        **({"backend-config": f"python,shm-region-prefix-name=rank{rank}_"} if server.ranks > 1 else {}),
    }
    return [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()]


def drain_of(model: DesiredModel, settings: EngineSettings) -> int:
    """Return how long an engine that ends may go on with the answers that it has begun, in whole seconds."""
    return max(1, round(min(model.deployment.spec.routing.timeout, settings.drain_seconds)))


def _pod(
    model: DesiredModel, server: RuntimeServer, source: SourceVolume, settings: EngineSettings, tokens: AgentTokens
) -> Object:
    engine = model.deployment.spec.engine
    cache = compile_cache(model, server, settings)
    agent = agent_container(model, source, settings, tokens.told(_agent_owner(model)))
    pod: Object = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "readinessGates": [{"conditionType": SERVING_GATE}],
        # As PID 1 a process that has set no handler yet would miss SIGTERM, and the pod stay for its grace period.
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": drain_of(model, settings) + LONGEST_HOLD_S + 15,
        "initContainers": _init_containers(model, server, source, cache, agent, settings),
        "containers": [
            _triton(model, server, (*source.engine_mounts, *(cache.mounts if cache else ())), settings)
            | container_defaults(settings)
        ],
        "volumes": [
            *source.volumes,
            *(cache.volumes if cache else ()),
            *repository_volumes(server),
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": settings.shm_size}},
        ],
        "topologySpreadConstraints": _spreads(model),
    }
    secrets = [*(secret.name for secret in engine.image_pull_secrets), *settings.image_pull_secrets]
    optional: Object = {
        "imagePullSecrets": [{"name": name} for name in secrets],
        "nodeSelector": dict(engine.node_selector or {}),
        "tolerations": [_json(toleration) for toleration in engine.tolerations],
        "affinity": _json(engine.affinity) if engine.affinity else None,
        "runtimeClassName": engine.runtime_class_name,
        "priorityClassName": engine.priority_class_name,
        "serviceAccountName": engine.service_account_name,
    }
    return pod | {name: value for name, value in optional.items() if value}


def _init_containers(
    model: DesiredModel,
    server: RuntimeServer,
    source: SourceVolume,
    cache: CompileCache | None,
    agent: Object,
    settings: EngineSettings,
) -> list[Object]:
    spec, image = model.deployment.spec, engine_image(model, settings)
    made: list[Object] = []
    if source.copies_from_image:
        made.append(copying_container(spec, image, settings))
    if server.version_folder is not None or server.image_folder is not None:
        resources = resources_beside(COPYING, settings, spec.engine)
        made.append(repository_container(server, image, source.engine_mounts, resources))
    if cache is not None:
        made.append(cache.init_container)
    made.append(agent | {"restartPolicy": "Always"})
    if source.download_mounts:  # after the agent, which tells how far it is
        made.append(download_container(spec, source, settings))
    return [container | container_defaults(settings) for container in made]


def _agent_owner(model: DesiredModel) -> AgentOwner:
    meta = model.deployment.metadata
    return AgentOwner(meta.namespace, ENGINE_COMPONENT, meta.name)


def _triton(model: DesiredModel, server: RuntimeServer, mounts: Sequence[Object], settings: EngineSettings) -> Object:
    engine = model.deployment.spec.engine
    env = {"HOME": "/tmp", **server.env, **{variable.name: variable.value for variable in engine.env}}
    return {
        "name": TRITON,
        "image": engine_image(model, settings),
        **triton_command(model, server, drain_of(model, settings)),
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "ports": [
            {"name": "http", "containerPort": TRITON_HTTP_PORT},
            {"name": "grpc", "containerPort": TRITON_GRPC_PORT},
            {"name": "metrics", "containerPort": TRITON_METRICS_PORT},
        ],
        "resources": engine_resources(engine),
        "startupProbe": engine_probe("/v2/health/live", "http", period_s=1, failures=SLOWEST_START_S),
        "readinessProbe": engine_probe("/v2/health/ready", "http", period_s=2, failures=3),
        "livenessProbe": engine_probe("/v2/health/live", "http", period_s=5, failures=3)
        | {"terminationGracePeriodSeconds": HANGS_END_S},
        "lifecycle": {"preStop": {"httpGet": {"path": WITHDRAWN_PATH, "port": AGENT_PORT}}},
        "volumeMounts": [
            *mounts,
            {"name": "repository", "mountPath": REPOSITORY_MOUNT, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def engine_probe(path: str, port: str | int, *, period_s: int, failures: int) -> Object:
    """Return a probe of an engine's container."""
    get = {"path": path, "port": port}
    return {"httpGet": get, "periodSeconds": period_s, "timeoutSeconds": 5, "failureThreshold": failures}


_SPREAD_OVER = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")


def _spreads(model: DesiredModel) -> list[Object]:
    chosen = {"labelSelector": {"matchLabels": selector(model, ENGINE_COMPONENT)}}
    given = model.deployment.spec.engine.topology_spread_constraints
    if given is not None:
        return [chosen | _json(constraint) for constraint in given]
    evenly = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    return [{"topologyKey": key, **evenly, **chosen} for key in _SPREAD_OVER]


def _json(part: Any) -> Any:
    return part.model_dump(mode="json", by_alias=True, exclude_defaults=True)
