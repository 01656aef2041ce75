"""The three things that the service does, as functions of a tokenizer and a message.

Nothing here knows of processes or HTTP: `child` calls these functions, and whoever wants to know what an answer must be
reads them. `Workbench` is what they need besides the message.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conch_contracts.messages.generation import PreparedPrompt
from conch_contracts.messages.tokenization import (
    ChatInput,
    DecodeIdsRequest,
    DecodeIdsResponse,
    EncodeTextRequest,
    EncodeTextResponse,
    PrepareRequest,
    PrepareResponse,
)
from conch_kit.errors import InvalidRequest
from conch_tokenizer.text import bad_and_stop_words
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer

_LONG = 20_000
"""Characters or ids from which on the child says that it has begun to encode: below, it is done before anyone asks."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """One model's tokenizer and renderer, and the bounds of a request."""

    model: ModelTokenizer
    renderer: ChatRenderer
    max_text_bytes: int
    announce_encoding: Callable[[], None]
    """Called before long work that is not the template's."""

    def check_fits(self, text: str, context: int | None, *, param: str) -> None:
        """Refuse a text that is longer than a context for certain, without encoding it; raises InvalidRequest."""
        if context is None or len(text) <= context or self.model.reach is None:
            return
        tokens = self.model.reach.at_least(text)
        if tokens > context:
            raise InvalidRequest(
                f"This model's maximum context length is {context} tokens. However, your text has at least {tokens} "
                "tokens. Please reduce its length.",
                param=param,
                code="context_length_exceeded",
            )

    def check_size(self, texts: Sequence[str], *, param: str) -> None:
        """Refuse more text than a request may hold; raises InvalidRequest."""
        characters = sum(map(len, texts))
        if characters * 4 > self.max_text_bytes:
            # Counted exactly only where it matters: a template can make a text of a gigabyte.
            too_long = characters > self.max_text_bytes
            size = characters if too_long else sum(len(text.encode()) for text in texts)
            if size > self.max_text_bytes:
                raise InvalidRequest(
                    f"expected at most {self.max_text_bytes} bytes of text, found {size} or more",
                    param=param,
                    code="context_length_exceeded",
                )
        if characters > _LONG:
            self.announce_encoding()

    def check_ids(self, ids: Sequence[int], *, param: str) -> None:
        """Refuse ids that the model does not have; raises InvalidRequest."""
        size = self.model.vocab_size
        if ids and not 0 <= min(ids) <= max(ids) < size:
            wrong = next(token for token in ids if not 0 <= token < size)
            raise InvalidRequest(f"expected token ids from 0 to {size - 1}, found {wrong}", param=param)
        if len(ids) > _LONG:
            self.announce_encoding()


def prepare(bench: Workbench, request: PrepareRequest) -> PrepareResponse:
    """Return the prompts as ids and text, and the words as ids; raises InvalidRequest."""
    if (request.chat is None) == (request.prompts is None):
        raise InvalidRequest("expected exactly one of chat and prompts")
    keep = request.truncate_prompt_tokens
    if keep is not None and keep < 1:
        raise InvalidRequest(f"expected at least 1, found {keep}", param="truncate_prompt_tokens")
    context = request.context if keep is None else None
    if request.chat is not None:
        prompts = [_from_chat(bench, request.chat, add_special_tokens=request.add_special_tokens, context=context)]
    else:
        prompts = _from_prompts(bench, request, context)
    return PrepareResponse(
        prompts=tuple(_truncated(bench.model, prompt, keep) for prompt in prompts),
        bad_words=bad_and_stop_words.bad_words(bench.model, request.bad_words),
        stop_words=bad_and_stop_words.stop_words(bench.model, request.stop_words),
        marks=tuple(tuple(bench.model.encode(mark, add_special_tokens=False)) for mark in request.marks),
    )


def tokenize(bench: Workbench, request: EncodeTextRequest) -> EncodeTextResponse:
    """Return the ids of a text or of a rendered chat; raises InvalidRequest."""
    if (request.chat is None) == (request.prompt is None):
        raise InvalidRequest("expected exactly one of prompt and messages")
    if request.chat is not None:
        ids = _from_chat(bench, request.chat, add_special_tokens=request.add_special_tokens).ids
    else:
        text = request.prompt or ""
        bench.check_size([text], param="prompt")
        ids = tuple(bench.model.encode(text, add_special_tokens=request.add_special_tokens))
    return EncodeTextResponse(
        tokens=ids, token_strs=bench.model.token_strings(ids) if request.return_token_strs else None
    )


def detokenize(bench: Workbench, request: DecodeIdsRequest) -> DecodeIdsResponse:
    """Return the text of ids; raises InvalidRequest."""
    bench.check_ids(request.tokens, param="tokens")
    return DecodeIdsResponse(prompt=bench.model.decode(request.tokens))


def _from_chat(
    bench: Workbench, chat: ChatInput, *, add_special_tokens: bool, context: int | None = None
) -> PreparedPrompt:
    rendered = bench.renderer.render(chat, add_special_tokens=add_special_tokens)
    bench.check_size([rendered.text], param="messages")
    bench.check_fits(rendered.text, context, param="messages")
    ids = tuple(rendered.encode())
    if not ids:
        raise InvalidRequest("the chat template made an empty prompt of these messages", param="messages")
    text = _without_bos(bench.model, rendered.text)
    return PreparedPrompt(ids=ids, text=text, text_is_exact=not add_special_tokens)


def _from_prompts(bench: Workbench, request: PrepareRequest, context: int | None) -> list[PreparedPrompt]:
    if not request.prompts:
        raise InvalidRequest("expected at least one prompt, found none", param="prompt")
    texts = [prompt for prompt in request.prompts if isinstance(prompt, str)]
    bench.check_size(texts, param="prompt")
    for text in texts:
        bench.check_fits(text, context, param="prompt")
    return [_from_prompt(bench, prompt, add_special_tokens=request.add_special_tokens) for prompt in request.prompts]


def _from_prompt(bench: Workbench, prompt: str | tuple[int, ...], *, add_special_tokens: bool) -> PreparedPrompt:
    if not prompt:
        raise InvalidRequest("expected a prompt, found an empty one", param="prompt")
    if isinstance(prompt, str):
        ids = tuple(bench.model.encode(prompt, add_special_tokens=add_special_tokens))
        if not ids:
            raise InvalidRequest("expected a prompt with at least one token, found none", param="prompt")
        # With add_special_tokens a BOS that the client wrote comes on top of the one that is added, so it stays.
        text = prompt if add_special_tokens else _without_bos(bench.model, prompt)
        return PreparedPrompt(ids=ids, text=text, text_is_exact=add_special_tokens)
    bench.check_ids(prompt, param="prompt")
    return PreparedPrompt(ids=prompt, text=_without_bos(bench.model, bench.model.decode(prompt)), text_is_exact=False)


def _truncated(model: ModelTokenizer, prompt: PreparedPrompt, keep: int | None) -> PreparedPrompt:
    if keep is None or len(prompt.ids) <= keep:
        return prompt
    ids = prompt.ids[-keep:]
    return PreparedPrompt(ids=ids, text=_without_bos(model, model.decode(ids)), text_is_exact=False)


def _without_bos(model: ModelTokenizer, text: str) -> str:
    return text.removeprefix(model.bos) if model.bos else text
