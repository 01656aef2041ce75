"""Chat completions: `POST /v1/chat/completions`, complete or as `chat.completion.chunk` frames."""

from typing import Annotated, Any, Literal, cast

from pydantic import Discriminator, Field, Tag

from conch_contracts.openai.answer_fields import CompletionUsage, Origin, PromptLogprobs
from conch_contracts.openai.api_model import ApiModel, Options
from conch_contracts.openai.sampling import INT32_MAX, MAX_ALTERNATIVES, SamplingFields, TokenIds
from conch_contracts.openai.tools import (
    MAX_CALLS,
    MAX_ID_CHARS,
    MAX_TOOLS,
    AllowedToolsChoice,
    FunctionCall,
    NamedToolChoice,
    Tool,
    ToolCall,
    ToolCallDelta,
)

MAX_MESSAGES = 4096
MAX_PARTS = 256
MAX_NAME_CHARS = 256
MAX_UUID_CHARS = 256
MAX_TEMPLATE_CHARS = 65_536
MAX_TEMPLATE_ARGUMENTS = 16
MAX_DOCUMENTS = 256


class TextPart(ApiModel):
    """A piece of text in a message's content."""

    type: Literal["text"]
    text: str


class RefusalPart(ApiModel):
    """What the assistant said where it would not answer."""

    type: Literal["refusal"]
    refusal: str

    @property
    def text(self) -> str:
        """Return the words."""
        return self.refusal


PictureDetail = Literal["auto", "low", "high", "original"]
"""How closely a picture is looked at. It changes nothing: a model sees pictures in the one way it was made for."""


class ImageUrl(ApiModel):
    """Where a picture is."""

    url: str
    """The picture itself, as `data:image/png;base64,…`, or its http(s) URL where the model allows that."""
    detail: PictureDetail | None = None


class ImagePart(ApiModel):
    """A picture in a message's content."""

    type: Literal["image_url"]
    image_url: ImageUrl | str
    """A text is the URL."""
    uuid: Annotated[str, Field(max_length=MAX_UUID_CHARS)] | None = None
    """The client's own name for the picture; it changes nothing."""

    @property
    def url(self) -> str:
        """Return the URL, whichever form it came in."""
        return self.image_url if isinstance(self.image_url, str) else self.image_url.url


def part_type(part: object) -> str:
    """Return the type by which a part is read; what has none that is known is read as a text, which it is not."""
    match part:
        case {"type": "text" | "refusal" | "image_url" as known}:
            return str(known)
        case RefusalPart() | ImagePart():
            return part.type
        case _:
            return "text"


MessagePart = Annotated[
    Annotated[TextPart, Tag("text")] | Annotated[RefusalPart, Tag("refusal")] | Annotated[ImagePart, Tag("image_url")],
    Discriminator(part_type),
]


class ChatMessage(ApiModel):
    """One turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    """Who speaks."""
    content: str | Annotated[list[MessagePart], Field(min_length=1, max_length=MAX_PARTS, fail_fast=True)] | None = None
    """Null or absent only where the assistant calls tools or refuses; parts of the type `refusal` are its own, pictures
    are the user's and those of tools."""
    refusal: str | None = None
    """Of the assistant: what it said where it would not answer; comes behind `content`, where there is both."""
    name: Annotated[str, Field(max_length=MAX_NAME_CHARS)] | None = None
    """Who of several with this role speaks, or which function answers."""
    reasoning_content: str | None = None
    """Of the assistant: what it thought before."""
    reasoning: str | None = None
    """The same as `reasoning_content`, which wins; clients are divided over the name."""
    tool_calls: Annotated[list[ToolCall], Field(max_length=MAX_CALLS, fail_fast=True)] | None = None
    """Of the assistant: what it called."""
    tool_call_id: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None
    """Of a tool: which call this is the result of."""
    function_call: FunctionCall | None = None
    """The older form of `tool_calls`, to which a message of the role `function` is the result."""


Conversation = Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ThinkingSwitch(Options):
    """Whether a model thinks, as Anthropic's, DeepSeek's and Z.ai's clients say it."""

    type: Literal["enabled", "disabled"]
    budget_tokens: int | None = Field(default=None, ge=0, le=INT32_MAX)
    """The same as `reasoning_max_tokens`."""


class ReasoningWishes(Options):
    """How a model shall think, as clients of OpenRouter, SGLang and Ollama say it."""

    effort: ReasoningEffort | None = None
    """The same as `reasoning_effort`."""
    enabled: bool | None = None
    """The same as `enable_thinking`."""
    max_tokens: int | None = Field(default=None, ge=0, le=INT32_MAX)
    """The same as `reasoning_max_tokens`."""
    exclude: bool | None = None
    """True: the thinking is not shown, as with `include_reasoning` false."""


class ChatCompletionRequest(SamplingFields):
    """What a client may ask of `POST /v1/chat/completions`."""

    messages: Conversation | TokenIds | None = Field(default=None, union_mode="left_to_right")
    """A conversation, or a prompt as token ids; required unless `prompt_token_ids` is given, beside
    which it may be empty."""
    max_tokens: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """The older name of `max_completion_tokens`."""
    max_completion_tokens: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """The most tokens of an answer; wins over `max_tokens`. Without either, the rest of the context."""
    logprobs: bool | None = None
    """Report the log probability of each token of the answer."""
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_ALTERNATIVES)
    """Alternatives to report for each token; above 0 only with `logprobs`."""
    add_generation_prompt: bool | None = None
    """False: the prompt does not begin a message of the assistant."""
    continue_final_message: bool | None = None
    """The answer goes on in the last message; only with `add_generation_prompt` false."""
    tools: Annotated[list[Tool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    """Functions that the model may call."""
    tool_choice: (
        Literal["none", "auto", "required"]
        | Annotated[NamedToolChoice | AllowedToolsChoice, Field(discriminator="type")]
        | None
    ) = None
    """Whether it may call them, must, or must call a certain one; `auto` when there are tools."""
    parallel_tool_calls: bool | None = None
    """False: at most one call comes back."""
    reasoning_effort: ReasoningEffort | None = None
    """How much a model thinks that can do so more or less; `none` switches it off."""
    enable_thinking: bool | None = None
    """Whether a model thinks that can do either: `enable_thinking` and `thinking` of its chat template."""
    thinking: bool | ThinkingSwitch | None = None
    """The same, and a limit."""
    reasoning: ReasoningWishes | None = None
    """Effort, switch, limit and whether it is shown, in one object."""
    include_reasoning: bool | None = None
    """False: the thinking is not shown."""
    reasoning_max_tokens: int | None = Field(default=None, ge=0, le=INT32_MAX)
    """The most tokens that the model may think."""
    thinking_token_budget: Literal[-1] | Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    """The same, under vLLM's name; -1: as many as it likes."""
    echo: bool | None = None
    """Begin the answer with the last message, if that is the assistant's."""
    chat_template: Annotated[str, Field(min_length=1, max_length=MAX_TEMPLATE_CHARS)] | None = None
    """A Jinja template instead of the model's own; for gateways that allow it."""
    chat_template_kwargs: Annotated[dict[str, Any], Field(max_length=MAX_TEMPLATE_ARGUMENTS)] | None = None
    """Variables for the chat template, such as `enable_thinking`."""
    disable_chat_template: bool | None = None
    """Take the first message's text as the prompt, as it is."""
    documents: Annotated[list[dict[str, str]], Field(min_length=1, max_length=MAX_DOCUMENTS, fail_fast=True)] | None = (
        None
    )
    """For chat templates that put documents into the prompt."""

    @property
    def conversation(self) -> list[ChatMessage]:
        """Return the messages; none when the prompt was given as ids."""
        return [] if _are_ids(self.messages) else cast("list[ChatMessage]", self.messages or [])

    @property
    def given_ids(self) -> list[int] | None:
        """Return the prompt's ids, under whichever name they came; None when there are messages."""
        if self.prompt_token_ids is not None:
            return self.prompt_token_ids
        return cast("list[int]", self.messages) if _are_ids(self.messages) else None


class TopLogprob(ApiModel):
    """One alternative at a position."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    """The chosen token at a position, and its alternatives."""

    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(ApiModel):
    """Log probabilities of a choice's tokens."""

    content: list[TokenLogprob] | None
    refusal: list[TokenLogprob] | None = None


class AssistantMessage(ApiModel):
    """The answer of one choice."""

    role: str
    content: str | None
    """Null where the answer consists of calls."""
    refusal: str | None
    reasoning_content: str | None
    reasoning: str | None
    """The same as `reasoning_content`; clients are divided over the name."""
    tool_calls: list[ToolCall] | None = None
    prompt_token_ids: list[int] | None
    completion_token_ids: list[int] | None
    prompt_tokens: str | None
    """The prompt as the model read it, where `return_token_ids` asks for it in the profile `fastdeploy`."""
    completion_tokens: str | None
    """What the model wrote, special tokens and thinking included; there like `prompt_tokens`."""
    multimodal_content: None
    """Always null, as clients of FastDeploy read it."""
    audio_content: None
    """Always null, as clients of FastDeploy read it."""


class ChatChoice(ApiModel):
    """One of the `n` answers."""

    index: int
    message: AssistantMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"] | None
    stop_reason: str | int | None
    token_ids: list[int] | None
    prompt_logprobs: PromptLogprobs | None
    routed_experts: None
    """Always null, as clients of vLLM read it."""
    draft_logprobs: None
    """Always null, as clients of FastDeploy read it."""
    speculate_metrics: None
    """Always null, as clients of FastDeploy read it."""
    weight_versions: None
    """Always null, as clients of vLLM read it."""


class ChatCompletion(Origin):
    """The complete answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: CompletionUsage
    metadata: dict[str, str | int | bool] | None = None
    kv_transfer_params: dict[str, Any] | None
    ec_transfer_params: None
    """Always null, as clients of vLLM read it."""
    metrics: None
    """Always null, as clients of vLLM read it."""
    prompt_text: None
    """Always null, as clients of vLLM read it."""
    prompt_logprobs: PromptLogprobs | None
    """Those of the first choice."""
    prompt_token_ids: list[int] | None


class Delta(ApiModel):
    """What one frame adds to a choice."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    prompt_tokens: str | None = None
    completion_tokens: str | None = None


class ChatChunkChoice(ApiModel):
    """One choice's part of a frame."""

    index: int
    delta: Delta
    logprobs: ChoiceLogprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls"] | None
    stop_reason: str | int | None = None
    token_ids: list[int] | None = None
    arrival_time: float | None = None
    """Seconds since the answer was begun, in the profile `fastdeploy`."""


class ChatCompletionChunk(Origin):
    """One frame of a streamed answer."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: CompletionUsage | None = None
    prompt_token_ids: list[int] | None = None


def _are_ids(messages: list[ChatMessage] | list[int] | None) -> bool:
    """Tell by the first item, as all others are like it: there may be a million of them."""
    return messages is not None and bool(messages) and isinstance(messages[0], int)
