"""The examples against the reference implementation's numbers, through the whole stack."""

import json
import struct
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from testkit.http.json_post import post
from testkit.models.encoder_golden import TOLERANCE, encoder_golden
from testkit.processes.conch_up import wait_until

Json = dict[str, Any]


def minilm() -> list[Json]:
    items: list[Json] = json.loads((Path(__file__).parent / "minilm.json").read_text())["items"]
    return items


def test_embeddings_are_those_of_the_reference(base_url: str) -> None:
    items = minilm()
    answer = post(f"{base_url}/embeddings", {"model": "minilm", "input": [item["text"] for item in items]})
    assert answer.status == 200
    assert answer.body["usage"]["prompt_tokens"] == sum(len(item["input_ids"]) for item in items)
    for found, item in zip(answer.body["data"], items, strict=True):
        assert found["embedding"] == pytest.approx(item["embedding"], abs=TOLERANCE)


@pytest.mark.parametrize("item", encoder_golden("tiny-reranker"), ids=lambda item: item["query"][:30])
@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v2/rerank"])
def test_documents_are_scored_as_by_the_reference(base_url: str, path: str, item: Json) -> None:
    body = {"model": "tiny-reranker", "query": item["query"], "documents": item["documents"]}
    answer = post(base_url.removesuffix("/v1") + path, body).body
    scores = {result["index"]: result["relevance_score"] for result in answer["results"]}
    assert [scores[index] for index in range(len(scores))] == pytest.approx(item["scores"], abs=TOLERANCE)
    assert [result["relevance_score"] for result in answer["results"]] == sorted(scores.values(), reverse=True)
    assert [entry["index"] for entry in answer["data"]] == [result["index"] for result in answer["results"]]


def test_the_manuals_example_ranks_article_3_first(base_url: str) -> None:
    item = next(item for item in encoder_golden("tiny-reranker") if "finished oil circulation" in item["query"])
    body = {"model": "tiny-reranker", "query": item["query"], "documents": item["documents"], "top_n": "2"}
    answer = post(f"{base_url}/rerank", body).body
    assert len(answer["results"]) == len(answer["data"]) == 2
    assert answer["results"][0]["document"]["text"].startswith("Article 3")
    assert answer["data"][0]["text"].startswith("Article 3")
    counted = {"prompt_tokens": 316, "total_tokens": 316, "completion_tokens": 0}
    assert answer["usage"] == {**counted, "prompt_tokens_details": None}
    assert answer["meta"]["billed_units"] == {"search_units": 1}


def test_texts_are_classified_as_by_the_reference(base_url: str) -> None:
    items = encoder_golden("tiny-classifier")
    body = {"model": "tiny-classifier", "input": [item["text"] for item in items]}
    answer = post(f"{base_url}/classify", body).body
    assert [found["label"] for found in answer["data"]] == [item["label"] for item in items]
    for found, item in zip(answer["data"], items, strict=True):
        assert found["probs"] == pytest.approx(item["probs"], abs=TOLERANCE)
        assert found["num_classes"] == 3


def test_a_reranker_scores_pairs_and_an_embedding_model_compares_texts(base_url: str) -> None:
    item = encoder_golden("tiny-reranker")[0]
    body = {"model": "tiny-reranker", "text_1": item["query"], "text_2": item["documents"]}
    scores = [entry["score"] for entry in post(f"{base_url}/score", body).body["data"]]
    assert scores == pytest.approx(item["scores"], abs=TOLERANCE)
    texts = minilm()[:2]
    cosine = sum(a * b for a, b in zip(texts[0]["embedding"], texts[1]["embedding"], strict=True))
    body = {"model": "minilm", "text_1": texts[0]["text"], "text_2": texts[1]["text"]}
    assert post(f"{base_url}/score", body).body["data"][0]["score"] == pytest.approx(cosine, abs=TOLERANCE)


def test_pooling_gives_a_vector_for_each_token_whose_mean_is_the_embedding(base_url: str) -> None:
    item = minilm()[0]
    (pooled,) = post(f"{base_url}/pooling", {"model": "minilm", "input": item["text"]}).body["data"]
    vectors = pooled["data"]
    assert (len(vectors), len(vectors[0])) == (len(item["input_ids"]), 384)
    mean = [sum(numbers) / len(vectors) for numbers in zip(*vectors, strict=True)]
    length = sum(number * number for number in mean) ** 0.5
    assert [number / length for number in mean] == pytest.approx(item["embedding"], abs=TOLERANCE)


def test_vectors_as_bytes_are_where_their_header_says(base_url: str) -> None:
    items = minilm()[:2]
    body = {"model": "minilm", "input": [item["text"] for item in items], "encoding_format": "bytes"}
    asked = json.dumps({**body, "embed_dtype": "float16"}).encode()
    request = Request(f"{base_url}/embeddings", asked, {"content-type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        content = answer.read()
    assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream")
    described = json.loads(answer.headers["metadata"])["data"]
    assert [(part["index"], part["start"], part["end"]) for part in described] == [(0, 0, 768), (1, 768, 1536)]
    for part, item in zip(described, items, strict=True):
        vector = struct.unpack("<384e", content[part["start"] : part["end"]])
        assert vector == pytest.approx(item["embedding"], abs=TOLERANCE)


def test_a_pooling_task_gives_what_its_own_endpoint_gives(base_url: str) -> None:
    item = minilm()[0]
    body = {"model": "minilm", "input": item["text"], "task": "embed"}
    (pooled,) = post(f"{base_url}/pooling", body).body["data"]
    assert pooled["data"] == pytest.approx(item["embedding"], abs=TOLERANCE)
    text = {"model": "tiny-classifier", "input": "fine"}
    (classes,) = post(f"{base_url}/pooling", text).body["data"]
    (classified,) = post(f"{base_url}/classify", text).body["data"]
    assert classes["data"] == pytest.approx(classified["probs"], abs=1e-5)
    refused = post(f"{base_url}/pooling", {**text, "task": "token_classify"})
    assert (refused.status, refused.body["error"]["param"]) == (400, "task")


def test_the_largest_request_keeps_its_order(base_url: str) -> None:
    texts = [f"word {index % 40}" for index in range(2048)]
    answer = post(f"{base_url}/score", {"model": "tiny-reranker", "text_1": "word 7", "text_2": texts}).body
    scores = [entry["score"] for entry in answer["data"]]
    assert len(scores) == 2048
    assert scores == pytest.approx(scores[:40] * 51 + scores[:8], abs=1e-5)


def test_equal_requests_are_answered_from_the_cache_and_say_so(base_url: str) -> None:
    body = {"model": "minilm", "input": "a text that no other test sends"}
    answers = [post(f"{base_url}/embeddings", body)]

    def hit() -> bool:
        answers.append(post(f"{base_url}/embeddings", body))
        return answers[-1].headers["x-conch-cache"] == "hit"

    wait_until(hit, "a hit")  # Redis gets so little time that a busy machine may need several requests
    assert answers[0].headers["x-conch-cache"] == "miss"
    assert answers[-1].body["data"] == answers[0].body["data"]
    other = post(f"{base_url}/embeddings", {**body, "encoding_format": "base64"})
    assert other.headers["x-conch-cache"] == "miss"
    uncached = post(f"{base_url}/classify", {"model": "tiny-classifier", "input": "fine"})
    assert "x-conch-cache" not in uncached.headers
