"""Official clients, unchanged, against a running Conch; `tests/e2e/test_clients.py` runs this with their versions.

OPENAI_BASE_URL names the Conch, as for the SDK.
"""

import os

import cohere
import litellm
import pytest
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai import OpenAIEmbedding
from openai import OpenAI

BASE_URL = os.environ["OPENAI_BASE_URL"]  # noqa: TID251
ROOT_URL = BASE_URL.removesuffix("/v1")
QUERY = "How is finished oil stored?"
DOCUMENTS = ["The weather is fine today.", "Finished oil is stored in tanks.", "Bread is baked in ovens."]
TEXTS = ["hello world", "a second, longer text"]


@pytest.fixture(scope="module")
def expected() -> list[list[float]]:
    """Return the embeddings of the texts as plain JSON gives them."""
    answer = OpenAI(base_url=BASE_URL, api_key="x").embeddings.create(
        model="minilm", input=TEXTS, encoding_format="float"
    )
    return [item.embedding for item in answer.data]


def test_openai_reads_base64(expected: list[list[float]]) -> None:
    answer = OpenAI(base_url=BASE_URL, api_key="x").embeddings.create(model="minilm", input=TEXTS)
    for item, vector in zip(answer.data, expected, strict=True):
        assert item.embedding == pytest.approx(vector, abs=1e-6)


def test_cohere_v1_reranks() -> None:
    client = cohere.Client(api_key="x", base_url=ROOT_URL)
    answer = client.rerank(model="tiny-reranker", query=QUERY, documents=DOCUMENTS, top_n=2, return_documents=True)
    assert len(answer.results) == 2
    assert answer.results[0].index == 1
    assert answer.results[0].document is not None
    assert answer.results[0].document.text == DOCUMENTS[1]


def test_cohere_v2_reranks() -> None:
    client = cohere.ClientV2(api_key="x", base_url=ROOT_URL)
    answer = client.rerank(model="tiny-reranker", query=QUERY, documents=DOCUMENTS)
    assert answer.results[0].index == 1
    assert 0 < answer.results[0].relevance_score <= 1
    assert answer.meta is not None
    assert answer.meta.billed_units is not None
    assert answer.meta.billed_units.search_units == 1


@pytest.mark.parametrize(("provider", "base"), [("jina_ai", BASE_URL), ("hosted_vllm", ROOT_URL)])
def test_litellm_reranks(provider: str, base: str) -> None:
    answer = litellm.rerank(
        model=f"{provider}/tiny-reranker", query=QUERY, documents=DOCUMENTS, api_base=f"{base}/rerank", api_key="x"
    )
    assert answer.results is not None
    assert answer.results[0]["index"] == 1
    assert len(answer.results) == 3


@pytest.mark.parametrize("at_once", [True, False])
def test_langchain_embeds(expected: list[list[float]], at_once: bool) -> None:
    # With check_embedding_ctx_length it would send the ids of OpenAI's own tokenizer, which no other model has.
    embeddings = OpenAIEmbeddings(model="minilm", base_url=BASE_URL, api_key="x", check_embedding_ctx_length=False)
    vectors = embeddings.embed_documents(TEXTS) if at_once else [embeddings.embed_query(text) for text in TEXTS]
    for vector, wanted in zip(vectors, expected, strict=True):
        assert vector == pytest.approx(wanted, abs=1e-6)


def test_llama_index_embeds(expected: list[list[float]]) -> None:
    model = OpenAIEmbedding(model_name="minilm", api_base=BASE_URL, api_key="x")
    assert model.get_query_embedding(TEXTS[0]) == pytest.approx(expected[0], abs=1e-6)
    for vector, wanted in zip(model.get_text_embedding_batch(TEXTS), expected, strict=True):
        assert vector == pytest.approx(wanted, abs=1e-6)
