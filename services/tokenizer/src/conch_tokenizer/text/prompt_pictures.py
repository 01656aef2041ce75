"""Pictures of a chat among the ids of its prompt: each image token becomes as many as its picture has features."""

from collections.abc import Sequence

from conch_contracts.messages.generation import PictureForm, PreparedPicture, PreparedPrompt
from conch_contracts.messages.message import changed
from conch_contracts.messages.tokenization import ChatInput
from conch_kit.errors import InvalidRequest
from conch_tokenizer.errors import TEMPLATE_ERROR
from conch_tokenizer.pictures.model_pictures import ModelPictures
from conch_tokenizer.pictures.picture_reader import MOST_BYTES, PictureOrder, no_pictures
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer


def check_pictures(model: ModelPictures | None, chat: ChatInput, order: PictureOrder) -> None:
    """Refuse pictures that the model does not take, and more than it takes; raises InvalidRequest."""
    shown = sum(length is None for lengths in chat.part_lengths.values() for length in lengths)
    if shown != len(chat.pictures):
        raise InvalidRequest(f"expected a picture for each of {shown} places, found {len(chat.pictures)}")
    if not chat.pictures:
        return
    if model is None or order.limits is None:
        raise no_pictures(chat.pictures[0])
    if len(chat.pictures) > order.limits.max:
        raise InvalidRequest(
            f"expected at most {order.limits.max} pictures in one prompt, found {len(chat.pictures)}",
            param=chat.pictures[order.limits.max].param,
            code="invalid_value",
        )


def with_pictures(
    tokenizer: LimitedTokenizer, prompt: PreparedPrompt, chat: ChatInput, order: PictureOrder, context: int | None
) -> PreparedPrompt:
    """Return a prompt with the chat's pictures in the places that its template gave them; raises InvalidRequest."""
    model = tokenizer.model.pictures
    if model is None or order.limits is None:
        return prompt
    places = [at for at, token in enumerate(prompt.ids) if token == model.token_id]
    if len(places) != len(chat.pictures):
        raise InvalidRequest(
            f"the chat template has places for {len(places)} pictures, where the messages hold {len(chat.pictures)}",
            param=chat.chat_template_param,
            code=TEMPLATE_ERROR,
        )
    if not places:
        return prompt
    _check_text(model, prompt, chat, order)
    ids, pictures, rest = list[int](), list[PreparedPicture](), 0
    left, size = len(prompt.ids), 0
    for index, (place, picture) in enumerate(zip(places, chat.pictures, strict=True)):
        read = tokenizer.pictures.read(index, picture, model, order)
        left, size = left + read.length - 1, size + len(read.data)
        if size > MOST_BYTES:
            raise InvalidRequest(
                f"expected pictures of at most {MOST_BYTES} bytes as PNG files in one prompt, found {size} or more; "
                "make them smaller",
                param=picture.param,
                code="invalid_value",
            )
        if context is not None and left > context:
            raise InvalidRequest(
                f"This model's maximum context length is {context} tokens. However, your messages have at least {left} "
                "tokens with their pictures. Please show fewer of them.",
                param=picture.param,
                code="context_length_exceeded",
            )
        ids += prompt.ids[rest:place]
        pictures.append(
            PreparedPicture(
                data=read.data,
                height=read.height,
                width=read.width,
                start=len(ids),
                length=read.length,
                digest=read.digest,
            )
        )
        ids += [model.token_id] * read.length
        rest = place + 1
    ids += prompt.ids[rest:]
    exact = prompt.text_is_exact and order.form is PictureForm.PNG
    return changed(prompt, ids=tuple(ids), pictures=tuple(pictures), text_is_exact=exact)


def cut_between_pictures(prompt: PreparedPrompt, kept: slice) -> tuple[PreparedPicture, ...]:
    """Return the pictures in the ids that are kept, with their places there; raises InvalidRequest for half of one."""
    start, end, _ = kept.indices(len(prompt.ids))
    found = []
    for picture in prompt.pictures:
        after = picture.start + picture.length
        if after <= start or picture.start >= end:
            continue
        if picture.start < start or after > end:
            raise InvalidRequest(
                f"expected a number of tokens that cuts no picture, found {end - start}, which cuts one of "
                f"{picture.length} tokens",
                param="truncate_prompt_tokens",
                code="invalid_value",
            )
        found.append(changed(picture, start=picture.start - start))
    return tuple(found)


def as_in_text(ids: Sequence[int], pictures: Sequence[PreparedPicture]) -> list[int]:
    """Return ids with one for each picture, as text has it."""
    kept, rest = list[int](), 0
    for picture in pictures:
        kept += ids[rest : picture.start + 1]
        rest = picture.start + picture.length
    return [*kept, *ids[rest:]]


def _check_text(model: ModelPictures, prompt: PreparedPrompt, chat: ChatInput, order: PictureOrder) -> None:
    """Refuse a text in which an engine that reads it would find more pictures than there are."""
    if order.form is PictureForm.PNG and prompt.text.count(model.token) != len(chat.pictures):
        raise InvalidRequest(
            f"the messages hold the text {model.token!r}, which this model's engine would take for a picture; "
            "write it otherwise",
            param="messages",
            code="invalid_value",
        )
