"""Texts and pairs of texts as rows of ids, and pictures as rows of pixels or among the ids, for encoders.

The tokenizer itself cuts and joins texts. Many short ones come at once, so they are encoded together.
"""

from collections.abc import Sequence

from conch_contracts.messages.encoding import PrepareRowsRequest, PrepareRowsResponse, Row
from conch_contracts.messages.generation import PictureForm
from conch_kit.errors import InvalidRequest
from conch_tokenizer.pictures.picture_reader import PictureOrder
from conch_tokenizer.pictures.row_pictures import rows_of_pictures
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.prompt_pictures import cut_between_pictures
from conch_tokenizer.text.prompts import prompt_of_chat


def prepare_rows(tokenizer: LimitedTokenizer, request: PrepareRowsRequest) -> PrepareRowsResponse:
    """Return the rows of a request; raises InvalidRequest."""
    if (request.chat is None) == (not request.texts):
        raise InvalidRequest("expected exactly one of chat and texts")
    if request.texts.count(None) != len(request.pictures):
        raise InvalidRequest(f"expected {request.texts.count(None)} pictures, found {len(request.pictures)}")
    if request.chat is not None:
        rows = _from_chat(tokenizer, request)
    elif request.pairs:
        rows = _from_pairs(tokenizer, request)
    else:
        rows = _from_texts(tokenizer, request)
    if not all(row.tokens for row in rows):
        index = next(index for index, row in enumerate(rows) if not row.tokens)
        message = "expected a text with at least one token, found none"
        raise InvalidRequest(message, param=f"rows.{index}", code="invalid_value")
    return PrepareRowsResponse(rows=tuple(rows), firsts=_firsts(tokenizer, request, rows))


def _firsts(tokenizer: LimitedTokenizer, request: PrepareRowsRequest, rows: Sequence[Row]) -> tuple[int, ...]:
    """Return the lengths of the first texts of pairs, if a pair is too long: one of the two is at fault."""
    if not request.pairs or request.longest is None or max(len(row.ids) for row in rows) <= request.longest:
        return ()
    texts = [text for text in request.texts if isinstance(text, str)]
    alone = tokenizer.model.encode_rows(texts, None, add_special_tokens=request.add_special_tokens, truncate=None)
    return tuple(len(row.ids) for row in alone)


def _limit(request: PrepareRowsRequest) -> int | None:
    """Return how long the texts may be as they are; None where they are cut."""
    cuts = (request.truncate, request.truncate_pairs, request.truncate_firsts)
    return request.longest if cuts == (None, None, None) else None


def _from_chat(tokenizer: LimitedTokenizer, request: PrepareRowsRequest) -> list[Row]:
    assert request.chat is not None
    order = PictureOrder(request.picture_limits, PictureForm.PIXELS, request.picture_scope)
    prompt = prompt_of_chat(
        tokenizer, request.chat, order, add_special_tokens=request.add_special_tokens, context=_limit(request)
    )
    kept = _kept(request)
    return [Row(ids=prompt.ids[kept], pictures=cut_between_pictures(prompt, kept))]


def _from_texts(tokenizer: LimitedTokenizer, request: PrepareRowsRequest) -> list[Row]:
    texts = [text for text in request.texts if isinstance(text, str)]
    tokenizer.check_size(texts, param="rows")
    for index, text in enumerate(request.texts):
        if isinstance(text, str):
            tokenizer.check_fits(text, _limit(request), param=f"rows.{index}")
        elif text is not None:
            tokenizer.check_ids(text, param=f"rows.{index}")
    order = PictureOrder(request.picture_limits, PictureForm.PIXELS, request.picture_scope)
    shown = iter(rows_of_pictures(tokenizer.model.row_pictures, request.pictures, tokenizer.pictures, order))
    encoded = iter(_encode(tokenizer, request, texts, None))
    return [
        next(shown) if text is None else next(encoded) if isinstance(text, str) else _cut(text, request)
        for text in request.texts
    ]


def _from_pairs(tokenizer: LimitedTokenizer, request: PrepareRowsRequest) -> list[Row]:
    firsts = [text for text in request.texts if isinstance(text, str)]
    if len(firsts) != len(request.texts) or len(firsts) not in (1, len(request.pairs)):
        raise InvalidRequest("expected one text, or one for each of the pairs")
    firsts = _shortened(tokenizer, firsts, request.truncate_firsts)
    firsts *= len(request.pairs) // len(firsts)  # a single one is encoded anew with each of the others
    tokenizer.check_size([*firsts, *request.pairs], param="rows")
    for index, text in enumerate(request.pairs):
        tokenizer.check_fits(text, _limit(request), param=f"rows.{index}")
    return _encode(tokenizer, request, firsts, _shortened(tokenizer, list(request.pairs), request.truncate_pairs))


def _shortened(tokenizer: LimitedTokenizer, texts: list[str], keep: int | None) -> list[str]:
    """Return the texts, each cut where its tokens end that may stay."""
    if keep is None:
        return texts
    spans = tokenizer.model.transformers(
        texts, add_special_tokens=False, return_offsets_mapping=True, return_attention_mask=False
    )["offset_mapping"]
    return [text[: span[keep - 1][1]] if len(span) > keep else text for text, span in zip(texts, spans, strict=True)]


def _encode(
    tokenizer: LimitedTokenizer, request: PrepareRowsRequest, texts: list[str], pairs: list[str] | None
) -> list[Row]:
    if not texts:
        return []
    encoded = tokenizer.model.encode_rows(
        texts,
        pairs,
        add_special_tokens=request.add_special_tokens,
        truncate=request.truncate,
        side=request.truncation_side,
    )
    if request.truncate is not None and max(len(row.ids) for row in encoded) > request.truncate:
        # What is shorter than its own special tokens is left as it was.
        message = f"expected room for the special tokens too, found {request.truncate}"
        raise InvalidRequest(message, param="truncate_prompt_tokens", code="invalid_value")
    return [Row(ids=tuple(row.ids), second=row.second) for row in encoded]


def _cut(ids: Sequence[int], request: PrepareRowsRequest) -> Row:
    return Row(ids=tuple(ids[_kept(request)]))


def _kept(request: PrepareRowsRequest) -> slice:
    keep = request.truncate
    return slice(-keep, None) if keep is not None and request.truncation_side == "left" else slice(keep)
