"""Messages between gateway and speech-worker, and the parameters that reach an engine of speech.

The body of `POST /internal/v1/transcribe` is the length of a `TranscribeRequest` in JSON as four bytes, the highest
first, that JSON, and the file as the client sent it. The answer is what the client gets, ready-made: a body in the form
that was asked for, with its media type and the usage in the `x-conch-usage` header, or SSE frames that end with one
comment `: usage {...}`. The HTTP status is held back until the first window's text is known, so whatever fails before
it is a status; but that of a stream goes out after half of `first_token_timeout_s` where its engine gives signs of
life. From then on a stream has the comment `: working` now and then while nothing can be shown.
"""

from enum import StrEnum
from typing import Literal

from conch_contracts.messages.message import Message, MessageDigest, to_json
from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import Dialect, Profile

LENGTH_BYTES = 4
"""Of the number that a request's body begins with."""


class SpeechTask(StrEnum):
    """What is written down."""

    TRANSCRIBE = "transcribe"
    """What is said, in its own language."""
    TRANSLATE = "translate"
    """The same in English."""


class TranscriptFormat(StrEnum):
    """The form of a whole answer."""

    JSON = "json"
    TEXT = "text"
    SRT = "srt"
    VTT = "vtt"
    VERBOSE_JSON = "verbose_json"

    @property
    def media_type(self) -> str:
        """Return the content type of a body in this form."""
        match self:
            case TranscriptFormat.JSON | TranscriptFormat.VERBOSE_JSON:
                return "application/json"
            case TranscriptFormat.VTT:
                return "text/vtt; charset=utf-8"
            case TranscriptFormat.TEXT | TranscriptFormat.SRT:
                return "text/plain; charset=utf-8"


class SpeechParameters(Message, frozen=True, kw_only=True, omit_defaults=True):
    """How an engine chooses the tokens of one window; what has its default is not sent.

    Sent as JSON in the `parameters` tensor of the `speech` dialect.
    """

    max_tokens: int
    """Of one window."""
    temperatures: tuple[float, ...] = (0.0,)
    """Tried one after the other until the thresholds accept what comes; 0 means greedy."""
    compression_ratio_threshold: float | None = None
    """A try whose token ids compress better than so is rejected: it repeats itself."""
    logprob_threshold: float | None = None
    """A try whose mean log probability is below is rejected."""
    no_speech_threshold: float | None = None
    """Where nobody is likelier than this to speak, and the mean log probability is below its threshold, the window is
    silent: the answer has no tokens."""
    languages: tuple[int, ...] = ()
    """The ids among which a language is looked for; empty: all that the model knows."""
    word_times: bool = False
    top_p: float = 1.0
    top_k: int = 0
    """0 means off."""
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None


class SpeechTarget(Message, frozen=True, kw_only=True):
    """The engine that the gateway chose, and how to speak with it."""

    grpc: EngineAddress
    named_in: str | None = None
    """The namespace of whoever named the address; None: Conch runs the engine."""
    model: str
    """The model's name inside Triton."""
    dialect: Dialect
    tokenizer_digest: MessageDigest
    context: int
    """The most ids that the decoder takes: prompt and answer of a window."""
    multilingual: bool = True
    """Whether a prompt names language and task."""
    window_tokens: int | None = None
    """Tokens after which the text of a window ends, for engines that do not say so then; None: they do."""
    model_id: ModelId | None = None
    """By which the registry knows the engines that may go on when this one is replaced; None: no other may."""


class TranscribeRequest(Message, frozen=True, kw_only=True):
    """One client request, fully resolved; the file comes behind it."""

    request_id: str
    model: str
    """The name that the answer carries."""
    created: int
    """Unix seconds."""
    target: SpeechTarget
    task: SpeechTask
    language: str | None = None
    """ISO 639-1; None: it is found in the first window and holds for all."""
    languages: tuple[str, ...] = ()
    """The candidates for that; empty: all that the model knows."""
    prompt_ids: tuple[int, ...] = ()
    """What the client says came before, as ids; its end is kept where it is too long."""
    parameters: SpeechParameters
    """Without the language and what depends on it."""
    format: TranscriptFormat = TranscriptFormat.JSON
    segments: bool = False
    """Whether verbose JSON tells segments."""
    words: bool = False
    """Whether verbose JSON tells words."""
    logprobs: bool = False
    """Whether JSON and streams tell tokens with their log probabilities."""
    stream: Literal["openai", "vllm"] | None = None
    """Whose events a stream has; None: the answer is whole."""
    include_usage: bool = False
    """Of vLLM's streams: whether a last chunk tells the usage."""
    continuous_usage: bool = False
    """Of vLLM's streams: whether each chunk tells the usage so far."""
    max_audio_s: float = 7200.0
    """The longest audio that is taken."""
    profile: Profile = Profile.OPENAI
    """With vLLM's, verbose JSON tells the code of the language instead of its name."""
    file_bytes: int
    """How many bytes of the file follow."""
    timeout_s: float = 600.0
    """What is left of the request's deadline, in seconds."""
    first_token_timeout_s: float = 120.0
    """How long an engine may take for the first message of a window."""
    inter_token_timeout_s: float = 30.0


class SpeechUsage(Message, frozen=True, kw_only=True):
    """What one request used; partial when a stream broke."""

    audio_s: float
    """Seconds of sound in the file."""
    prompt_tokens: int = 0
    """Ids given to the decoder, all windows together, the sound's own not among them."""
    completion_tokens: int = 0
    """Ids made, times among them."""
    audio_tokens: int = 0
    """Positions of the encoder that the sound takes: 50 for each second."""


def head_of(request: TranscribeRequest) -> bytes:
    """Return what goes before the file."""
    message = to_json(request)
    return len(message).to_bytes(LENGTH_BYTES, "big") + message
