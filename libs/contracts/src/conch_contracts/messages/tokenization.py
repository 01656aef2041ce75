"""Messages between gateway and tokenizer."""

from typing import Any, Literal

import msgspec

from conch_contracts.messages.generation import PictureForm, PreparedPrompt
from conch_contracts.messages.grammar import Grammar
from conch_contracts.messages.message import Message, MessageDigest, TokenId
from conch_contracts.records import ContentFormat

_WHITE_SPACE = b"\t\n\f\r "
"""Of https://infra.spec.whatwg.org/#ascii-whitespace: what may stand anywhere in the base64 of a data: URL."""


def without_white_space(base64: str) -> str:
    """Return base64 without the white space that it may have in it."""
    return base64.encode(errors="surrogatepass").translate(None, _WHITE_SPACE).decode(errors="surrogatepass")


class Picture(Message, frozen=True, kw_only=True):
    """One picture, as it came."""

    data: str
    """The bytes of the file as base64; PNG, JPEG, WEBP or GIF, as its first bytes say."""
    param: str
    """What the client calls it, `messages.0.content.1.image_url` for instance: an error names it."""


class PictureLimits(Message, frozen=True, kw_only=True):
    """What a model takes of pictures."""

    max: int = 8
    """So many in one prompt."""
    max_pixels: int = 33_000_000
    """Width times height of each, before it is made smaller."""
    max_bytes: int = 20_000_000
    """Of each file."""


class ChatInput(Message, frozen=True, kw_only=True):
    """Messages to render with the chat template."""

    messages: tuple[dict[str, Any], ...]
    """The content of each is one text or null."""
    part_lengths: dict[int, tuple[int | None, ...]] = msgspec.field(default_factory=dict)
    """Of each message whose content came as several parts, how many characters these have: in the text they stand one
    behind the other with a line break between them. None is a picture, of which the text holds nothing."""
    pictures: tuple[Picture, ...] = ()
    """In the order in which the messages show them: one for each None of `part_lengths`."""
    content_format: ContentFormat = ContentFormat.STRING
    """Whether the template gets the texts as they are, or lists of parts."""
    tools: tuple[dict[str, Any], ...] | None = None
    documents: tuple[dict[str, Any], ...] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    template_kwargs: dict[str, Any] = msgspec.field(default_factory=dict)
    chat_template: str | None = None
    """Overrides the bundle's own template."""
    chat_template_param: str = "messages"
    """Which of the client's parameters is at fault when the template fails."""
    without_template: str = "use /v1/completions"
    """What a client should do whose model has no template."""


class PrepareRequest(Message, frozen=True, kw_only=True):
    """Turn a client's prompt into ids: exactly one of `chat` and `prompts` is set."""

    digest: MessageDigest
    chat: ChatInput | None = None
    prompts: tuple[str | tuple[int, ...], ...] | None = None
    """Texts are encoded; ids are decoded, so that `text` is known too."""
    add_special_tokens: bool = True
    truncate_prompt_tokens: int | None = None
    """Keep only so many tokens."""
    truncation_side: Literal["left", "right"] = "left"
    """Where a prompt that has more is cut."""
    context: int | None = None
    """The model's context: a text that is not cut and longer for certain is refused without being encoded."""
    bad_words: tuple[str, ...] = ()
    stop_words: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    """Texts such as `</think>` whose ids the engine must know."""
    picture_limits: PictureLimits | None = None
    """None: the model sees no pictures, and the chat has none."""
    picture_form: PictureForm = PictureForm.PIXELS
    picture_scope: str = ""
    """What is put into the digest of each picture, so that what a caller showed is found again by that caller alone."""


class PrepareResponse(Message, frozen=True, kw_only=True):
    """The prompts as ids and text, and the words as ids."""

    prompts: tuple[PreparedPrompt, ...]
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Each word with and without a leading space, duplicates removed."""
    stop_words: tuple[tuple[int, ...], ...] = ()
    marks: tuple[tuple[int, ...], ...] = ()
    """Each mark as it is encoded by itself, in the same order."""


class EncodeTextRequest(Message, frozen=True, kw_only=True):
    """Count and show the tokens of a text or of rendered messages."""

    digest: MessageDigest
    prompt: str | None = None
    chat: ChatInput | None = None
    picture_limits: PictureLimits | None = None
    add_special_tokens: bool = True
    return_token_strs: bool = False


class EncodeTextResponse(Message, frozen=True, kw_only=True):
    """Ids as Hugging Face `encode()` gives them."""

    tokens: tuple[TokenId, ...]
    token_strs: tuple[str, ...] | None = None


class DecodeIdsRequest(Message, frozen=True, kw_only=True):
    """Ids to turn into text."""

    digest: MessageDigest
    tokens: tuple[int, ...]
    skip_special_tokens: bool = False


class DecodeIdsResponse(Message, frozen=True, kw_only=True):
    """Text as Hugging Face `decode()` gives it."""

    prompt: str


class CheckGrammarRequest(Message, frozen=True, kw_only=True):
    """Say whether an answer can be kept to a grammar; the answer is empty, or an error that says why not."""

    digest: MessageDigest
    grammar: Grammar
    foreign: bool = False
    """Whether an engine that is not ours obeys it: then only what would do harm is refused."""
