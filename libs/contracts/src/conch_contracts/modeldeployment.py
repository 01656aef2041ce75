"""The ModelDeployment: what a user writes, on a laptop and on a cluster alike.

The parts of its spec live in `conch_contracts.spec`; this module puts them together and holds the rules that span
several fields.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conch_contracts.cpu_runtime import Quantization
from conch_contracts.names import API_VERSION, KIND, LOCAL_NAMESPACE, ModelId, PoolId, ServedName
from conch_contracts.problems import InvalidObject, Problem, problems_of, without_unknown_fields
from conch_contracts.records import ContentFormat, Dialect, ModelKind, Profile, StreamUsage
from conch_contracts.spec.encoder import AnswerCacheSpec, EmbeddingSpec, TensorsSpec
from conch_contracts.spec.engine import EngineSpec
from conch_contracts.spec.engine_pool import PlacementSpec
from conch_contracts.spec.fields import (
    MAX_NAME,
    NAME_PATTERN,
    SHORT_NAME_RULE,
    Duration,
    Flag,
    Integer,
    ShortName,
    SpecPart,
)
from conch_contracts.spec.generation import GenerationSpec
from conch_contracts.spec.multimodal import MultimodalSpec
from conch_contracts.spec.routing import RoutingSpec
from conch_contracts.spec.rule_types import Transition, fields_set_in, rule
from conch_contracts.spec.scaling import ScalingSpec
from conch_contracts.spec.served_names import ServedNames
from conch_contracts.spec.source import SourceSpec, TokenizerSpec
from conch_contracts.spec.speech import SpeechSpec

_ENCODERS = "[" + ", ".join(f"'{kind}'" for kind in ModelKind if kind.encodes) + "]"
_OF_SPEECH = tuple(dialect.value for dialect in Dialect if dialect.transcribes)


class Metadata(BaseModel):
    """The part of Kubernetes' object metadata that Conch reads; the rest is Kubernetes' business."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    name: ShortName
    """A DNS label of at most 40 characters: names of engines are made from it."""
    namespace: Annotated[str, Field(pattern=NAME_PATTERN, max_length=63)] = LOCAL_NAMESPACE
    """The namespace; `local` on a laptop."""


class ModelSpec(SpecPart):
    """What to serve, from where, and how."""

    kind: ModelKind
    """What the model does: LLM, Embedding, Rerank, Classify or Transcription. Cannot be changed later."""
    served_names: ServedNames = ()
    """The names that clients put in `model`; the first is canonical, the others are aliases. Default: metadata.name."""
    default: Flag = False
    """Whether the model answers requests without a model name; of several of a kind the oldest does. Default: false."""
    replicas: Annotated[Integer, Field(ge=0, le=1000)] = 1
    """How many engines to run, where `scaling` does not decide it. Default: 1."""
    scaling: ScalingSpec | None = None
    """Has Conch decide how many engines there are, by what there is to do. Default: as many as `replicas` says."""
    placement: PlacementSpec | None = None
    """For encoders on the cpu runtime: has the model share one server with others, in which they take turns where there
    are more than it has room for. On a cluster for sources `path` and `pvc`. Default: engines of its own."""
    progress_deadline: Duration = 600.0
    """How long what the spec asks for may not get on until Progressing is False and Stalled True. It counts from the
    last progress: an edit, a download that goes on, an engine more. Conch goes on trying. Default: 10m."""
    source: SourceSpec
    """Where the model's files come from; exactly one field is set."""
    engine: EngineSpec
    """How its engines are run: exactly one runtime block, and the container and the nodes that its engines get."""
    tokenizer: TokenizerSpec = TokenizerSpec()
    """Settings of its tokenizer."""
    generation: GenerationSpec = GenerationSpec()
    """Defaults for requests."""
    max_tokens: Annotated[Integer, Field(ge=1, le=16_777_216)] | None = None
    """For encoders: the longest input in tokens; a longer one is cut there. Default: what the folder says, and a longer
    input is refused."""
    tensors: TensorsSpec | None = None
    """For encoders: the names of the model's tensors, and what is done with its output."""
    embedding: EmbeddingSpec | None = None
    """For kind Embedding: how a vector is made of the model's output."""
    cache: AnswerCacheSpec | None = None
    """For encoders: whether equal requests may be answered from a cache. Default: they are not."""
    speech: SpeechSpec | None = None
    """For kind Transcription: what the model is asked for."""
    multimodal: MultimodalSpec | None = None
    """For the kinds LLM and Embedding: what a model that sees takes of pictures. Default: the defaults of its
    fields."""
    compat_profile: Profile = Profile.OPENAI
    """Whose habits its answers follow where servers of this API differ: openai, denglin or fastdeploy; for kind
    Transcription openai or vllm. Default: openai."""
    stream_usage: StreamUsage | None = None
    """For kind LLM: where streams of chat and text completions tell the tokens used. asked: in a last frame, for
    requests with include_usage; always: in a last frame, for every request; final-chunk: in the finishing frame of each
    choice, and in a last frame too when asked for. Default: final-chunk in the profile denglin, else asked."""
    routing: RoutingSpec = RoutingSpec()
    """How requests reach its engines."""

    @property
    def compile_claim(self) -> str | None:
        """Return the claim that vLLM's compiled graphs are kept on; None where they stay in each pod."""
        if self.engine.vllm is None:
            return None
        if self.engine.vllm.compile_cache is not None:
            return self.engine.vllm.compile_cache.claim_name
        return self.source.claim_name if self.source.downloaded else None

    @property
    def waits_for_others(self) -> bool:
        """Return whether requests wait for somebody else, who decides how many engines there are, to start one."""
        return self.routing.hold is not None

    @property
    def may_rest(self) -> bool:
        """Return whether there may be no engine while nobody asks for the model, and requests wait for one."""
        to_zero = self.scaling is not None and self.scaling.min_replicas == 0
        return self.placement is not None or to_zero or self.waits_for_others

    same_kind: ClassVar[Transition] = Transition(
        "self.kind == oldSelf.kind",
        "kind cannot be changed: delete the ModelDeployment and make it again, or give the new one another name",
    )

    @rule(
        cel="!has(self.engine.external) || self.replicas == 1",
        message="an external engine is not started by Conch: remove replicas",
    )
    def _external_is_one(self) -> bool:
        return self.engine.external is None or self.replicas == 1

    @rule(
        cel="!has(self.scaling) || self.replicas == 1",
        message="scaling decides how many engines there are: remove replicas (and any HorizontalPodAutoscaler of this "
        "model), or remove scaling",
    )
    def _one_decides_how_many(self) -> bool:
        return self.scaling is None or self.replicas == 1

    @rule(
        cel="!has(self.scaling) || !has(self.engine.external)",
        message="an external engine is not started by Conch, so it cannot scale: remove scaling",
    )
    def _external_does_not_scale(self) -> bool:
        return self.scaling is None or self.engine.external is None

    @rule(
        cel=f"!has(self.placement) || (self.kind in {_ENCODERS} && has(self.engine.cpu))",
        message="placement is for the kinds Embedding, Rerank and Classify with engine.cpu, whose engines are small: "
        "remove it, and the model has engines of its own",
    )
    def _small_engines_are_placed(self) -> bool:
        return self.placement is None or (self.kind.encodes and self.engine.cpu is not None)

    @rule(
        cel="!has(self.placement) || (self.replicas == 1 && !has(self.scaling))",
        message="with placement the pool decides when the model is loaded: remove replicas and scaling, or remove "
        "placement",
    )
    def _a_pool_decides_alone(self) -> bool:
        return self.placement is None or (self.replicas == 1 and self.scaling is None)

    @rule(
        cel="!has(self.routing) || !has(self.routing.hold) || "
        "(!has(self.scaling) && !has(self.placement) && !has(self.engine.external))",
        message="routing.hold is for models whose replicas an autoscaler of yours sets: remove it; scaling has a hold "
        "of its own, and external engines are never started",
    )
    def _others_are_waited_for_where_they_decide(self) -> bool:
        decided = self.scaling or self.placement or self.engine.external
        return self.routing.hold is None or decided is None

    @rule(
        cel=f"self.kind in {_ENCODERS} || !has(self.engine.external) || has(self.engine.external.grpc)",
        message="kinds LLM and Transcription need engine.external.grpc: set it to the host:port of Triton's gRPC "
        "endpoint",
    )
    def _external_streams_have_grpc(self) -> bool:
        external = self.engine.external
        return self.kind.encodes or external is None or external.grpc is not None

    @rule(
        cel="self.kind != 'LLM' || !has(self.engine.external) || has(self.engine.external.dialect)",
        message="kind LLM needs engine.external.dialect: set it to tokens, fastertransformer, tensorrtllm or vllm",
    )
    def _external_llm_has_a_dialect(self) -> bool:
        external = self.engine.external
        return self.kind is not ModelKind.LLM or external is None or external.dialect is not None

    @rule(
        cel=f"(self.kind in {_ENCODERS} || !has(self.engine.onnxruntime)) && (self.kind == 'LLM' || "
        "!(has(self.engine.vllm) || has(self.engine.tensorrtllm) || has(self.engine.fastertransformer)))",
        message="engine.onnxruntime is for Embedding, Rerank and Classify; vllm, tensorrtllm and fastertransformer are "
        "for LLM: choose cpu, python, external or one that suits the kind",
    )
    def _runtime_suits_the_kind(self) -> bool:
        engine = self.engine
        of_gpus = engine.vllm or engine.tensorrtllm or engine.fastertransformer
        return (self.kind.encodes or engine.onnxruntime is None) and (self.kind is ModelKind.LLM or of_gpus is None)

    @rule(
        cel=f"self.kind in {_ENCODERS} || (!has(self.maxTokens) && !has(self.tensors) && !has(self.cache))",
        message="maxTokens, tensors and cache belong to encoders: remove them; kind LLM has generation.maxLength",
    )
    def _encoder_fields_are_for_encoders(self) -> bool:
        return self.kind.encodes or not (set(fields_set_in(self)) & {"maxTokens", "tensors", "cache"})

    @rule(
        cel="self.kind == 'Embedding' || !has(self.embedding)",
        message="embedding belongs to kind Embedding: remove it",
    )
    def _embedding_is_for_embeddings(self) -> bool:
        return self.kind is ModelKind.EMBEDDING or self.embedding is None

    @rule(
        cel="self.kind == 'LLM' || !has(self.generation)",
        message="generation belongs to kind LLM: remove it; encoders have maxTokens, and models of speech take such "
        "numbers from each request",
    )
    def _generation_is_for_llms(self) -> bool:
        return self.kind is ModelKind.LLM or "generation" not in self.model_fields_set

    @rule(
        cel="self.kind != 'Transcription' || !has(self.tokenizer) || (!has(self.tokenizer.chatTemplate) && "
        "(!has(self.tokenizer.contentFormat) || self.tokenizer.contentFormat == 'auto'))",
        message="tokenizer.chatTemplate and contentFormat are not for kind Transcription: remove them",
    )
    def _templates_are_not_for_speech(self) -> bool:
        told = self.tokenizer
        plain = told.chat_template is None and told.content_format is ContentFormat.AUTO
        return plain or self.kind is not ModelKind.TRANSCRIPTION

    @rule(
        cel="self.kind == 'LLM' || !has(self.streamUsage)",
        message="streamUsage belongs to kind LLM: remove it",
    )
    def _stream_usage_is_for_llms(self) -> bool:
        return self.kind is ModelKind.LLM or self.stream_usage is None

    @rule(
        cel="self.kind == 'Transcription' || !has(self.speech)",
        message="speech belongs to kind Transcription: remove it",
    )
    def _speech_is_for_transcriptions(self) -> bool:
        return self.kind is ModelKind.TRANSCRIPTION or self.speech is None

    @rule(
        cel="!has(self.multimodal) || (self.kind in ['LLM', 'Embedding'] && !has(self.engine.fastertransformer))",
        message="multimodal belongs to the kinds LLM and Embedding, and fastertransformer takes text alone: remove it",
    )
    def _pictures_suit_the_kind(self) -> bool:
        sees = self.kind in (ModelKind.LLM, ModelKind.EMBEDDING) and self.engine.fastertransformer is None
        return self.multimodal is None or sees

    @rule(
        cel="!has(self.compatProfile) || (self.kind == 'Transcription' ? self.compatProfile in ['openai', 'vllm'] : "
        "self.compatProfile != 'vllm')",
        message="compatProfile vllm is for Transcription, denglin and fastdeploy are for the other kinds: choose "
        "another, or remove it",
    )
    def _profile_suits_the_kind(self) -> bool:
        if self.kind is ModelKind.TRANSCRIPTION:
            return self.compat_profile in (Profile.OPENAI, Profile.VLLM)
        return self.compat_profile is not Profile.VLLM

    @rule(
        cel="!has(self.generation) || !has(self.generation.minP) || double(self.generation.minP) == 0.0 || "
        "!(has(self.engine.fastertransformer) || has(self.engine.tensorrtllm) || (has(self.engine.external) && "
        "has(self.engine.external.dialect) && self.engine.external.dialect in ['fastertransformer', 'tensorrtllm']))",
        message="generation.minP cannot be obeyed by fastertransformer and tensorrtllm: remove it",
    )
    def _min_p_is_obeyed(self) -> bool:
        engine, external = self.engine, self.engine.external
        without = (Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM)
        lacks = engine.fastertransformer or engine.tensorrtllm or (external and external.dialect in without)
        return not self.generation.min_p or not lacks

    @rule(
        cel="self.kind == 'LLM' || !has(self.engine.cpu) || ((!has(self.engine.cpu.quantization) || "
        "self.engine.cpu.quantization == 'none') && (self.kind == 'Transcription' || "
        "!has(self.engine.cpu.tokensPerSecond) || self.engine.cpu.tokensPerSecond == 0))",
        message="engine.cpu.quantization belongs to kind LLM, tokensPerSecond to LLM and Transcription: remove what "
        "does not belong to this kind",
    )
    def _others_on_cpu_are_plain(self) -> bool:
        cpu = self.engine.cpu
        if self.kind is ModelKind.LLM or cpu is None:
            return True
        return cpu.quantization is Quantization.NONE and not (self.kind.encodes and cpu.tokens_per_second)

    @rule(
        cel="!has(self.engine.external) || !has(self.engine.external.dialect) || "
        f"(self.engine.external.dialect == 'encoder' ? self.kind in {_ENCODERS} : "
        f"self.kind == (self.engine.external.dialect in {[*_OF_SPEECH]} ? 'Transcription' : 'LLM'))",
        message=f"engine.external.dialect is encoder for Embedding, Rerank and Classify, {' or '.join(_OF_SPEECH)} for "
        "Transcription, and another one for LLM",
    )
    def _dialect_suits_the_kind(self) -> bool:
        external = self.engine.external
        if external is None or external.dialect is None:
            return True
        if external.dialect is Dialect.ENCODER:
            return self.kind.encodes
        return self.kind is (ModelKind.TRANSCRIPTION if external.dialect.transcribes else ModelKind.LLM)


class ModelDeployment(SpecPart):
    """One model to serve."""

    api_version: Literal["conch.dev/v1alpha1"]
    """Always conch.dev/v1alpha1."""
    kind: Literal["ModelDeployment"]
    """Always ModelDeployment."""
    metadata: Metadata
    """Its name and namespace."""
    spec: ModelSpec
    """What to serve, from where, and how."""
    status: Mapping[str, Any] | None = Field(default=None, exclude=True)
    """Written by Conch, ignored on input."""

    @rule(
        cel=SHORT_NAME_RULE,
        message=f"metadata.name must be a DNS label of at most {MAX_NAME} characters, without dots: names of engines "
        "are made from it; put other names into spec.servedNames",
    )
    def _name_is_a_short_label(self) -> bool:
        return True  # Metadata has seen to it.

    @property
    def model_id(self) -> ModelId:
        """Return `namespace/name`, the key of everything about this model."""
        return ModelId(f"{self.metadata.namespace}/{self.metadata.name}")

    @property
    def pool_id(self) -> PoolId | None:
        """Return `namespace/name` of the EnginePool that it belongs to; None where its engines are its own."""
        placement = self.spec.placement
        return None if placement is None else PoolId(f"{self.metadata.namespace}/{placement.pool}")

    @property
    def served_names(self) -> tuple[ServedName, ...]:
        """Return the names that clients may say; the object's own name when none are listed."""
        return self.spec.served_names or (ServedName(self.metadata.name),)


def parse(data: Mapping[str, object]) -> ModelDeployment:
    """Return the ModelDeployment that this data describes; raises InvalidObject."""
    if (data.get("apiVersion"), data.get("kind")) != (API_VERSION, KIND):
        raise InvalidObject((_wrong_type(data),))
    try:
        return ModelDeployment.model_validate(data)
    except ValidationError as error:
        raise InvalidObject(problems_of(error, ModelDeployment)) from error


def parse_stored(data: Mapping[str, object]) -> tuple[ModelDeployment, tuple[str, ...]]:
    """Return the ModelDeployment that an API server holds, and the fields that are ignored: nobody here knows them.

    A newer version has let them in. Raises InvalidObject for everything else that is wrong.
    """
    kept, ignored = without_unknown_fields(data, ModelDeployment)
    return parse(kept), ignored


def _wrong_type(data: Mapping[str, object]) -> Problem:
    found = f"apiVersion {data.get('apiVersion', 'missing')}, kind {data.get('kind', 'missing')}"
    return Problem(("kind",), f"expected apiVersion {API_VERSION} and kind {KIND}, found {found}")
