"""Texts and pictures for a model that makes vectors of both: as the reference, in all the forms that clients send."""

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openai import OpenAI

from testkit.http.json_post import Answered, post
from testkit.models import clip_golden
from testkit.processes.conch_up import ROOT, ConchUp

GOLDEN = clip_golden.load()
MEDIA = {".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif"}
TEXTS = [each.text for each in GOLDEN.texts if each.text]
POSITIONS = 65
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ConchUp(tmp_path_factory.mktemp("clip") / "state", ROOT / "examples" / "tiny-clip.yaml") as conch:
        yield conch.base_url


def image(file: Path) -> dict[str, Any]:
    data = base64.b64encode(file.read_bytes()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{MEDIA[file.suffix]};base64,{data}"}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def shown(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


def embedded(url: str, path: str = "/embeddings", **body: Any) -> Answered:
    return post(f"{url}{path}", {"model": "tiny-clip", **body})


def test_texts_have_the_vectors_of_the_reference(url: str) -> None:
    with OpenAI(base_url=url, api_key="none") as client:
        answer = client.embeddings.create(model="tiny-clip", input=TEXTS)
    np.testing.assert_allclose(
        [each.embedding for each in answer.data], GOLDEN.text_vectors[: len(TEXTS)], atol=TOLERANCE
    )
    one = embedded(url, messages=shown(text(TEXTS[0]))).body
    assert one["data"][0]["embedding"] == pytest.approx(answer.data[0].embedding, abs=1e-6)
    assert one["usage"]["prompt_tokens"] == len(GOLDEN.texts[0].ids)


@pytest.mark.parametrize("picture", GOLDEN.pictures, ids=lambda picture: picture.file.name)
def test_a_picture_has_the_vector_of_the_reference(url: str, picture: clip_golden.ClipPicture) -> None:
    answer = embedded(url, messages=shown(image(picture.file)))
    assert answer.status == 200, answer
    np.testing.assert_allclose(answer.body["data"][0]["embedding"], picture.vector, atol=TOLERANCE)
    assert answer.body["usage"]["prompt_tokens"] == POSITIONS


def test_pooling_gives_the_same_vector(url: str) -> None:
    picture = GOLDEN.pictures[0]
    answer = embedded(url, "/pooling", messages=shown(image(picture.file)), normalize=True)
    np.testing.assert_allclose(answer.body["data"][0]["data"], picture.vector, atol=TOLERANCE)


def test_a_text_is_scored_against_each_part_of_a_content(url: str) -> None:
    parts = {"content": [image(each.file) for each in GOLDEN.pictures]}
    found = embedded(url, "/score", text_1=TEXTS[1], text_2=parts).body["data"]
    assert [each["score"] for each in found] == pytest.approx([row[1] for row in GOLDEN.cosines], abs=TOLERANCE)


def test_pictures_are_scored_against_texts_one_by_one(url: str) -> None:
    pictures = [{"content": [image(each.file)]} for each in GOLDEN.pictures[:5]]
    found = embedded(url, "/score", text_1=pictures, text_2=TEXTS[:5]).body["data"]
    expected = [GOLDEN.cosines[at][at] for at in range(5)]
    assert [each["score"] for each in found] == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("path", ["/rerank", "/v2/rerank"])
def test_pictures_are_ranked_by_what_they_show(url: str, path: str) -> None:
    root = url.removesuffix("/v1")
    documents = {"content": [image(each.file) for each in GOLDEN.pictures[:5]]}
    for at, words in enumerate(TEXTS[:5]):
        body = {"model": "tiny-clip", "query": words, "documents": documents, "top_n": 1, "return_documents": True}
        (best,) = post(f"{root}{path}", body).body["results"]
        assert best["index"] == at
        assert best["document"] == {"multi_modal": [image(GOLDEN.pictures[at].file)]}


def test_a_ranking_may_mix_texts_and_pictures(url: str) -> None:
    documents = [TEXTS[1], {"content": [image(GOLDEN.pictures[0].file)]}, {"text": TEXTS[0]}]
    found = embedded(url, "/rerank", query={"content": [image(GOLDEN.pictures[0].file)]}, documents=documents).body
    assert [each["index"] for each in found["results"]] == [1, 2, 0]
    assert found["results"][0]["relevance_score"] == pytest.approx(1, abs=TOLERANCE)


def test_a_text_and_a_picture_are_no_row_together(url: str) -> None:
    answer = embedded(url, messages=shown(text("a red 7"), image(GOLDEN.pictures[0].file)))
    assert (answer.status, answer.body["error"]["param"]) == (400, "messages.0.content.1.image_url")
    broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    answer = embedded(url, "/score", text_1="a", text_2={"content": [broken]})
    assert (answer.status, answer.body["error"]["param"]) == (400, "text_2.content.0.image_url")


def test_a_text_that_is_too_long_is_refused(url: str) -> None:
    answer = embedded(url, input="red " * 40)
    assert (answer.status, answer.body["error"]["code"]) == (400, "context_length_exceeded")
    assert embedded(url, input="red " * 40, truncate_prompt_tokens=-1).status == 200


def test_the_program_in_the_page_prints_what_stands_below_it(url: str) -> None:
    page = (ROOT / "docs" / "pictures.md").read_text()
    _, _, rest = page.partition("```python\n")
    program, _, below = rest.partition("```\n")
    _, _, printed = below.partition("```text\n")
    ran = subprocess.run(
        [sys.executable, "-c", program.replace("http://127.0.0.1:8000/v1", url)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout == printed.partition("```")[0]


def test_its_card_says_that_it_takes_pictures(url: str) -> None:
    with OpenAI(base_url=url, api_key="none") as client:
        (card,) = client.models.list().data
    assert card.model_dump()["input_modalities"] == ["text", "image"]
    assert card.model_dump()["max_model_len"] == 32
