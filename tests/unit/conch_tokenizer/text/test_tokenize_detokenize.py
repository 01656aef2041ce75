from collections.abc import Callable

import msgspec
import pytest

from conch_contracts.messages.tokenization import DecodeIdsRequest, EncodeTextRequest, PrepareRequest
from conch_contracts.names import Digest
from conch_kit.errors import InvalidRequest
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer
from conch_tokenizer.text.prompts import prepare_prompts
from conch_tokenizer.text.tokenize_detokenize import detokenize, tokenize

DIGEST = Digest("0" * 64)
CHAT = {"messages": [{"role": "user", "content": "Hello!"}]}


def test_tokenize_equals_encode(tokenizer: LimitedTokenizer, model: ModelTokenizer) -> None:
    text = "Hello <|im_end|> 你好 😀"
    answer = tokenize(tokenizer, EncodeTextRequest(digest=DIGEST, prompt=text, return_token_strs=True))
    assert list(answer.tokens) == model.transformers.encode(text)
    assert answer.token_strs == tuple(model.transformers.convert_ids_to_tokens(list(answer.tokens)))


def test_tokenize_renders_messages(tokenizer: LimitedTokenizer) -> None:
    request = msgspec.convert(type=EncodeTextRequest, obj={"digest": DIGEST, "chat": CHAT, "add_special_tokens": False})
    prepared = msgspec.convert(type=PrepareRequest, obj={"digest": DIGEST, "chat": CHAT})
    assert tokenize(tokenizer, request).tokens == prepare_prompts(tokenizer, prepared).prompts[0].ids


def test_tokenize_of_an_empty_text_is_empty(tokenizer: LimitedTokenizer) -> None:
    answer = tokenize(tokenizer, EncodeTextRequest(digest=DIGEST, prompt=""))
    assert (answer.tokens, answer.token_strs) == ((), None)


def test_detokenize_equals_decode_and_keeps_special_tokens(tokenizer: LimitedTokenizer, model: ModelTokenizer) -> None:
    ids = (2040, 1780, 198, 2041)
    answer = detokenize(tokenizer, DecodeIdsRequest(digest=DIGEST, tokens=ids))
    assert answer.prompt == model.transformers.decode(list(ids)) == "<|im_start|>user\n<|im_end|>"


def test_detokenize_leaves_out_special_tokens_where_it_is_to(tokenizer: LimitedTokenizer) -> None:
    request = DecodeIdsRequest(digest=DIGEST, tokens=(2040, 1780, 198, 2041), skip_special_tokens=True)
    assert detokenize(tokenizer, request).prompt == "user\n"


def test_tokenize_refuses_a_text_that_is_too_long(make_tokenizer: Callable[[int], LimitedTokenizer]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        tokenize(make_tokenizer(1000), EncodeTextRequest(digest=DIGEST, prompt="x" * 1001))
    assert (refused.value.param, refused.value.code) == ("prompt", "context_length_exceeded")


def test_detokenize_refuses_ids_outside_the_vocabulary(tokenizer: LimitedTokenizer) -> None:
    with pytest.raises(InvalidRequest, match="from 0 to 2047, found 5000"):
        detokenize(tokenizer, DecodeIdsRequest(digest=DIGEST, tokens=(1, 5000)))
