from typing import Any

import pytest

from conch_contracts.modeldeployment import parse
from conch_contracts.problems import InvalidObject
from conch_operator.manifests.legacy_model_config import ModelConfigError, convert, place

LLM = {"name": "ChatGLM2-6B", "url": "10.28.31.48:8001", "path": "/models/chatglm2-6b"}
INFO = {
    "name": "ChatGLM2-6B",
    "start_id": -1,
    "end_id": -2,
    "max_len": 2048,
    "bad_words": [[7768, 3908], [1, 2]],
    "stop_words": [[2], [2]],
    "temperature": 1,
    "repetition_penalty": 1.05,
    "mask_positions": 1,
}


RERANK = {"name": "bge-reranker", "url": "10.28.31.48:8000", "path": "/models/bge"}


def test_an_llm_entry_becomes_an_external_fastertransformer_model() -> None:
    (data,) = convert({"model_infos": [INFO], "llm": [LLM | {"chat_template": "glm.jinja"}]}).objects
    assert data == {
        "apiVersion": "conch.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "chatglm2-6b"},
        "spec": {
            "kind": "LLM",
            "servedNames": ["ChatGLM2-6B"],
            "compatProfile": "denglin",
            "source": {"path": "/models/chatglm2-6b"},
            "engine": {
                "external": {
                    "grpc": "10.28.31.48:8001",
                    "modelName": "fastertransformer",
                    "dialect": "fastertransformer",
                }
            },
            "tokenizer": {"chatTemplate": {"file": "glm.jinja"}},
            "generation": {
                "startId": -1,
                "endId": -2,
                "maxLength": 2048,
                "badWords": [[7768, 3908], [1, 2]],
                "stopWords": [[2], [2]],
                "temperature": "1",
                "repetitionPenalty": "1.05",
                "maskPositions": 1,
            },
        },
    }
    assert parse(data).served_names == ("ChatGLM2-6B",)


def test_model_name_overrides_the_name_inside_triton() -> None:
    (data,) = convert({"llm": [LLM | {"model_name": "ensemble"}]}).objects
    external = parse(data).spec.engine.external
    assert external is not None
    assert external.model_name == "ensemble"


@pytest.mark.parametrize(("section", "kind"), [("embedding", "Embedding"), ("rerank", "Rerank")])
def test_encoders_keep_their_own_name_and_http_address(section: str, kind: str) -> None:
    (data,) = convert({section: [{"name": "bge", "url": "http://h:8000", "path": "/m"}]}).objects
    spec = parse(data).spec
    assert spec.kind == kind
    assert spec.engine.external is not None
    assert (spec.engine.external.http, spec.engine.external.model_name) == ("h:8000", "bge")


def test_a_rerank_entry_becomes_an_external_reranker_with_its_tensors() -> None:
    entry = {
        "name": "bge-reranker",
        "url": "10.28.31.48:8000",
        "path": "/models/bge",
        "max_tokens": 512,
        "input_config": {"input_ids": "ids", "attention_mask": "mask"},
        "output_config": {"name": "logits", "process": "normalize"},
    }
    converted = convert({"rerank": [entry], "embedding": [{"name": "bge", "url": "10.28.31.48:8000", "path": "/m"}]})
    embedding, rerank = converted.objects
    assert converted.warnings == ()
    assert rerank["spec"] == {
        "kind": "Rerank",
        "servedNames": ["bge-reranker"],
        "compatProfile": "denglin",
        "source": {"path": "/models/bge"},
        "engine": {"external": {"http": "10.28.31.48:8000", "modelName": "bge-reranker", "dialect": "encoder"}},
        "maxTokens": 512,
        "tensors": {
            "inputs": {"input_ids": "ids", "attention_mask": "mask"},
            "output": {"name": "logits", "process": "normalize"},
        },
    }
    tensors = parse(rerank).spec.tensors
    assert tensors is not None
    assert (tensors.inputs.input_ids, tensors.inputs.token_type_ids) == ("ids", None)
    assert parse(embedding).spec.max_tokens is None


def test_names_that_give_one_label_are_numbered() -> None:
    objects = convert({"llm": [LLM, LLM | {"name": "chatglm2.6b"}]}).objects
    assert [data["metadata"] for data in objects] == [{"name": "chatglm2-6b"}, {"name": "chatglm2-6b-2"}]


@pytest.mark.parametrize(
    ("data", "warning"),
    [
        ({"llm": [LLM], "speech": []}, "speech: unknown key, ignored"),
        ({"llm": [LLM | {"colour": 1}]}, "llm ChatGLM2-6B: unknown key colour, ignored"),
        ({"llm": [LLM], "model_infos": [INFO | {"colour": 1}]}, "model_infos ChatGLM2-6B: unknown key colour, ignored"),
        ({"llm": [LLM], "model_infos": [INFO | {"name": "x"}]}, "model_infos: x has no entry in llm, ignored"),
        ({"llm": [LLM | {"max_tokens": 5}]}, "llm ChatGLM2-6B: unknown key max_tokens, ignored"),
        ({"rerank": [LLM | {"chat_template": "a"}]}, "rerank ChatGLM2-6B: unknown key chat_template, ignored"),
        (
            {"rerank": [LLM | {"input_config": {"position_ids": "p"}}]},
            "rerank ChatGLM2-6B: unknown key input_config.position_ids, ignored",
        ),
    ],
)
def test_what_is_not_obeyed_is_warned_about(data: dict[str, Any], warning: str) -> None:
    assert convert(data).warnings == (warning,)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "expected an object"),
        ({}, "no model in any of"),
        ({"llm": {}, "rerank": [LLM]}, None),
        ({"llm": "x"}, "llm: expected a list of objects"),
        ({"llm": [LLM | {"name": 5}]}, "llm: name must be a text, found 5"),
        ({"llm": [{"name": "a", "path": "p"}]}, "llm a: url must be a text, found None"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(data: object, says: str | None) -> None:
    if says is None:
        assert convert(data).objects
        return
    with pytest.raises(ModelConfigError, match=says):
        convert(data)


@pytest.mark.parametrize(
    ("file", "places"),
    [
        ({"llm": [LLM | {"name": "bad name"}]}, ["llm bad name: name"]),
        ({"llm": [LLM | {"url": "nohost"}]}, ["llm ChatGLM2-6B: url"]),
        ({"llm": [LLM], "model_infos": [INFO | {"temperature": 5}]}, ["model_infos ChatGLM2-6B: temperature"]),
        ({"llm": [LLM], "model_infos": [INFO | {"bad_words": [["x"]]}]}, ["model_infos ChatGLM2-6B: bad_words[0][0]"]),
        (
            {"rerank": [RERANK | {"max_tokens": 0, "output_config": {"name": "l", "process": "x"}}]},
            ["rerank bge-reranker: max_tokens", "rerank bge-reranker: output_config.process"],
        ),
        ({"embedding": [RERANK | {"url": "h"}]}, ["embedding bge-reranker: url"]),
        ({"embedding": [RERANK | {"model_name": 7}]}, ["embedding bge-reranker: model_name"]),
    ],
)
def test_a_problem_is_named_as_the_file_has_it(file: dict[str, Any], places: list[str]) -> None:
    (data,) = convert(file).objects
    with pytest.raises(InvalidObject) as caught:
        parse(data)
    assert [place(data, problem) for problem in caught.value.problems] == places
