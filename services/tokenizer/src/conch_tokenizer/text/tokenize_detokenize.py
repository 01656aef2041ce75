"""What clients ask of a tokenizer directly: the ids of a text or of a rendered chat, and the text of ids."""

from conch_contracts.messages.tokenization import (
    DecodeIdsRequest,
    DecodeIdsResponse,
    EncodeTextRequest,
    EncodeTextResponse,
)
from conch_kit.errors import InvalidRequest
from conch_tokenizer.pictures.picture_reader import PictureOrder
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.prompts import prompt_of_chat


def tokenize(tokenizer: LimitedTokenizer, request: EncodeTextRequest) -> EncodeTextResponse:
    """Return the ids of a text or of a rendered chat; raises InvalidRequest."""
    if (request.chat is None) == (request.prompt is None):
        raise InvalidRequest("expected exactly one of prompt and messages")
    if request.chat is not None:
        order = PictureOrder(request.picture_limits, form=None)
        ids = prompt_of_chat(tokenizer, request.chat, order, add_special_tokens=request.add_special_tokens).ids
    else:
        text = request.prompt or ""
        tokenizer.check_size([text], param="prompt")
        ids = tuple(tokenizer.model.encode(text, add_special_tokens=request.add_special_tokens))
    return EncodeTextResponse(
        tokens=ids, token_strs=tokenizer.model.token_strings(ids) if request.return_token_strs else None
    )


def detokenize(tokenizer: LimitedTokenizer, request: DecodeIdsRequest) -> DecodeIdsResponse:
    """Return the text of ids; raises InvalidRequest."""
    tokenizer.check_ids(request.tokens, param="tokens")
    return DecodeIdsResponse(
        prompt=tokenizer.model.decode(request.tokens, skip_special_tokens=request.skip_special_tokens)
    )
