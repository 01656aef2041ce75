"""What cannot be served is refused in the API's words, whichever endpoint it is sent to."""

from typing import Any

import pytest

from testkit.http.json_post import post

EMBED: dict[str, Any] = {"model": "minilm", "input": "hello"}
RERANK: dict[str, Any] = {"model": "tiny-reranker", "query": "a", "documents": ["b"]}
SCORE: dict[str, Any] = {"model": "tiny-reranker", "text_1": "a", "text_2": "b"}
CLASSIFY: dict[str, Any] = {"model": "tiny-classifier", "input": "a"}
TOKENIZE: dict[str, Any] = {"model": "minilm", "prompt": "a"}
DETOKENIZE: dict[str, Any] = {"model": "minilm", "tokens": [101]}
GOOD = {
    "/v1/embeddings": EMBED,
    "/pooling": EMBED,
    "/v1/rerank": RERANK,
    "/v2/rerank": RERANK,
    "/score": SCORE,
    "/classify": CLASSIFY,
    "/tokenize": TOKENIZE,
    "/detokenize": DETOKENIZE,
}
LONG = "word " * 600


def refused(base_url: str, path: str, body: object, raw: bytes | None = None) -> tuple[int, dict[str, Any]]:
    answer = post(base_url.removesuffix("/v1") + path, body, raw=raw)
    error = answer.body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.headers["x-request-id"]
    return answer.status, error


@pytest.mark.parametrize("path", GOOD)
def test_the_good_twin_is_served(base_url: str, path: str) -> None:
    assert post(base_url.removesuffix("/v1") + path, GOOD[path]).status == 200


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"input": None}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": [""]}, "input.0"),
        ({"input": [[]]}, "input.0"),
        ({"input": ["a", 1]}, "input"),
        ({"input": [[1, 2], ["a"]]}, "input"),
        ({"input": [[1], [30522]]}, "input.1"),
        ({"input": [-1]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": LONG}, "input"),
        ({"input": ["a", LONG]}, "input.1"),
        ({"input": ["a", ""], "add_special_tokens": False}, "input.1"),
        ({"input": ["a", " "], "add_special_tokens": False}, "input.1"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": 10**9}, "dimensions"),
        ({"encoding_format": "x"}, "encoding_format"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": 1}, "truncate_prompt_tokens"),
        ({"messages": [{"role": "user", "content": "a"}]}, "messages"),
        ({"input": None, "messages": [{"role": "user", "content": "a"}]}, "messages"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_bad_embedding_request_names_its_parameter(base_url: str, changes: dict[str, Any], param: str) -> None:
    status, error = refused(base_url, "/v1/embeddings", EMBED | changes)
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert param in (error["param"], (error["param"] or "").split(".")[0])


@pytest.mark.parametrize(
    ("path", "changes", "param"),
    [
        ("/v1/rerank", {"documents": []}, "documents"),
        ("/v1/rerank", {"documents": ["a"] * 2049}, "documents"),
        ("/v1/rerank", {"documents": [1]}, "documents"),
        ("/v1/rerank", {"documents": ["a", LONG]}, "documents.1"),
        ("/v1/rerank", {"documents": [{"text": LONG}]}, "documents.0"),
        ("/v1/rerank", {"query": LONG, "documents": ["a", "b"]}, "query"),
        ("/score", {"text_1": ["a", LONG], "text_2": ["a", "a"]}, "text_1.1"),
        ("/v1/rerank", {"top_n": -1}, "top_n"),
        ("/v1/rerank", {"encoding_format": "base64"}, "encoding_format"),
        ("/v1/rerank", {"query": ""}, "query"),
        ("/v1/rerank", {"query": None}, "query"),
        ("/v1/rerank", {"top_n": "many"}, "top_n"),
        ("/v1/rerank", {"max_tokens_per_doc": -1}, "max_tokens_per_doc"),
        ("/score", {"text_1": ["a", "b"], "text_2": ["c"]}, "text_1"),
        ("/score", {"text_2": []}, "text_2"),
        ("/score", {"text_2": ["a", LONG]}, "text_2.1"),
        ("/score", {"model": "minilm", "text_1": [LONG], "text_2": ["a"]}, "text_1.0"),
        ("/classify", {"input": ["a", LONG]}, "input.1"),
        ("/classify", {"input": []}, "input"),
        ("/tokenize", {"prompt": None}, "prompt"),
        ("/detokenize", {"tokens": [99999999]}, "tokens"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_bad_request_names_its_parameter(base_url: str, path: str, changes: dict[str, Any], param: str) -> None:
    status, error = refused(base_url, path, GOOD[path] | changes)
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert param in (error["param"], (error["param"] or "").split(".")[0])


MILLION = ["a"] * 1_000_000
HUGE: dict[str, tuple[str, dict[str, Any]]] = {
    "a million texts": ("/v1/embeddings", {"input": MILLION}),
    "a million lists of ids": ("/pooling", {"input": [[1]] * 1_000_000}),
    "a text of 9 MB": ("/v1/embeddings", {"input": "a b " * 2_250_000}),
    "a million ids": ("/v1/embeddings", {"input": [101] * 1_000_000}),
    "a million ids to classify": ("/classify", {"input": [[101] * 500] * 2000}),
    "too many ids in all": ("/v1/embeddings", {"input": [[101] * 600] * 2048, "truncate_prompt_tokens": -1}),
    "a million documents": ("/v1/rerank", {"documents": MILLION, "top_n": -1}),
    "a document of 9 MB": ("/v1/rerank", {"documents": ["a b " * 2_250_000]}),
    "a long query with many documents": ("/v1/rerank", {"query": "a b " * 2_500, "documents": ["a"] * 2048}),
    "a million texts to classify": ("/classify", {"input": MILLION}),
    "a million pairs": ("/score", {"text_2": MILLION}),
    "a million tokens": ("/detokenize", {"tokens": [101] * 1_300_000}),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_is_far_too_much_is_a_400_and_the_next_request_works(base_url: str, name: str) -> None:
    path, changes = HUGE[name]
    status, error = refused(base_url, path, GOOD[path] | changes)
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert len(error["message"]) < 300
    assert post(base_url.removesuffix("/v1") + path, GOOD[path]).status == 200


@pytest.mark.parametrize("path", ["/v1/embeddings", "/pooling", "/v1/rerank", "/score", "/classify"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user", "u" * 1_000_000),
        ("user", {"a": "b"}),
        ("metadata", {str(key): "v" for key in range(10_000)}),
        ("metadata", {"a": {"b": "c"}}),
        ("metadata", {"a": "v" * 513}),
        ("metadata", {"k" * 65: "v"}),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_a_client_tells_of_itself_is_bounded(base_url: str, path: str, name: str, value: object) -> None:
    status, error = refused(base_url, path, GOOD[path] | {name: value})
    assert (status, (error["param"] or "").split(".")[0]) == (400, name)


@pytest.mark.parametrize(
    ("path", "model", "kinds"),
    [
        ("/v1/embeddings", "tiny-chat", "Embedding would do"),
        ("/v1/rerank", "tiny-chat", "Rerank and Embedding would do"),
        ("/score", "tiny-classifier", "Rerank and Embedding would do"),
        ("/classify", "minilm", "Classify would do"),
        ("/pooling", "tiny-reranker", "Embedding and Classify would do"),
        ("/v1/chat/completions", "minilm", "LLM would do"),
    ],
)
def test_a_model_of_the_wrong_kind_is_told_which_kinds_would_do(
    base_url: str, path: str, model: str, kinds: str
) -> None:
    chat = {"messages": [{"role": "user", "content": "a"}]}
    status, error = refused(base_url, path, {**GOOD.get(path, chat), "model": model})
    assert (status, error["param"], error["code"]) == (400, "model", "unsupported_model")
    assert kinds in error["message"]


@pytest.mark.parametrize(
    ("path", "model", "advice"),
    [
        ("/v1/embeddings", "minilm", "send texts as 'input'"),
        ("/classify", "tiny-classifier", "send texts as 'input'"),
        ("/tokenize", "minilm", "send a text as 'prompt'"),
    ],
)
def test_a_conversation_for_a_model_without_a_template_is_told_what_to_send(
    base_url: str, path: str, model: str, advice: str
) -> None:
    status, error = refused(base_url, path, {"model": model, "messages": [{"role": "user", "content": "a"}]})
    assert (status, error["param"], error["code"]) == (400, "messages", "template_error")
    assert advice in error["message"]


@pytest.mark.parametrize("path", GOOD)
def test_an_unknown_model_is_a_404(base_url: str, path: str) -> None:
    status, error = refused(base_url, path, GOOD[path] | {"model": "nobody"})
    assert (status, error["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"input": NaN}',
        b'{"unheard_of": 1e999}',
        b'{"input": "\xff"}',
        b'{"input": "a", "input": "b"}',
        b'{"input": "\\ud800"}',
        b"\xef\xbb\xbf{}",
        b'{"a":' * 100 + b"1" + b"}" * 100,
        b'{"input": ' + b"[" * 1000 + b"]" * 1000 + b"}",
        b"\x1f\x8b\x08",
    ],
    ids=range(14),
)
def test_a_body_that_is_no_request_is_a_400(base_url: str, path: str, raw: bytes) -> None:
    assert refused(base_url, path, None, raw)[0] == 400


@pytest.mark.parametrize(("asked", "tokens"), [(-1, 256), (10, 10), (256, 256)])
def test_a_long_text_is_cut_where_the_request_says(base_url: str, asked: int, tokens: int) -> None:
    answer = post(f"{base_url}/embeddings", EMBED | {"input": LONG, "truncate_prompt_tokens": asked})
    assert (answer.status, answer.body["usage"]["prompt_tokens"]) == (200, tokens)


def test_a_text_cannot_be_cut_above_what_the_model_takes(base_url: str) -> None:
    status, error = refused(base_url, "/v1/embeddings", EMBED | {"truncate_prompt_tokens": 257})
    assert (status, error["param"]) == (400, "truncate_prompt_tokens")


@pytest.mark.parametrize(("changes", "tokens"), [({"truncation": True}, 512), ({"max_tokens_per_doc": 5}, 9)])
def test_a_long_document_is_cut_where_the_request_says(base_url: str, changes: dict[str, Any], tokens: int) -> None:
    answer = post(f"{base_url}/rerank", RERANK | {"documents": [LONG], **changes})
    assert (answer.status, answer.body["usage"]["prompt_tokens"]) == (200, tokens)
