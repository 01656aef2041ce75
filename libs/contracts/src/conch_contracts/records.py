"""What the registry holds, as frozen types: routes, engines, workers, gateways.

Only the operator writes routes and engines; every process writes its own heartbeat. Readers keep unknown fields
tolerant, so that an older process can read what a newer one wrote.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from conch_contracts.names import SCHEMA_VERSION, Digest, EngineAddress, ModelId, ServedName, WorkerUrl
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser


class ModelKind(StrEnum):
    """What a model does."""

    LLM = "LLM"
    EMBEDDING = "Embedding"
    RERANK = "Rerank"
    CLASSIFY = "Classify"
    TRANSCRIPTION = "Transcription"

    @property
    def encodes(self) -> bool:
        """Whether a model of this kind turns texts into numbers."""
        return self in (ModelKind.EMBEDDING, ModelKind.RERANK, ModelKind.CLASSIFY)


class Dialect(StrEnum):
    """The tensor contract that a worker speaks with an engine."""

    TOKENS = "tokens"
    FASTERTRANSFORMER = "fastertransformer"
    TENSORRTLLM = "tensorrtllm"
    VLLM = "vllm"
    ENCODER = "encoder"
    SPEECH = "speech"
    WHISPER_BLS = "whisper_bls"

    @property
    def transcribes(self) -> bool:
        """Whether models of speech speak it."""
        return self in (Dialect.SPEECH, Dialect.WHISPER_BLS)


class TextOutput(StrEnum):
    """What each message holds of an engine that answers with text."""

    DELTA = "Delta"
    """What is new since the message before."""
    CUMULATIVE = "Cumulative"
    """The whole answer so far."""


class ContentFormat(StrEnum):
    """In which form a chat template gets what a message says."""

    AUTO = "auto"
    """As the template takes it."""
    STRING = "string"
    """One text; parts are joined by line breaks."""
    OPENAI = "openai"
    """A list of parts, `{"type": "text", "text": …}`; what a tool answers stays one text."""


class Pool(StrEnum):
    """The kinds of process that announce themselves with a heartbeat."""

    LLM = "llm"
    EMBED = "embed"
    SPEECH = "speech"
    TOKENIZER = "tokenizer"


def needed_pools(kind: ModelKind) -> tuple[Pool, ...]:
    """Return the pools of processes that requests to a model of this kind need, beside an engine."""
    match kind:
        case ModelKind.LLM:
            return Pool.TOKENIZER, Pool.LLM
        case ModelKind.EMBEDDING | ModelKind.RERANK | ModelKind.CLASSIFY:
            return Pool.TOKENIZER, Pool.EMBED
        case ModelKind.TRANSCRIPTION:
            return Pool.TOKENIZER, Pool.SPEECH


class Pooling(StrEnum):
    """How one vector is made of the vectors of a text's tokens."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"


class Activation(StrEnum):
    """How scores are made of logits."""

    NONE = "none"
    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"


class RoutingStrategy(StrEnum):
    """How the gateway chooses between the engines of one model."""

    LEAST_LOAD = "LeastLoad"


class Profile(StrEnum):
    """Whose habits answers follow where the sources of the API contradict each other."""

    OPENAI = "openai"
    DENGLIN = "denglin"
    FASTDEPLOY = "fastdeploy"
    VLLM = "vllm"
    """Of transcriptions alone: vLLM's frames of a stream, its codes of languages, whole seconds of usage."""


class StreamUsage(StrEnum):
    """Where the streams of a model tell the tokens used."""

    ASKED = "asked"
    """In a last frame of its own, for requests that ask for it."""
    ALWAYS = "always"
    """In a last frame of its own, for every request."""
    FINAL_CHUNK = "final-chunk"
    """In the finishing frame of each choice, and in a last frame too for requests that ask for it."""


class Record(BaseModel):
    """A frozen record that tolerates fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="ignore")


BundleDigest = Annotated[Digest, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""The name of a tokenizer bundle, checked where it enters a process, because it becomes the name of a folder."""


class RoutingPolicy(Record):
    """How requests for one model are admitted, placed and timed out."""

    strategy: RoutingStrategy = RoutingStrategy.LEAST_LOAD
    """The only one so far, so nobody reads it."""
    queue_max: int = 200
    """Requests that may wait for a free engine slot; one more is a 429."""
    queue_wait_s: float = 30.0
    timeout_s: float = 600.0
    first_token_timeout_s: float = 120.0
    inter_token_timeout_s: float = 30.0


class GenerationDefaults(Record):
    """What a request gets when it does not say otherwise, and what is always sent to the engine."""

    start_id: int | None = None
    end_id: int | None = None
    max_tokens: int | None = None
    """Output tokens when the request names no limit; None: the rest of the context."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    fill_in: str | None = None
    """How `{prefix}` and `{suffix}` are put together for a model that fills in the middle."""
    bad_words: tuple[tuple[int, ...], ...] = ()
    stop_words: tuple[tuple[int, ...], ...] = ()
    mask_positions: int | None = None


class ChatProfile(Record):
    """In which forms a model reads messages, thinks and calls tools."""

    reasoning: ReasoningParser = ReasoningParser.NONE
    tool_calls: ToolCallParser = ToolCallParser.NONE
    takes_tools: bool = False
    """Whether the chat template has a place for tools."""
    content_format: ContentFormat = ContentFormat.AUTO
    """Of the model's chat template; one that a request brings is always looked at."""


class EncoderProfile(Record):
    """How the output of an encoder becomes an answer."""

    pooling: Pooling = Pooling.MEAN
    normalize: bool = True
    """Whether embeddings are scaled to length 1."""
    activation: Activation = Activation.SIGMOID
    matryoshka: bool = False
    """Whether a beginning of an embedding is an embedding too."""
    labels: tuple[str, ...] = ()
    """A classifier's classes, in the order of its logits."""
    truncate: bool = False
    """Whether a longer text is cut at `max_model_len` instead of refused."""
    inputs: dict[str, str] = {}
    """What the model calls its inputs, where that differs from `dialects.encoder`."""
    output: str | None = None
    """The output to read; None: the one that the model's config suggests."""
    version: str = ""
    """Changes with the model's files."""
    cache_ttl_s: float | None = None
    """How long an answer may be given again; None: never."""


class SpeechProfile(Record):
    """What a model of speech can do."""

    languages: tuple[str, ...] = ()
    """ISO 639-1 codes that it knows; empty: it knows one language, and its prompts name none."""
    translates: bool = False
    """Whether it was made to translate into English."""
    word_times: bool = False
    """Whether its folder says which attention heads follow the words."""
    max_audio_s: float = 7200.0
    """The longest file that is taken, in seconds."""
    prompt_ids: tuple[int, ...] = ()
    """What the decoder is given where nothing is asked for: the operator sees with them that an engine answers."""
    window_tokens: int | None = None
    """Tokens after which the text of a window ends, for engines that do not say so then; None: they do."""


class PictureProfile(Record):
    """What a model takes of pictures."""

    max: int = 8
    """So many in one prompt."""
    max_pixels: int = 33_000_000
    """Width times height of each, as it comes."""
    max_bytes: int = 20_000_000
    """Of each file."""
    allowed_domains: tuple[str, ...] = ()
    """From where pictures may be fetched, `*` for everywhere public; none: they come in the request itself."""
    among_texts: bool = False
    """Of an embedding model: whether one vector is made of messages with the pictures in them; else each picture has a
    vector of its own."""


class Route(Record):
    """All that the data plane needs to know about one model."""

    schema_version: Literal[1] = SCHEMA_VERSION
    model_id: ModelId
    served_names: tuple[ServedName, ...]
    """The first is canonical, the others are aliases."""
    kind: ModelKind
    dialect: Dialect
    engine_model: str
    """The model's name inside Triton, for engines that do not say it themselves."""
    text_output: TextOutput | None = None
    """What each text message holds; None: what the model's own config suggests."""
    tokenizer_digest: BundleDigest
    chat_template: str | None = None
    """Overrides the bundle's own template."""
    max_model_len: int
    """Context length in tokens, prompt and answer together."""
    vocab_size: int
    """Ids at or above it are refused."""
    eos_token_ids: tuple[int, ...] = ()
    default: bool = False
    """Answers requests without a model name."""
    created: int
    """Unix seconds; stable for the life of the ModelDeployment."""
    fingerprint: str | None = None
    """Changes with the source as it is written, the folder's small files, the template, the kind of runtime and the
    defaults; clients see it as `system_fingerprint`."""
    profile: Profile = Profile.OPENAI
    stream_usage: StreamUsage | None = None
    """None: as the profile has it."""
    generation: GenerationDefaults = GenerationDefaults()
    chat: ChatProfile = ChatProfile()
    encoder: EncoderProfile = EncoderProfile()
    """Of the kinds Embedding, Rerank and Classify."""
    pictures: PictureProfile | None = None
    """None: the model sees no pictures."""
    speech: SpeechProfile = SpeechProfile()
    """Of the kind Transcription; its `max_model_len` is what the decoder takes for one window."""
    routing: RoutingPolicy = RoutingPolicy()
    wakes: bool = False
    """Whether a request makes the operator start an engine where there is none."""
    start_s: float | None = None
    """How long an engine takes from that request to its first answer, as measured; None: not known yet."""
    hold_max: int = 200
    """Requests that may wait for an engine to start; one more is a 429."""
    start_failed: str | None = None
    """Why no engine starts, in words for clients behind a colon. While it stands nobody waits for one; it goes when an
    engine answers."""
    engines_wanted: bool = True
    """False: it is scaled to 0 replicas, so no request waits for an engine to come."""


class Engine(Record):
    """One running Triton server that holds a model."""

    grpc: EngineAddress
    model: str | None = None
    """The model's name inside this server: while a new name is rolled out, engines differ. None: the route says it."""
    named_in: str | None = None
    """The namespace of whoever named its address, by which it is checked before it is dialled; None: Conch runs it."""
    slots: int = 64
    """Sequences that the gateway sends to this engine at once; more wait in the gateway's queue."""
    outdated: bool = False
    """Whether it was made from an earlier spec, or from earlier files, than its route tells of: it serves until another
    one does, and what it answers is not kept."""


class Heartbeat(Record):
    """One process of a pool, as it last announced itself."""

    url: WorkerUrl
    sequence: int
    """Grows with each beat; a reader drops a process whose number has not moved for 6 s of its own clock."""
    in_flight: int = 0
    draining: bool = False
    streaming: tuple[tuple[EngineAddress, str], ...] = ()
    """Engines, each with its model's name inside Triton, that have sent this process a message of a stream within the
    last 10 s and owe it the rest of that stream."""


class ModelDemand(Record):
    """What one gateway has to do for one model, counted in sequences of an engine."""

    in_flight: int = 0
    queued: int = 0
    """Waiting for a slot of an engine that there is."""
    held: int = 0
    """Waiting for an engine to start."""
    oldest_wait_s: float = 0.0
    """How long the first of those that wait has waited."""
    idle_s: float | None = None
    """Seconds since its last request ended here; None: there was none."""
    taken: dict[EngineAddress, int] = {}
    """How many slots of each engine are in `in_flight`: several models may have the same address."""


class GatewayLoad(Record):
    """What one gateway has to do, as it last said: soon after each change, and else every 2 s."""

    id: str
    sequence: int
    revision: int = 0
    """Of the registry, as it has applied it."""
    models: dict[ModelId, ModelDemand] = {}
    """Models without any demand that have been idle for an hour are left out."""


class GatewayBeat(Record):
    """What one gateway has applied: how the operator knows that a withdrawal has been seen."""

    id: str
    sequence: int
    revision: int
