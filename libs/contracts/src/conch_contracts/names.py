"""Every name, port and key that two parts of Conch must agree on, written once.

Nothing here does anything; whoever needs a label, a port or a Redis key imports it from here.
"""

from typing import Final, NewType

ModelId = NewType("ModelId", str)
"""`namespace/name` of a ModelDeployment (`local/name` on a laptop): the key of everything in Redis."""

PoolId = NewType("PoolId", str)
"""`namespace/name` of an EnginePool."""

ServedName = NewType("ServedName", str)
"""A name that clients put in `model`."""

EngineAddress = NewType("EngineAddress", str)
"""`host:port` of an engine's gRPC endpoint, or `http://host:port` of an encoder's engine that has HTTP alone.

Once it is checked, what is dialled stands there instead: see `conch_kit.triton.checked_addresses`."""

WorkerUrl = NewType("WorkerUrl", str)
"""`http://host:port` of one worker or tokenizer process."""

Digest = NewType("Digest", str)
"""SHA-256 of a tokenizer bundle, 64 lower-case hex digits."""

# --- the custom resource -------------------------------------------------------------------------

GROUP = "conch.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "ModelDeployment"
PLURAL = "modeldeployments"
SHORT_NAME = "mdep"
POOL_KIND = "EnginePool"
POOL_PLURAL = "enginepools"
POOL_SHORT_NAME = "epool"
LOCAL_NAMESPACE = "local"

# --- ports ---------------------------------------------------------------------------------------

GATEWAY_PORT = 8000
"""The gateway's public port."""
ADMIN_PORT = 9090
"""Health and metrics of every service; never reachable through the ingress."""
SERVICE_PORT = 8080
"""The internal port of tokenizer and workers on Kubernetes."""
TRITON_HTTP_PORT = 8000
TRITON_GRPC_PORT = 8001
TRITON_METRICS_PORT = 8002
EXTERNAL_SCALER_PORT = 9092
"""Where every operator answers KEDA on Kubernetes, over gRPC."""
REDIS_PORT = 6379
"""The bundled Redis on Kubernetes."""
AGENT_PORT = 9091
"""The process beside each engine on Kubernetes; asked by the operator and, when a pod ends, by the kubelet."""

# --- objects on Kubernetes -----------------------------------------------------------------------

MODEL_LABEL = f"{GROUP}/model-deployment"
"""On everything that is made for a ModelDeployment: its name."""
POOL_LABEL = f"{GROUP}/engine-pool"
"""On everything that is made for an EnginePool: its name."""
SPEC_HASH_LABEL = f"{GROUP}/spec-hash"
"""On everything that the operator makes: a hash of what it was made as."""
ENGINE_ANNOTATION = f"{GROUP}/engine"
"""On an engine's pod, as JSON: how requests reach the model in it."""
SOURCE_ANNOTATION = f"{GROUP}/source-hash"
"""On an engine's pod: a hash of the source that its agent reads."""
SERVING_GATE = f"{GROUP}/serving"
"""The readiness gate of an engine's pod: a request through it was answered, and its route is published."""
NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
COMPONENT_LABEL = "app.kubernetes.io/component"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
OPERATOR = "conch-operator"
"""Who manages what it makes, and its field manager."""
ENGINE_COMPONENT = "engine"
READER_COMPONENT = "source-reader"
POOL_COMPONENT = "engine-pool"
"""Of an agent in the pod of an EnginePool. The pod's own label says `engine`: who may call engines may call it."""
SCRAPED_LABEL = f"{GROUP}/scraped"
"""`true` on pods whose admin port has metrics."""

# --- the registry, schema version 1 --------------------------------------------------------------

SCHEMA_VERSION: Final = 1
KEY_PREFIX = "conch:1:"
META_KEY = KEY_PREFIX + "meta"
ROUTES_KEY = KEY_PREFIX + "routes"
CHANGED_KEY = KEY_PREFIX + "changed"
"""Models that came, changed or went of late, each with the revision that did it."""
GATEWAYS_KEY = KEY_PREFIX + "gateways"
LOADS_KEY = KEY_PREFIX + "loads"
"""What each gateway has to do, by its id; also the channel that carries each new `GatewayLoad`."""
WAKES_KEY = KEY_PREFIX + "wakes"
"""Models that somebody asked to be awake, by model id: until when, in Unix seconds."""
RESERVED_KEY = KEY_PREFIX + "reserved"
"""The hash that holds the names of deleted models for a while: each with its end in Unix seconds, and the model."""
CHANGES_CHANNEL = KEY_PREFIX + "changes"


def engines_key(model: ModelId) -> str:
    """Return the hash that holds the engines of one model."""
    return f"{KEY_PREFIX}engines:{model}"


def workers_key(pool: str) -> str:
    """Return the hash that holds the live processes of one pool."""
    return f"{KEY_PREFIX}workers:{pool}"


def bundle_key(digest: Digest) -> str:
    """Return the key of one tokenizer bundle."""
    return f"{KEY_PREFIX}bundles:{digest}"


CACHE_PREFIX = "conch:cache:1:"
"""Of answers that the gateway keeps; each has a time to live, so none can push out a route."""

RESPONSE_PREFIX = "conch:response:1:"
"""Of answers that clients may come back to; they have a time to live as well."""

MAX_BUNDLE_BYTES = 64 * 1024 * 1024

# --- error codes that one service reads from another ---------------------------------------------

SERVER_SHUTTING_DOWN = "server_shutting_down"
"""The process that says so ends; whatever it would have used is well."""
TOKENIZER_NOT_READY = "tokenizer_not_ready"
"""The process that says so cannot get the tokenizer bundle; another one may have it."""
WORKER_STORAGE_FULL = "worker_storage_full"
"""The process that says so has no room for a file on its disk; another one may have it."""

# --- internal HTTP -------------------------------------------------------------------------------

PREPARE_PATH = "/internal/v1/prepare"
PREPARE_ROWS_PATH = "/internal/v1/prepare-rows"
GENERATE_PATH = "/internal/v1/generate"
ENCODE_PATH = "/internal/v1/encode"
TRANSCRIBE_PATH = "/internal/v1/transcribe"
CHECK_GRAMMAR_PATH = "/internal/v1/check-grammar"
TOKENIZE_PATH = "/internal/v1/tokenize"
DETOKENIZE_PATH = "/internal/v1/detokenize"
FETCH_PICTURE_PATH = "/internal/v1/fetch-picture"
LANE_PATH = "/internal/v1/lane"
"""Where a gateway's connection becomes a lane, see `messages.tokenizer_frames`."""
