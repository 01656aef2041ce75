"""Messages between gateway and llm-worker, and the sampling parameters that reach an engine.

The gateway validates and fills in every default, so nothing here is optional by accident: a worker never guesses.
The answer of `POST /internal/v1/generate` is what the client gets, ready-made: its API's JSON body with the usage in
the `x-conch-usage` header, or SSE frames that end with one comment `: usage {...}`. A stream of the Responses API has
the comment `: response {...}` before its last event: the gateway keeps the object, and lets the event go then. While
an engine makes tokens that show nothing, hidden thinking for instance, the comment `: working` says now and then that
it goes on. The HTTP status is held back until the engine's first message, so whatever fails before it is a status.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.messages.grammar import Grammar
from conch_contracts.messages.message import Message, MessageDigest, TokenId
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect, Profile, TextOutput


class ThinkingLimit(Message, frozen=True, kw_only=True, omit_defaults=True):
    """How long a model may think: at most `tokens` stand between the marks that begin and end its thinking."""

    start_id: int
    end_id: int
    opened: bool
    """Whether the prompt has the first mark, so that the answer begins inside the thinking."""
    tokens: int


class SamplingParameters(Message, frozen=True, kw_only=True, omit_defaults=True):
    """How an engine chooses tokens; what has its default is not sent.

    Sent as JSON in the `parameters` tensor of the `tokens` dialect.
    """

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
    logit_bias: dict[int, float] = msgspec.field(default_factory=dict)
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Sequences of ids that must not appear."""
    allowed_token_ids: tuple[int, ...] | None = None
    """The only ids that may appear; None: all."""
    logprobs: int | None = None
    """How many alternatives to report beside the chosen token; None: no log probabilities at all."""
    logprob_token_ids: tuple[int, ...] = ()
    """The ids to report beside the chosen token instead of the likeliest ones, where there are any."""
    prompt_logprobs: int | None = None
    """The same for the prompt's own tokens."""
    temp_scaled_logprobs: bool = False
    """Whether log probabilities are those of the logits divided by the temperature."""
    top_p_normalized_logprobs: bool = False
    """Whether log probabilities are of what `top_p` leaves, so that those probabilities add up to 1."""
    beams: int | None = None
    """How many beams a beam search keeps; None: tokens are drawn one by one."""
    length_penalty: float = 1.0
    """Of a beam search: above 1 favours longer answers."""
    grammar: Grammar | None = None
    """What the answer must look like; None: anything."""
    thinking: ThinkingLimit | None = None
    """None: the model thinks as long as it likes."""


class BackendOptions(Message, frozen=True, kw_only=True):
    """Values that only some dialects can send."""

    start_id: int | None = None
    end_id: int | None = None
    mask_positions: int | None = None
    stop_words: tuple[tuple[int, ...], ...] = ()
    """Stop words as ids, for engines that stop at words by themselves."""
    cache_salt: str | None = None
    """Only requests with the same salt may share cached prefixes, in engines that have such a cache."""
    extra_arguments: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    """`vllm_xargs`: what only the engine understands."""
    vocab_size: int | None = None
    """How many ids the model has, for engines that take a bias for each; set where a request asks for one."""
    kv_transfer: dict[str, Any] | None = None
    """`kv_transfer_params`: where an engine that splits prefill and decode finds the key-value cache."""


class EngineTarget(Message, frozen=True, kw_only=True):
    """The engine that the gateway chose, and how to speak with it."""

    grpc: EngineAddress
    named_in: str | None = None
    """The namespace of whoever named the address; None: Conch runs the engine."""
    model: str
    """The model's name inside Triton."""
    dialect: Dialect
    text_output: TextOutput | None = None
    """What each text message holds; None: what the model's own config suggests."""
    tokenizer_digest: MessageDigest
    slots: int = 1
    """How many of the request's choices the engine may work on at once: as many as were admitted."""


class PictureForm(StrEnum):
    """In which form an engine gets pictures."""

    PIXELS = "pixels"
    """RGB, one byte a channel, as large as the model sees it; the ids have one for each of its features."""
    PNG = "png"
    """A file in the size in which it came, turned upright and without transparency; the ids have one for it, because
    the engine makes its own. A placeholder stands in the text."""


class PreparedPicture(Message, frozen=True, kw_only=True):
    """One picture of a prompt, ready for an engine."""

    data: bytes
    """What `PictureForm` says; pixels row by row, `height * width * 3` bytes."""
    height: int
    width: int
    start: int
    """Where its ids begin in the prompt."""
    length: int
    """How many ids it has."""
    digest: str
    """SHA-256 of scope, size and pixels, as hex digits: equal ones have equal features."""


class PreparedPrompt(Message, frozen=True, kw_only=True):
    """One prompt as ids, and as the text that those ids stand for."""

    ids: tuple[TokenId, ...]
    text: str
    """The rendered prompt, without the leading BOS that the model's tokenizer puts before a text by itself."""
    text_is_exact: bool = True
    """Whether an engine of text makes the same ids of it, with the special tokens that it adds itself.

    Text that was made of ids may not encode to them again.
    """
    pictures: tuple[PreparedPicture, ...] = ()
    """In the order of their ids."""


class Api(StrEnum):
    """Which API the answer is of."""

    CHAT = "chat"
    COMPLETION = "completion"
    RESPONSES = "responses"
    MESSAGES = "messages"
    """Anthropic's."""

    @property
    def prompt_param(self) -> str:
        """Return the name of the parameter that holds the prompt."""
        return _PROMPT_PARAMS[self]


_PROMPT_PARAMS: Mapping[Api, str] = {
    Api.CHAT: "messages",
    Api.COMPLETION: "prompt",
    Api.RESPONSES: "input",
    Api.MESSAGES: "messages",
}


class Details(Message, frozen=True, kw_only=True):
    """What an answer shows beside its text, and how; a plain request has none of it."""

    prefix: str = ""
    """Text that every choice begins with."""
    prompt_logprobs: int | None = None
    """Alternatives to show for each token of the prompt; None: no log probabilities of the prompt."""
    token_ids: bool = False
    """Whether the ids of prompt and answer are shown."""
    tokens_as_ids: bool = False
    """Whether log probabilities name tokens as `token_id:7`."""
    spaces_between_special_tokens: bool = True
    max_frame_tokens: int | None = None
    """The most tokens in one frame of a stream; None: all that the engine sent together."""
    continuous_usage: bool = False
    """Whether every frame of a stream tells the usage so far."""
    service_tier: str | None = None
    metadata: dict[str, str | int | bool] | None = None
    kv_transfer: dict[str, Any] | None = None
    """`kv_transfer_params`, as they were sent."""
    profile: Profile = Profile.OPENAI
    final_usage: bool | None = None
    """Whether the finishing frame of each choice tells the usage; None: as the profile has it."""


class GenerateRequest(Message, frozen=True, kw_only=True):
    """One client request, fully resolved. `len(prompts) * n` choices come back, index = prompt * n + k."""

    request_id: str
    response_id: str
    """`chatcmpl-...`, `cmpl-...`, `resp_...` or `msg_...`."""
    api: Api
    model: str
    """The name that the answer carries."""
    created: int
    """Unix seconds, the same in every frame."""
    target: EngineTarget
    prompts: tuple[PreparedPrompt, ...]
    n: int = 1
    best_of: int | None = None
    """So many are made of each prompt, and the `n` likeliest of them come back; None: `n`."""
    sampling: SamplingParameters
    defaulted: tuple[str, ...] = ()
    """Fields of `sampling` that say what the model's folder says, not the client: an engine may go without them."""
    grammar_param: str | None = None
    """Which of the client's parameters asked for `sampling.grammar`."""
    bad_words_param: str = "bad_words"
    """Which of the client's parameters asked for `sampling.bad_words`."""
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
    response_fields: str = "{}"
    """Of `Api.RESPONSES`: what the answer says of its request, as a JSON object; workers pass it on unread."""
    cut_to_context: bool = False
    """Of `Api.MESSAGES`: whether `sampling.max_tokens` is what the context leaves, less than the client asked for."""
    fingerprint: str | None = None
    details: Details | None = None
    timeout_s: float = 600.0
    """What is left of the request's deadline, in seconds."""
    first_token_timeout_s: float = 120.0
    inter_token_timeout_s: float = 30.0

    @property
    def candidates(self) -> int:
        """Return how many choices are made of each prompt."""
        return self.best_of or self.n


class Usage(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of one request; partial when a stream broke."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int | None = None
    """How many of the answer's tokens are thinking; None where thinking is not looked for."""
    audio_s: float = 0.0
    """Of transcriptions: the seconds of sound in the file."""
