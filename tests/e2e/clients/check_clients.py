"""Official clients, unchanged, against a running Conch; `tests/e2e/test_clients.py` runs this with their versions.

OPENAI_BASE_URL names the Conch, as for the SDK.
"""

import json
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


def test_cohere_v2_embeds_in_every_type(expected: list[list[float]]) -> None:
    types = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    client = cohere.ClientV2(api_key="x", base_url=ROOT_URL)
    answer = client.embed(model="minilm", texts=TEXTS, input_type="search_query", embedding_types=types)
    found = answer.embeddings
    for vector, wanted in zip(found.float_ or [], expected, strict=True):
        assert vector == pytest.approx(wanted, abs=1e-6)
    assert [max(map(abs, vector)) for vector in found.int8 or []] == [127, 127]
    assert found.uint8 == [[level + 128 for level in vector] for vector in found.int8 or []]
    assert found.ubinary == [[byte + 128 for byte in vector] for vector in found.binary or []]
    assert [len(vector) for vector in found.ubinary or []] == [48, 48]
    assert len(found.base64 or []) == 2
    assert answer.texts == TEXTS
    assert answer.meta is not None
    assert answer.meta.billed_units is not None
    assert (answer.meta.billed_units.input_tokens or 0) > 0


LITELLM = {"model": "openai/tiny-chat", "api_base": BASE_URL, "api_key": "x", "temperature": 0}
KIND = {
    "type": "object",
    "properties": {"kind": {"enum": ["a", "b"]}},
    "required": ["kind"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "choose", "parameters": KIND}}]


@pytest.fixture(scope="module")
def said() -> str:
    """Return what the SDK gets for the question."""
    answer = OpenAI(base_url=BASE_URL, api_key="x").chat.completions.create(
        model="tiny-chat", messages=[{"role": "user", "content": "Hello!"}], temperature=0
    )
    return answer.choices[0].message.content or ""


def test_litellm_chats(said: str) -> None:
    messages = [{"role": "user", "content": "Hello!"}]
    whole = litellm.completion(messages=messages, **LITELLM)
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (said, "stop")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens > 0
    chunks = list(litellm.completion(messages=messages, stream=True, **LITELLM))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == said
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_litellm_gets_calls_of_tools_and_gives_their_results(stream: bool) -> None:
    messages: list[object] = [{"role": "user", "content": "Choose!"}]
    answer = litellm.completion(messages=messages, tools=TOOLS, tool_choice="required", stream=stream, **LITELLM)
    choice = (litellm.stream_chunk_builder(list(answer)) if stream else answer).choices[0]
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert call.function.name == "choose"
    assert json.loads(call.function.arguments)["kind"] in ("a", "b")
    results = [*messages, choice.message, {"role": "tool", "tool_call_id": call.id, "content": "done"}]
    last = litellm.completion(messages=results, tools=TOOLS, tool_choice="none", max_tokens=8, **LITELLM)
    assert last.choices[0].message.content


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
