"""Messages between gateway and llm-worker, and the sampling parameters that reach an engine.

The gateway validates and fills in every default, so nothing here is optional by accident: a worker never guesses.
The answer of `POST /internal/v1/generate` is what the client gets, ready-made: an OpenAI JSON body with the usage in
the `x-conch-usage` header, or SSE frames that end with one comment `: usage {...}`. The HTTP status is held back until
the engine's first message, so whatever fails before it is a status.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from conch_contracts.names import EngineAddress
from conch_contracts.parsing import Parsing
from conch_contracts.records import BundleDigest, Dialect, TextOutput


class Message(BaseModel):
    """A frozen internal message; an unknown field is a programming error and refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SamplingParameters(Message):
    """How an engine chooses tokens. Sent as JSON in the `parameters` tensor of the `tokens` dialect."""

    max_tokens: int
    min_tokens: int = 0
    """End-of-sequence and stop ids are masked until this many tokens are out."""
    temperature: float = 1.0
    """0 means greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 means off."""
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None
    ignore_eos: bool = False
    eos_token_ids: tuple[int, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    logit_bias: dict[int, float] = {}
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Sequences of ids that must not appear."""
    logprobs: int | None = None
    """How many alternatives to report beside the chosen token; None: no log probabilities at all."""
    prompt_logprobs: int | None = None
    """The same for the prompt's own tokens."""


class BackendOptions(Message):
    """Values that only some dialects can send."""

    start_id: int | None = None
    end_id: int | None = None
    mask_positions: int | None = None
    stop_words: tuple[tuple[int, ...], ...] = ()
    """Stop words as ids, for engines that stop at words by themselves."""


class EngineTarget(Message):
    """The engine that the gateway chose, and how to speak with it."""

    grpc: EngineAddress
    model: str
    """The model's name inside Triton."""
    dialect: Dialect
    text_output: TextOutput | None = None
    """What each text message holds; None: what the model's own config suggests."""
    tokenizer_digest: BundleDigest
    slots: int = 1
    """How many of the request's choices the engine may work on at once: as many as were admitted."""


class PreparedPrompt(Message):
    """One prompt as ids, and as the text that those ids stand for."""

    ids: tuple[int, ...]
    text: str
    """The rendered prompt, without a leading BOS."""
    text_is_exact: bool = True
    """Whether the ids were made of the text. Text that was made of ids may not encode to them again."""


class Api(StrEnum):
    """Which OpenAI shape the answer has."""

    CHAT = "chat"
    COMPLETION = "completion"


class GenerateRequest(Message):
    """One client request, fully resolved. `len(prompts) * n` choices come back, index = prompt * n + k."""

    request_id: str
    response_id: str
    """`chatcmpl-...` or `cmpl-...`."""
    api: Api
    model: str
    """The name that the answer carries."""
    created: int
    """Unix seconds, the same in every frame."""
    target: EngineTarget
    prompts: tuple[PreparedPrompt, ...]
    n: int = 1
    sampling: SamplingParameters
    backend: BackendOptions = BackendOptions()
    stop: tuple[str, ...] = ()
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    echo: bool = False
    role: str = "assistant"
    logprobs: bool = False
    """Whether the answer shows log probabilities; how many alternatives is `sampling.logprobs`."""
    parsing: Parsing | None = None
    """How the answer is taken apart; None: all of it is content."""
    stream: bool = False
    include_usage: bool = False
    timeout_s: float = 600.0
    """What is left of the request's deadline, in seconds."""
    first_token_timeout_s: float = 120.0
    inter_token_timeout_s: float = 30.0


class Usage(Message):
    """Tokens of one request; partial when a stream broke."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int | None = None
    """How many of the answer's tokens are thinking; None where thinking is not looked for."""
