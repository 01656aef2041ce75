"""Everything that is made for one EnginePool: a Deployment with one pod, and the NetworkPolicy of it.

The pod has a Triton server without a model, and an agent that loads them into it. Both see each other's processes, so
the agent can tell how much memory each model takes, read the models' folders where the server has them, and end a
server that does not let go of a model. The model repository is theirs alone; the server's mount of it is read-only.
"""

from dataclasses import dataclass
from typing import Any

from conch_contracts.modeldeployment import ModelDeployment
from conch_contracts.names import (
    AGENT_PORT,
    API_VERSION,
    COMPONENT_LABEL,
    ENGINE_COMPONENT,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    OPERATOR,
    POOL_COMPONENT,
    POOL_KIND,
    POOL_LABEL,
    TRITON_GRPC_PORT,
    TRITON_HTTP_PORT,
    TRITON_METRICS_PORT,
    PoolId,
)
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_contracts.spec.quantities import quantity_value
from conch_contracts.spec.runtimes import Runtime
from conch_operator.agent.messages import WITHDRAWN_PATH
from conch_operator.agent.pool_agent import POOL_REPOSITORY
from conch_operator.agent.pool_folders import CLAIMS
from conch_operator.agent.termination import LONGEST_HOLD_S
from conch_operator.agent.tokens import AgentOwner, AgentTokens
from conch_operator.resources.agent_container import AGENT
from conch_operator.resources.container_resources import REPORTING, pool_resources, resources_beside
from conch_operator.resources.engine_deployment import (
    HANGS_END_S,
    SERVER,
    SLOWEST_START_S,
    TRITON,
    engine_probe,
    ports_and_keepalive,
)
from conch_operator.resources.engine_image import NotSupported
from conch_operator.resources.metadata import with_hash, with_template_hash
from conch_operator.resources.network_policy import make_network_policy
from conch_operator.resources.pod_defaults import POD_SECURITY, container_defaults
from conch_operator.resources.source_volume import IMAGE_MODELS
from conch_operator.settings import EngineSettings

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PoolObject:
    """One EnginePool as the API server holds it."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: EnginePoolSpec

    @property
    def id(self) -> PoolId:
        """Return `namespace/name`."""
        return PoolId(f"{self.namespace}/{self.name}")


def agent_owner(pool: PoolId) -> AgentOwner:
    """Return whose the agent in a pool's pod is."""
    namespace, _, name = pool.partition("/")
    return AgentOwner(namespace, POOL_COMPONENT, name)


def pooled_folder(deployment: ModelDeployment) -> str:
    """Return where the server of its pool has a model's folder."""
    source = deployment.spec.source
    if source.pvc is not None:
        return "/".join(filter(None, (CLAIMS, source.pvc.claim_name, source.pvc.path)))
    return f"{IMAGE_MODELS}/{(source.path or '').lstrip('/')}"


def make_pool_objects(pool: PoolObject, settings: EngineSettings, tokens: AgentTokens) -> tuple[Object, ...]:
    """Return what runs a pool's server; raises NotSupported."""
    image = settings.images.get(Runtime.CPU)
    if image is None:
        raise NotSupported("No image for the runtime cpu is configured: set engines.images.cpu of the chart.")
    selector = {POOL_LABEL: pool.name, COMPONENT_LABEL: ENGINE_COMPONENT}
    labels = {NAME_LABEL: "conch", MANAGED_BY_LABEL: OPERATOR, **selector}
    metadata = {
        "name": f"{pool.name}-pool",
        "namespace": pool.namespace,
        "labels": labels,
        "ownerReferences": [_owner(pool)],
    }
    template = {"metadata": {"labels": labels}, "spec": _pod(pool, image, settings, tokens)}
    made: list[Object] = []
    if settings.network_policy.enabled:
        made.append(make_network_policy(metadata, selector, settings.network_policy, engine=True, downloads=False))
    made.append(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": selector},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "revisionHistoryLimit": 2,
                "progressDeadlineSeconds": SLOWEST_START_S,
                "template": with_template_hash(template),
            },
        }
    )
    return tuple(with_hash(one) for one in made)


def _owner(pool: PoolObject) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": POOL_KIND,
        "name": pool.name,
        "uid": pool.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _pod(pool: PoolObject, image: str, settings: EngineSettings, tokens: AgentTokens) -> Object:
    drain_s = round(settings.drain_seconds)
    defaults = container_defaults(settings)
    agent = _agent(settings, tokens.told(agent_owner(pool.id))) | {"restartPolicy": "Always"}
    pod: Object = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
        "securityContext": POD_SECURITY,
        "terminationGracePeriodSeconds": drain_s + LONGEST_HOLD_S + 15,
        "initContainers": [agent | defaults],
        "containers": [_triton(pool, image, drain_s) | defaults],
        "volumes": [
            *(
                {"name": f"claim-{place}", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
                for place, claim in enumerate(pool.spec.claims)
            ),
            {"name": "repository", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": settings.shm_size}},
        ],
    }
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return pod


def _agent(settings: EngineSettings, token_hash: str) -> Object:
    probe = {"httpGet": {"path": "/livez", "port": AGENT_PORT}, "timeoutSeconds": 5}
    return {
        "name": AGENT,
        "image": settings.agent_image,
        "command": ["conch-engine-agent", "pool"],
        "env": [{"name": "CONCH_TOKEN_SHA256", "value": token_hash}],
        "ports": [{"name": "agent", "containerPort": AGENT_PORT}],
        "resources": resources_beside(REPORTING, settings),
        "startupProbe": probe | {"periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": probe | {"periodSeconds": 20, "failureThreshold": 3},
        "volumeMounts": [{"name": "repository", "mountPath": str(POOL_REPOSITORY)}],
    }


def _triton(pool: PoolObject, image: str, drain_s: int) -> Object:
    options: dict[str, object] = {
        "model-repository": POOL_REPOSITORY,
        "backend-directory": "/opt/tritonserver/backends",
        "model-control-mode": "explicit",
        "exit-on-error": "false",
        "exit-timeout-secs": drain_s,
        "disable-auto-complete-config": None,
        "grpc-infer-allocation-pool-size": 64,
        **ports_and_keepalive(),
    }
    # A server that could not load one model says for good that it is not ready, so it is asked whether it lives.
    live = "/v2/health/live"
    return {
        "name": TRITON,
        "image": image,
        "command": [SERVER],
        "args": [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()],
        "env": [{"name": "HOME", "value": "/tmp"}],
        "ports": [
            {"name": "http", "containerPort": TRITON_HTTP_PORT},
            {"name": "grpc", "containerPort": TRITON_GRPC_PORT},
            {"name": "metrics", "containerPort": TRITON_METRICS_PORT},
        ],
        "resources": pool_resources(int(quantity_value(pool.spec.memory))),
        "startupProbe": engine_probe(live, "http", period_s=1, failures=SLOWEST_START_S),
        "readinessProbe": engine_probe(live, "http", period_s=2, failures=3),
        "livenessProbe": engine_probe(live, "http", period_s=5, failures=3)
        | {"terminationGracePeriodSeconds": HANGS_END_S},
        "lifecycle": {"preStop": {"httpGet": {"path": WITHDRAWN_PATH, "port": AGENT_PORT}}},
        "volumeMounts": [
            *(
                {"name": f"claim-{place}", "mountPath": f"{CLAIMS}/{claim}", "readOnly": True}
                for place, claim in enumerate(pool.spec.claims)
            ),
            {"name": "repository", "mountPath": str(POOL_REPOSITORY), "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
