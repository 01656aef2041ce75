"""One path for every endpoint answers as the endpoints themselves do."""

from typing import Any

import pytest

from testkit.http.json_post import post, read_raw

HELLO = [{"role": "user", "content": "Hello!"}]
CHAT = {"model": "tiny-chat", "messages": HELLO, "temperature": 0, "max_tokens": 5}
VARYING = ("id", "created")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/completions", {"model": "tiny-chat", "prompt": "Once", "temperature": 0, "max_tokens": 5}),
        ("/v1/embeddings", {"model": "minilm", "input": ["a", "b"]}),
        ("/v1/score", {"model": "tiny-reranker", "queries": "a", "documents": ["b", "c"]}),
        ("/v1/rerank", {"model": "tiny-reranker", "query": "a", "documents": ["b", "c"]}),
        ("/v1/classify", {"model": "tiny-classifier", "input": "a"}),
    ],
)
def test_each_body_is_answered_as_on_its_own_path(base_url: str, path: str, body: dict[str, Any]) -> None:
    root = base_url.removesuffix("/v1")
    own, invoked = post(f"{root}{path}", body), post(f"{root}/invocations", body)
    assert (own.status, invoked.status) == (200, 200)
    plain = [{key: value for key, value in one.body.items() if key not in VARYING} for one in (own, invoked)]
    assert plain[0] == plain[1]


def test_a_chat_is_streamed(base_url: str) -> None:
    raw = read_raw(f"{base_url.removesuffix('/v1')}/invocations", {**CHAT, "stream": True})
    assert raw.startswith(b"data: {")
    assert raw.endswith(b"data: [DONE]\n\n")
