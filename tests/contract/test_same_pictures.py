"""One conversation with pictures by every API: gateway and tokenizer make the same ids and the same pictures of it."""

from typing import Any

import pytest

from conch_contracts.messages.encoding import PrepareRowsRequest
from conch_contracts.messages.generation import PreparedPicture
from conch_contracts.messages.message import from_json
from conch_contracts.messages.tokenization import EncodeTextRequest, PrepareRequest
from conch_contracts.names import ENCODE_PATH, GENERATE_PATH, PREPARE_PATH, PREPARE_ROWS_PATH, TOKENIZE_PATH
from conch_contracts.records import Dialect, ModelKind, PictureProfile
from conch_tokenizer.pictures.picture_reader import PictureReader
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.encoder_rows import prepare_rows
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import load
from conch_tokenizer.text.prompts import prepare_prompts
from conch_tokenizer.text.tokenize_detokenize import tokenize
from testkit.gateway.fakes import Gateway, answered, gateway, route, rows, snapshot
from testkit.gateway.memory_responses import MemoryResponses
from testkit.models.vlm_golden import FOLDER, ITEMS, of_anthropic, of_chat, of_responses, pixels

RESPONSE = b'{"object":"response","status":"completed","output":[]}'
VECTOR = b'{"data":[{"object":"embedding","index":0,"embedding":[1.0,0.0]}]}'
SEEING = [item for item in ITEMS if item["pictures"]]
CONTEXT = 1024
PREPARED = (PREPARE_PATH, PREPARE_ROWS_PATH, TOKENIZE_PATH)

Seen = tuple[tuple[int, ...], tuple[PreparedPicture, ...] | None]
"""Ids, and the pictures among them; None where a tokenizer only counts."""


@pytest.fixture(scope="module")
def tokenizer() -> LimitedTokenizer:
    model = load(FOLDER)
    return LimitedTokenizer(model, ChatRenderer(model), 1_000_000, lambda: None, PictureReader())


def speaking() -> Gateway:
    scripts = {GENERATE_PATH: answered(RESPONSE), TOKENIZE_PATH: answered(b'{"tokens":[1]}')}
    model = route(pictures=PictureProfile(max=4), max_model_len=CONTEXT)
    return gateway(scripts, known=snapshot(model), responses=MemoryResponses())


def embedding() -> Gateway:
    scripts = {PREPARE_ROWS_PATH: rows(3), ENCODE_PATH: answered(VECTOR)}
    sees = PictureProfile(max=4, among_texts=True)
    model = route(kind=ModelKind.EMBEDDING, dialect=Dialect.ENCODER, pictures=sees, max_model_len=CONTEXT)
    return gateway(scripts, known=snapshot(model))


def asked(path: str, messages: list[Any]) -> dict[str, Any]:
    """Return what asks for one conversation on a path."""
    match path:
        case "/v1/responses":
            return {"input": of_responses(messages)}
        case "/v1/messages" | "/v1/messages/count_tokens":
            return {"messages": of_anthropic(messages), "max_tokens": 9}
        case "/v1/embeddings" | "/pooling":
            return {"messages": messages, "add_generation_prompt": True}
        case _:
            return {"messages": messages}


async def seen(path: str, messages: list[Any], tokenizer: LimitedTokenizer) -> Seen:
    """Return what a tokenizer makes of one conversation on a path."""
    served = embedding() if path in ("/v1/embeddings", "/pooling") else speaking()
    answer = await served.client.post(path, {"model": "tiny-chat", **asked(path, messages)})
    assert answer.status == 200, answer.body
    (message,) = [post for post in served.upstream.posts if post.path in PREPARED]
    if message.path == PREPARE_PATH:
        (prompt,) = prepare_prompts(tokenizer, from_json(PrepareRequest, message.body)).prompts
        return prompt.ids, prompt.pictures
    if message.path == PREPARE_ROWS_PATH:
        (row,) = prepare_rows(tokenizer, from_json(PrepareRowsRequest, message.body)).rows
        return row.ids, row.pictures
    return tokenize(tokenizer, from_json(EncodeTextRequest, message.body)).tokens, None


@pytest.mark.parametrize("item", SEEING, ids=lambda item: item["name"])
async def test_every_api_shows_a_model_the_same(item: dict[str, Any], tokenizer: LimitedTokenizer) -> None:
    messages = of_chat(item)
    ids, pictures = await seen("/v1/chat/completions", messages, tokenizer)
    assert pictures is not None
    assert list(ids) == item["prompt_ids"]
    assert [[one.start, one.length] for one in pictures] == item["spans"]
    for path in ("/v1/responses", "/v1/messages", "/v1/embeddings", "/pooling"):
        assert await seen(path, messages, tokenizer) == (ids, pictures), path
    for path in ("/v1/messages/count_tokens", "/tokenize"):
        found, shown = await seen(path, messages, tokenizer)
        assert (found, shown) in ((ids, None), (ids, pictures)), path


async def test_another_picture_is_another(tokenizer: LimitedTokenizer) -> None:
    """What all APIs agree on tells pictures apart, and the same file from another place it does not."""
    digests = {}
    for item in SEEING:
        for path in ("/v1/messages", "/v1/embeddings"):
            _, pictures = await seen(path, of_chat(item), tokenizer)
            for name, picture in zip(item["pictures"], pictures or (), strict=True):
                assert digests.setdefault(name, picture.digest) == picture.digest
    as_seen = {name: pixels(name).tobytes() for name in digests}
    assert len(set(digests.values())) == len(set(as_seen.values())) > 5
