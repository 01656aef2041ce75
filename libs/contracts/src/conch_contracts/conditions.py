"""The vocabulary of a ModelDeployment's status: condition types, reasons, and how a condition changes.

A reason is part of the API: people select and alert on it. Ready is derived from the others, never set by hand: it says
whether a request works now. Whether what the spec asks for is there is what Progressing says.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel


class ConditionType(StrEnum):
    """What a condition is about, in the order in which a model becomes ready."""

    SOURCE_READY = "SourceReady"
    TOKENIZER_READY = "TokenizerReady"
    ENGINE_READY = "EngineReady"
    ROUTE_PUBLISHED = "RoutePublished"
    WORKERS_READY = "WorkersReady"
    APPLIED = "Applied"
    """Whether the cluster takes what is made for the model. Ready does not need it: older engines may serve."""
    PROGRESSING = "Progressing"
    """Whether what the spec asks for is on its way or there; False when it has not got on for `progressDeadline`."""
    RECONCILING = "Reconciling"
    """True while it is on its way. kstatus, and so Helm and Flux, read this one and the next."""
    STALLED = "Stalled"
    """True when it has not got on for `progressDeadline`."""
    READY = "Ready"


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why a condition has its status."""

    READY = "Ready"
    """Nothing is wrong."""
    WAITING = "Waiting"
    """An earlier condition does not hold yet, so this one cannot be judged."""
    NAME_CONFLICT = "NameConflict"
    """Other ModelDeployments hold every served name of this one."""
    NOT_HERE = "NotHere"
    """What the spec asks for is not to be had in this place: some sources and runtimes need a cluster, and not all of
    them are taken by an EnginePool."""
    POOL_NOT_FOUND = "PoolNotFound"
    """There is no EnginePool of the name that `spec.placement` gives; the model goes on once it is there."""
    SPEC_INVALID = "SpecInvalid"
    """The object breaks a rule that the API server did not know of; the message names the field."""
    TOO_LARGE = "TooLarge"
    """The model does not fit into its EnginePool, beside those that are pinned."""
    REJECTED = "Rejected"
    """The API server refused what was made for the model; the message is its own."""
    UNSCHEDULABLE = "Unschedulable"
    """No node can run the engine; the message is the scheduler's."""
    IMAGE_PULL_FAILED = "ImagePullFailed"
    """An image cannot be pulled; the message names it."""
    CONTAINER_NOT_CREATED = "ContainerNotCreated"
    """A container of the engine cannot be made; the message is the node's."""
    SECRET_NOT_FOUND = "SecretNotFound"
    """A Secret that the model names does not exist, or lacks the key; the model goes on once it is there."""
    CLAIM_NOT_FOUND = "ClaimNotFound"
    """The PersistentVolumeClaim that the model names does not exist; the model goes on once it is there."""
    CONFIG_MAP_NOT_FOUND = "ConfigMapNotFound"
    """The ConfigMap with the chat template does not exist, or lacks the key; the model goes on once it is there."""
    VOLUME_NOT_MOUNTED = "VolumeNotMounted"
    """A volume of the engine cannot be mounted; the message is the node's."""
    DOWNLOADING = "Downloading"
    """The model's files are on their way; the message says how far."""
    DOWNLOAD_FAILED = "DownloadFailed"
    """The model's files cannot be brought to the engine; the message is the downloader's last line."""
    SOURCE_NOT_FOUND = "SourceNotFound"
    """The repository, its revision or the bucket does not exist, or holds none of the files that are needed."""
    SOURCE_ACCESS_DENIED = "SourceAccessDenied"
    """The Hub or the bucket refuses the token or the credentials, or wants some."""
    SOURCE_UNREACHABLE = "SourceUnreachable"
    """The Hub or the bucket does not answer; it is tried again."""
    INSUFFICIENT_STORAGE = "InsufficientStorage"
    """The model's files do not fit on the volume."""
    CHECKSUM_MISMATCH = "ChecksumMismatch"
    """A downloaded file is not what its source says it is; it was thrown away and is fetched again."""
    FOLDER_MISSING = "FolderMissing"
    """The folder that spec.source names does not exist."""
    FILES_MISSING = "FilesMissing"
    """The folder lacks a file that the runtime needs."""
    FILES_INVALID = "FilesInvalid"
    """A file of the folder cannot be read as what it should be."""
    TOKENIZER_INVALID = "TokenizerInvalid"
    """The tokenizer files cannot be packed, or the chat template cannot be read."""
    TEMPLATE_INVALID = "TemplateInvalid"
    """The chat template is no Jinja template that compiles; the message has the line."""
    TEMPLATE_UNCHECKED = "TemplateUnchecked"
    """The chat template could not be compiled just now; it is tried again."""
    TOKENIZER_NOT_STORED = "TokenizerNotStored"
    """The tokenizer's bundle cannot be had or is too large; a model that was served before goes on with the old one."""
    REGISTRY_UNAVAILABLE = "RegistryUnavailable"
    """Redis does not answer, so nothing can be published; known routes go on serving."""
    NO_REPLICAS = "NoReplicas"
    """spec.replicas is 0."""
    SCALED_TO_ZERO = "ScaledToZero"
    """The model rests without an engine, or one is starting again; a request is held until it answers."""
    ENGINE_STARTING = "EngineStarting"
    """No engine has answered a request yet."""
    ENGINE_LOAD_FAILED = "EngineLoadFailed"
    """Triton could not load the model; the message is its own."""
    ENGINE_EXITED = "EngineExited"
    """The engine's process ended by itself and is started again."""
    ENGINE_UNREACHABLE = "EngineUnreachable"
    """Nothing answers at the external engine's address, or the agent in the pod of an EnginePool has fallen silent."""
    ENGINE_PROBE_FAILED = "EngineProbeFailed"
    """The engine runs but does not answer a one-token request rightly."""
    WORKERS_MISSING = "WorkersMissing"
    """No process of a pool that the model needs has announced itself."""
    ROUTE_PENDING = "RoutePending"
    """The route has not been written yet."""
    ROLLING_OUT = "RollingOut"
    """Engines of the spec are being started, or those of an older one ended."""
    NEW_ENGINE_AVAILABLE = "NewEngineAvailable"
    """As many engines of the spec serve as it asks for, and none of an older one is left."""
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    """What the spec asks for has not got on for `progressDeadline`; the message has the cause."""
    OPERATOR_REMOVED = "OperatorRemoved"
    """Conch was uninstalled, or serves this namespace no more: nobody serves the model, or looks at its engines."""


ON_THE_WAY = frozenset(
    {
        Reason.WAITING,
        Reason.DOWNLOADING,
        Reason.ENGINE_STARTING,
        Reason.ROUTE_PENDING,
        Reason.ROLLING_OUT,
        Reason.NO_REPLICAS,
        Reason.SCALED_TO_ZERO,
    }
)
"""Reasons with which nothing is wrong."""

_ASKED = (ConditionType.SOURCE_READY, ConditionType.TOKENIZER_READY)
SERVING = (ConditionType.ENGINE_READY, ConditionType.ROUTE_PUBLISHED, ConditionType.WORKERS_READY)
"""The conditions that a request needs; the others are about what the spec asks for."""

MAX_MESSAGE_CHARS = 32_768
"""Of a condition. The API server refuses a status with a longer message, and the one before would stay."""
_CUT = " …"


def _shortened(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_CHARS else message[: MAX_MESSAGE_CHARS - len(_CUT)] + _CUT


_OPEN = WithJsonSchema({"type": "string", "pattern": "^[A-Za-z]+$", "maxLength": 64})
"""The schema knows no list of these words, so that a newer operator can add one."""


class Condition(BaseModel):
    """One statement about an object, as Kubernetes writes them."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    type: Annotated[ConditionType, _OPEN]
    """What it is about."""
    status: ConditionStatus
    """Whether it holds: True, False or Unknown."""
    reason: Annotated[Reason, _OPEN]
    """Why, in one word that can be selected and alerted on."""
    message: Annotated[
        str, BeforeValidator(_shortened), WithJsonSchema({"type": "string", "maxLength": MAX_MESSAGE_CHARS})
    ] = ""
    """Why, and what to do next."""
    last_transition_time: Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
    """RFC 3339; moves only when the status changes."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The metadata.generation that it is about."""

    @property
    def holds(self) -> bool:
        """Return whether it is True."""
        return self.status is ConditionStatus.TRUE


def set_condition(conditions: Sequence[Condition], new: Condition) -> tuple[Condition, ...]:
    """Return the conditions with one replaced or added; its transition time moves only with its status."""
    old = next((condition for condition in conditions if condition.type is new.type), None)
    if old is None:
        return (*conditions, new)
    if old.status is new.status:
        new = new.model_copy(update={"last_transition_time": old.last_transition_time})
    return tuple(new if condition.type is new.type else condition for condition in conditions)


def derive_ready(conditions: Sequence[Condition]) -> tuple[ConditionStatus, Reason, str]:
    """Return status, reason and message of Ready: those of the first condition that does not hold.

    Where an engine serves, only those count that a request needs: it may be of an older spec than is asked for.
    """
    known = {condition.type: condition for condition in conditions}
    engine = known.get(ConditionType.ENGINE_READY)
    serves = engine is not None and engine.status is ConditionStatus.TRUE
    for kind in SERVING if serves else (*_ASKED, *SERVING):
        condition = known.get(kind)
        if condition is not None and condition.status is not ConditionStatus.TRUE:
            return condition.status, condition.reason, condition.message
    return ConditionStatus.TRUE, Reason.READY, ""
