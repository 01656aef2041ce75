"""Messages with pictures in them as one vector: a language model that sees, as an embedding model."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from testkit.http.json_post import Answered, post
from testkit.models.vlm_golden import FOLDER, GOLDEN, ITEMS, of_chat, vectors
from testkit.processes.conch_up import ConchUp

DEPLOYMENT = f"""
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: vectors}}
spec:
  kind: Embedding
  source: {{path: {FOLDER}}}
  engine: {{cpu: {{maxBatchSize: 8}}}}
  multimodal: {{images: {{max: 2}}}}
"""
TOLERANCE = GOLDEN["tolerance_vectors"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("vectors")
    (home / "model.yaml").write_text(DEPLOYMENT)
    with ConchUp(home / "state", home / "model.yaml") as conch:
        yield conch.base_url


def embedded(url: str, messages: list[Any], path: str = "/embeddings", **body: Any) -> Answered:
    return post(f"{url}{path}", {"model": "vectors", "messages": messages, "add_generation_prompt": True, **body})


@pytest.mark.parametrize(("item", "expected"), list(zip(ITEMS, vectors(), strict=True)), ids=lambda one: "")
def test_messages_have_the_vector_of_the_reference(url: str, item: dict[str, Any], expected: Any) -> None:
    answer = embedded(url, of_chat(item))
    assert answer.status == 200, answer
    assert answer.body["usage"]["prompt_tokens"] == len(item["prompt_ids"])
    np.testing.assert_allclose(answer.body["data"][0]["embedding"], expected, atol=TOLERANCE)


def test_tokens_have_vectors_of_their_own(url: str) -> None:
    item, expected = ITEMS[0], vectors()[0]
    answer = embedded(url, of_chat(item), "/pooling", task="token_embed", normalize=True)
    found = answer.body["data"][0]["data"]
    assert len(found) == len(item["prompt_ids"])
    np.testing.assert_allclose(found[-1], expected, atol=TOLERANCE)


def test_texts_alone_are_rows_of_any_number(url: str) -> None:
    ids = [item["prompt_ids"] for item in ITEMS if not item["pictures"]]
    expected = [vector for item, vector in zip(ITEMS, vectors(), strict=True) if not item["pictures"]]
    answer = post(f"{url}/embeddings", {"model": "vectors", "input": ids})
    np.testing.assert_allclose([one["embedding"] for one in answer.body["data"]], expected, atol=TOLERANCE)


def test_what_the_model_does_not_take_is_refused_by_name(url: str) -> None:
    picture = of_chat(ITEMS[0])[0]["content"][0]
    answer = embedded(url, [{"role": "user", "content": [picture] * 3}])
    assert (answer.status, answer.body["error"]["param"]) == (400, "messages.0.content.2.image_url")
    answer = post(f"{url}/score", {"model": "vectors", "text_1": "a", "text_2": {"content": [picture]}})
    assert (answer.status, answer.body["error"]["param"]) == (400, "text_2.content.0.image_url")
    assert "in 'messages' alone" in answer.body["error"]["message"]
    answer = embedded(url, [{"role": "user", "content": [picture, {"type": "text", "text": "a " * 1000}]}])
    assert (answer.status, answer.body["error"]["code"]) == (400, "context_length_exceeded")
