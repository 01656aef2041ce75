"""Prompts for an engine: messages or texts become ids and text, and bad words and stop words become ids."""

from typing import Literal

from conch_contracts.messages.generation import PreparedPrompt
from conch_contracts.messages.tokenization import ChatInput, PrepareRequest, PrepareResponse
from conch_kit.errors import InvalidRequest
from conch_tokenizer.pictures.picture_reader import PictureOrder
from conch_tokenizer.text import bad_and_stop_words
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer
from conch_tokenizer.text.prompt_pictures import as_in_text, check_pictures, cut_between_pictures, with_pictures


def prepare_prompts(tokenizer: LimitedTokenizer, request: PrepareRequest) -> PrepareResponse:
    """Return the prompts as ids and text, and the words as ids; raises InvalidRequest."""
    if (request.chat is None) == (request.prompts is None):
        raise InvalidRequest("expected exactly one of chat and prompts")
    keep = request.truncate_prompt_tokens
    if keep is not None and keep < 1:
        raise InvalidRequest(f"expected at least 1, found {keep}", param="truncate_prompt_tokens")
    context = request.context if keep is None else None
    if request.chat is not None:
        order = PictureOrder(request.picture_limits, request.picture_form, request.picture_scope)
        chat, special = request.chat, request.add_special_tokens
        prompts = [prompt_of_chat(tokenizer, chat, order, add_special_tokens=special, context=context)]
    else:
        prompts = _from_prompts(tokenizer, request, context)
    return PrepareResponse(
        prompts=tuple(_truncated(tokenizer.model, prompt, keep, request.truncation_side) for prompt in prompts),
        bad_words=bad_and_stop_words.bad_words(tokenizer.model, request.bad_words),
        stop_words=bad_and_stop_words.stop_words(tokenizer.model, request.stop_words),
        marks=tuple(tuple(tokenizer.model.encode(mark, add_special_tokens=False)) for mark in request.marks),
    )


def prompt_of_chat(
    tokenizer: LimitedTokenizer,
    chat: ChatInput,
    order: PictureOrder,
    *,
    add_special_tokens: bool,
    context: int | None = None,
) -> PreparedPrompt:
    """Return the ids, the text and the pictures of a rendered chat; raises InvalidRequest."""
    check_pictures(tokenizer.model.pictures, chat, order)
    rendered = tokenizer.renderer.render(chat, add_special_tokens=add_special_tokens)
    tokenizer.check_size([rendered.text], param="messages")
    tokenizer.check_fits(rendered.text, context, param="messages")
    ids = tuple(rendered.encode())
    if not ids:
        raise InvalidRequest("the chat template made an empty prompt of these messages", param="messages")
    text = _without_bos(tokenizer.model, rendered.text)
    prompt = PreparedPrompt(ids=ids, text=text, text_is_exact=not add_special_tokens)
    return with_pictures(tokenizer, prompt, chat, order, context)


def _from_prompts(tokenizer: LimitedTokenizer, request: PrepareRequest, context: int | None) -> list[PreparedPrompt]:
    if not request.prompts:
        raise InvalidRequest("expected at least one prompt, found none", param="prompt")
    texts = [prompt for prompt in request.prompts if isinstance(prompt, str)]
    tokenizer.check_size(texts, param="prompt")
    for text in texts:
        tokenizer.check_fits(text, context, param="prompt")
    return [
        _from_prompt(tokenizer, prompt, add_special_tokens=request.add_special_tokens) for prompt in request.prompts
    ]


def _from_prompt(
    tokenizer: LimitedTokenizer, prompt: str | tuple[int, ...], *, add_special_tokens: bool
) -> PreparedPrompt:
    if not prompt:
        raise InvalidRequest("expected a prompt, found an empty one", param="prompt")
    if isinstance(prompt, str):
        ids = tuple(tokenizer.model.encode(prompt, add_special_tokens=add_special_tokens))
        if not ids:
            raise InvalidRequest("expected a prompt with at least one token, found none", param="prompt")
        # With add_special_tokens a BOS that the client wrote comes on top of the one that is added, so it stays.
        text = prompt if add_special_tokens else _without_bos(tokenizer.model, prompt)
        return PreparedPrompt(ids=ids, text=text, text_is_exact=add_special_tokens)
    tokenizer.check_ids(prompt, param="prompt")
    return PreparedPrompt(
        ids=prompt, text=_without_bos(tokenizer.model, tokenizer.model.decode(prompt)), text_is_exact=False
    )


def _truncated(
    model: ModelTokenizer, prompt: PreparedPrompt, keep: int | None, side: Literal["left", "right"]
) -> PreparedPrompt:
    if keep is None or len(prompt.ids) <= keep:
        return prompt
    kept = slice(-keep, None) if side == "left" else slice(keep)
    ids, pictures = prompt.ids[kept], cut_between_pictures(prompt, kept)
    text = _without_bos(model, model.decode(as_in_text(ids, pictures)))
    return PreparedPrompt(ids=ids, text=text, text_is_exact=False, pictures=pictures)


def _without_bos(model: ModelTokenizer, text: str) -> str:
    """Return a text for an engine that tokenizes it once more, and puts the BOS before it again if it ever does."""
    return text.removeprefix(model.added_bos)
