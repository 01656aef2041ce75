"""What reconciling works on, as frozen data: `plan` compares an Observed with a Desired, `status` describes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NewType

from conch_contracts.conditions import Reason
from conch_contracts.cpu_runtime import Quantization
from conch_contracts.modeldeployment import ModelDeployment
from conch_contracts.names import Digest, EngineAddress, ModelId, PoolId, ServedName
from conch_contracts.records import ChatProfile, Dialect, Engine, Pool, Pooling, Route
from conch_contracts.spec.engine_pool import EnginePoolSpec

EngineName = NewType("EngineName", str)
"""Names one engine on its cluster."""

RoutedModel = tuple[Route, tuple[Engine, ...]]
"""A model as the data plane knows it."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """What was decided about the engines of a model that scales."""

    engines: int
    """How many it is to have."""
    draining: bool = False
    """Whether they are to get nothing more, since all are about to go."""
    cause: str = ""
    """Why so many, in one word."""
    changed_at: str | None = None
    """When the number last changed, RFC 3339."""
    start_s: float | None = None
    """How long a start takes, as measured."""
    wakes: bool = False
    """Whether a request can count on an engine that starts for it: one of this spec has answered, and none fails."""
    tries_edit: bool = False
    """Whether an engine of an edited spec is being started, the first one, and nothing says yet that it fails."""
    failure: str | None = None
    """Why an engine does not start."""
    taken: Mapping[EngineAddress, int] = field(default_factory=dict)
    """How many slots of each engine are taken: the emptiest goes first."""
    memory_bytes: int | None = None
    """How much memory its engine takes, as measured."""
    obstacle: "Fault | None" = None
    """What keeps it from an engine that it is to have, where no engine says so."""
    order: int = field(default=0, compare=False)
    """Of two decisions about a model the one with the higher number was made later."""


@dataclass(frozen=True, slots=True)
class DesiredModel:
    """One ModelDeployment that should be served."""

    deployment: ModelDeployment
    base: Path
    """What relative paths in it are relative to."""
    created: int
    """Unix seconds; of two models that want a served name that nobody holds the older gets it."""
    generation: int = 0
    """Grows with each change of the spec; 0 where nobody counts."""
    uid: str = ""
    """What Kubernetes calls this very object; empty on a laptop."""
    scaled: Scaled | None = None
    """How many engines it is to have now, where that is decided by load, or requests wait for who decides it."""
    id: ModelId = field(init=False)
    """The model's id; a round looks at it dozens of times."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", self.deployment.model_id)

    @property
    def replicas(self) -> int:
        """Return how many engines it is to have."""
        if self.scaled is not None:
            return self.scaled.engines
        spec = self.deployment.spec
        return spec.replicas if spec.scaling is None else max(1, spec.scaling.min_replicas)

    @property
    def wakes(self) -> bool:
        """Return whether a request can count on an engine that starts for it, where none answers."""
        return self.scaled is not None and self.scaled.wakes and self.deployment.spec.may_rest

    @property
    def drains(self) -> bool:
        """Return whether its engines are to get nothing more: all are about to go, or told to and not yet gone."""
        return self.scaled is not None and (self.scaled.draining or self.scaled.engines == 0)

    @property
    def namespace(self) -> str:
        """Return the namespace of whoever wrote it."""
        return self.id.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why an object is no ModelDeployment to this version: another version's schema has let it in."""

    message: str
    generation: int


@dataclass(frozen=True, slots=True)
class Desired:
    """Everything that should be served: a complete list, so what is missing in it is to go."""

    models: tuple[DesiredModel, ...] = ()
    unreadable: Mapping[ModelId, Unreadable] = field(default_factory=dict)
    """Models whose objects exist but cannot be parsed: what serves them goes on as it is."""
    pools: Mapping[PoolId, EnginePoolSpec] = field(default_factory=dict)
    """Engines that many models share."""
    namespaced: bool = False
    """Whether each name is served with its namespace before it, so that no two namespaces want the same one."""


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """What a model's folder says about an encoder; None where it says nothing."""

    pooling: Pooling | None = None
    normalize: bool | None = None
    matryoshka: bool = False
    labels: tuple[str, ...] = ()
    several_labels: bool = False
    """Whether a text may have several classes at once."""
    max_tokens: int | None = None
    """The longest text that it was made for."""
    sees: bool = False
    """Whether it makes vectors of texts and of pictures."""


@dataclass(frozen=True, slots=True)
class GenerationFacts:
    """What a model's folder says about sampling; None where it says nothing."""

    eos_token_ids: tuple[int, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


@dataclass(frozen=True, slots=True)
class SpeechFacts:
    """What a model's folder says about a model of speech."""

    languages: tuple[str, ...] = ()
    """ISO 639-1 codes; empty where it knows one language."""
    translates: bool = False
    word_times: bool = False
    prompt_ids: tuple[int, ...] = ()
    """What its decoder is given to write down what is said, in one of its languages."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What a model's folder says."""

    folder: Path
    digest: Digest
    """Of the tokenizer bundle."""
    weights: str
    """Changes with the files that an engine loads."""
    vocab_size: int
    max_position_embeddings: int | None
    chat_template: str | None
    """The one that the ModelDeployment sets instead of the folder's."""
    generation: GenerationFacts = GenerationFacts()
    chat: ChatProfile = field(default_factory=ChatProfile)
    """What the folder's own chat template shows."""
    encoder: EncoderFacts = EncoderFacts()
    speech: SpeechFacts = SpeechFacts()
    sees: bool = False
    """Whether it holds a language model that sees pictures."""
    weight_bytes: int = 0
    """How large its weights are on the disk; 0 where nobody says."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What stands in a model's way: the root cause and the next step, in words."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class SourceFault(Fault):
    """Why a model's folder cannot be served."""

    is_of_now: bool = False
    """Whether the folder is read in each round; else this is what the last engine's agent has found."""
    folder: Path | None = field(default=None, compare=False)
    """Which folder that is, where it is read in each round."""


@dataclass(frozen=True, slots=True)
class EngineContract:
    """How requests reach the model inside one engine."""

    triton_model: str
    dialect: Dialect
    slots: int
    """Requests that the gateway sends to it at once."""
    max_length: int | None = None
    """The most tokens of a sequence that it was started for; None: what the spec and the folder say."""


@dataclass(frozen=True, slots=True)
class EngineRecipe:
    """All that one engine process is made from; two engines with equal recipes are interchangeable."""

    folder: Path
    weights: str
    triton_model: str
    quantization: Quantization
    max_batch_size: int
    tokens_per_second: int
    max_length: int | None = None
    """The most tokens of a sequence; None for what the model was made for."""
    output: str | None = None
    """What an encoder gives, see `conch_contracts.dialects.encoder`; None for every other model."""
    dialect: Dialect = Dialect.TOKENS
    """With which it is spoken to, where it is no encoder: `tokens` or `speech`."""
    sees: bool = False
    """Whether it takes pictures."""
    pool: PoolId | None = None
    """The pool whose server it is loaded into; None: it gets a server of its own."""


@dataclass(frozen=True, slots=True)
class EngineComponent:
    """One engine that should run."""

    name: EngineName
    model: ModelId
    spec_hash: str
    recipe: EngineRecipe
    contract: EngineContract
    tokenizer: Digest
    """The tokenizer of the folder that it is started with."""


class EnginePhase(StrEnum):
    """Where an engine's process is in its life, as the cluster sees it."""

    STARTING = "starting"
    INITIALIZED = "initialized"
    """Nothing comes before it any more, so it may run: a cluster tells of that up to a second late."""
    RUNNING = "running"
    EXITED = "exited"
    """It ended by itself; the cluster starts it again after a pause."""
    BLOCKED = "blocked"
    """The cluster cannot start it; its fault says why."""
    LEAVING = "leaving"
    """It is to end, and serves until the operator lets it end."""
    STOPPING = "stopping"


class ProbeVerdict(StrEnum):
    """What the last one-token request through an engine showed."""

    PENDING = "pending"
    READY = "ready"
    FAILING = "failing"
    DEAD = "dead"
    """It will not answer again by itself: to be started again."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The last verdict on an engine, with the root cause in words."""

    verdict: ProbeVerdict = ProbeVerdict.PENDING
    reason: Reason = Reason.ENGINE_STARTING
    message: str = ""


@dataclass(frozen=True, slots=True)
class ClusterEngine:
    """One engine as the cluster reports it."""

    name: EngineName
    model: ModelId
    spec_hash: str
    contract: EngineContract
    phase: EnginePhase
    grpc: EngineAddress
    incarnation: int = 0
    """Grows with each start, so that a verdict on the last process is not taken for one on this one."""
    detail: str = ""
    """How the last process ended, and the last lines that it wrote."""
    fault: Fault | None = None
    """Why the cluster cannot start it."""
    created: int | None = None
    """Unix seconds at which the cluster made it; None where nobody says."""
    memory_bytes: int | None = None
    """How much memory it takes, as measured; None where nobody does."""
    pool: PoolId | None = None
    """In whose server it is, on a cluster that makes other engines by itself."""
    folder: Path | None = None
    """The model folder that it loads; None where nobody says."""
    comes_back: bool = True
    """Whether the cluster starts it again when it has ended; else another one takes its place."""


@dataclass(frozen=True, slots=True)
class ObservedEngine:
    """An engine with its last verdict, and whether gateways still use it."""

    engine: ClusterEngine
    probe: Probe = Probe()
    withdrawn: bool = False
    """No gateway sends it new requests any more."""
    tokenizer: Digest | None = None
    """The tokenizer of the folder that it was started with; None where nobody knows."""

    @property
    def name(self) -> EngineName:
        """Return the engine's name."""
        return self.engine.name

    @property
    def ready(self) -> bool:
        """Return whether requests may go to it."""
        may_run = self.engine.phase in (EnginePhase.INITIALIZED, EnginePhase.RUNNING)
        return may_run and self.probe.verdict is ProbeVerdict.READY

    @property
    def stays(self) -> bool:
        """Return whether nobody has begun to end it."""
        return self.engine.phase not in (EnginePhase.LEAVING, EnginePhase.STOPPING)

    @property
    def leaving(self) -> bool:
        """Return whether it answers, but is about to end."""
        return self.engine.phase is EnginePhase.LEAVING and self.probe.verdict is ProbeVerdict.READY


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that a plan is made from."""

    sources: Mapping[ModelId, SourceFacts | SourceFault] = field(default_factory=dict)
    engines: tuple[ObservedEngine, ...] = ()
    external: Mapping[ModelId, Probe] = field(default_factory=dict)
    """Verdicts on the engines that someone else runs."""
    replaced: Mapping[ModelId, Probe] = field(default_factory=dict)
    """Verdicts on those that the registry holds though the spec now names another: they serve until it answers."""
    workers: Mapping[Pool, int] = field(default_factory=dict)
    """How many processes of each pool announce themselves."""
    routes: Mapping[ModelId, Route] = field(default_factory=dict)
    """What the registry holds from earlier rounds, of this process or another."""
    held_engines: Mapping[ModelId, tuple[Engine, ...]] = field(default_factory=dict)
    """The engines that it holds for each."""
    routed: Mapping[ModelId, RoutedModel] = field(default_factory=dict)
    """What the registry held when this operator first read it; it stands until the operator has observed for itself."""
    unstored: Mapping[Digest, str] = field(default_factory=dict)
    """Tokenizer bundles that the registry lacks, each with the reason why it cannot be had now."""
    reserved: Mapping[ServedName, ModelId] = field(default_factory=dict)
    """Names of models that were deleted a moment ago."""
    rejected: Mapping[ModelId, Fault] = field(default_factory=dict)
    """Why the cluster refused what was made for a model."""
    unapplied: frozenset[ModelId] = frozenset()
    """Models of which the cluster has not said yet whether it takes what is made for this generation of their spec."""
    specs: Mapping[ModelId, str] = field(default_factory=dict)
    """The spec hash of engines that are as a model's spec asks for now; where nobody can tell, it is left out."""
    gateways: frozenset[str] = frozenset()
    """The gateways that live."""
    registry_answered: bool = True
    """Whether this operator has read the registry once; before that, empty `routes` mean nothing."""
    revision: int = 0
    """Of the registry, when it held these routes and engines."""
    _by_model: Mapping[ModelId, tuple[ObservedEngine, ...]] = field(init=False, repr=False, compare=False)
    """The engines of each model: a round asks for them about ten times for each of many models."""

    def __post_init__(self) -> None:
        found: dict[ModelId, list[ObservedEngine]] = {}
        for engine in self.engines:
            found.setdefault(engine.engine.model, []).append(engine)
        object.__setattr__(self, "_by_model", {model: tuple(engines) for model, engines in found.items()})

    def engines_of(self, model: ModelId) -> tuple[ObservedEngine, ...]:
        """Return the engines of one model, in the cluster's order."""
        return self._by_model.get(model, ())

    def updated_engines_of(self, model: ModelId) -> tuple[ObservedEngine, ...]:
        """Return the engines of one model that are as its spec asks for now, and stay."""
        spec = self.specs.get(model)
        return tuple(engine for engine in self.engines_of(model) if engine.stays and engine.engine.spec_hash == spec)

    def lacks_tokenizer(self, model: ModelId, facts: SourceFacts) -> bool:
        """Return whether a model must stay with its old tokenizer, because the bundle of this one cannot be had."""
        known = self.routes.get(model)
        return facts.digest in self.unstored and (known is None or known.tokenizer_digest != facts.digest)
