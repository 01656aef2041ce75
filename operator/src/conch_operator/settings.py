"""The operator's settings: a few variables of its environment, and one file about the release that it belongs to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from conch_contracts.records import ModelKind
from conch_contracts.spec.container import ResourcesSpec
from conch_contracts.spec.runtimes import Runtime
from conch_kit.addresses.rules import AddressRules
from conch_kit.settings import Port, ServiceSettings, SettingsError


class OperatorSettings(ServiceSettings):
    """The environment; each field is the variable `CONCH_<FIELD>`."""

    host: str = "127.0.0.1"
    """Where every service listens; the operator has nothing to serve there but a 404, so it takes this host alone."""
    port: Port = 0
    """Any free one, likewise: health and metrics are on the admin port."""
    internal_token: SecretStr
    """The release's secret, from which the tokens of engines' agents are derived."""
    settings_file: Path
    """The file about the release."""
    pod_name: str
    """Who we are among several operators; unique in the namespace."""
    round_s: float = Field(default=10.0, gt=0)
    """How often everything is looked at when nothing has happened, in seconds."""
    watch_stale_s: float = Field(default=20.0, gt=0)
    """How long no event and no bookmark may come out of a watch before everything is listed again, in seconds. The API
    server is asked to end a watch before, with a bookmark, after four fifths of it."""
    external_scaler_host: str = "0.0.0.0"
    """Where KEDA is answered, by every operator."""
    external_scaler_port: Port | None = None
    """The port for that; None: KEDA is not answered."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class ReleaseSettings(_Part):
    """The release that this operator is part of."""

    name: str
    namespace: str


class OwnerSettings(_Part):
    """The object that owns what the operator makes in the release's namespace."""

    api_version: str
    kind: str
    name: str


class DownloadSettings(_Part):
    """What containers that download get."""

    env: Mapping[str, str] = {}
    ca_bundle: str = ""


class NetworkPolicySettings(_Part):
    """Who may call an engine, as peers of a NetworkPolicy."""

    enabled: bool = False
    from_: Annotated[tuple[dict[str, Any], ...], Field(alias="from")] = ()
    """Who may call Triton."""
    agent_from: tuple[dict[str, Any], ...] = ()
    """Who may call the agent beside it; none means nobody."""
    metrics_from: tuple[dict[str, Any], ...] = ()
    """Who may read Triton's metrics; none means everybody in the cluster."""

    @model_validator(mode="after")
    def _closed(self) -> Self:
        """Refuse what would be open to everybody: a rule without peers lets all in."""
        if self.enabled and not (self.from_ and self.agent_from):
            raise ValueError("from and agentFrom must name who may call an engine and its agent")
        return self


class EngineSettings(_Part):
    """Images, and what every engine's pod gets."""

    agent_image: str
    """The operator's own image, which also holds the agent beside each engine."""
    images: Mapping[Runtime, str] = {}
    """The image of each runtime for models that name none; without one they must."""
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    init_resources: ResourcesSpec = ResourcesSpec()
    """What the containers beside an engine get, over the operator's own defaults; a model may say otherwise."""
    shm_size: str = "1Gi"
    """Of /dev/shm, where Triton and its Python stubs exchange tensors."""
    drain_seconds: float = Field(default=300.0, ge=1)
    """How long an engine that ends may go on with the answers that it has begun: as long as gateways and workers may,
    so that a rollout cuts no answer that they let through. A long drain slows the deletion of a namespace, too: while
    such a pod remains, Kubernetes looks at the namespace again only after half of that time."""
    node_wait_seconds: float = Field(default=0.0, ge=0)
    """How long requests wait for an engine that no node has room for, where the cluster adds nodes; 0: not at all."""
    downloads: DownloadSettings = DownloadSettings()
    addresses: AddressRules | None = None
    """Which addresses ModelDeployments may name; None: any."""
    network_policy: NetworkPolicySettings = NetworkPolicySettings()


class WorkerPoolSettings(_Part):
    """One pool of workers, with its objects complete but for replicas and owner."""

    kinds: frozenset[ModelKind]
    """It runs while a model of one of these kinds exists."""
    min_replicas: int = Field(default=1, ge=1)
    max_replicas: int = Field(default=1, ge=1)
    requests_per_worker: int = Field(default=64, ge=1)
    """Requests in flight that one worker is for; with more, and within the bounds, more workers run."""
    idle_seconds: float = Field(default=60, ge=0)
    """How long it stays after the last such model has gone."""
    objects: Mapping[str, dict[str, Any]]


class ReleaseFile(_Part):
    """The whole file that CONCH_SETTINGS_FILE names."""

    release: ReleaseSettings
    owner: OwnerSettings | None = None
    lease: str = "conch-operator"
    """The name of the Lease that one of several operators holds."""
    watch_namespaces: tuple[str, ...] = ()
    """The namespaces whose ModelDeployments are served; none: all."""
    namespaced_names: bool = False
    """Whether models are served under names that begin with their namespace."""
    engines: EngineSettings
    worker_pools: Mapping[str, WorkerPoolSettings] = {}


def read_release(path: Path) -> ReleaseFile:
    """Return what the file says; raises SettingsError that names the field."""
    try:
        return ReleaseFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"CONCH_SETTINGS_FILE: {path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is no YAML: {error}") from error
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise SettingsError(f"{path}: {'; '.join(faults)}") from error
