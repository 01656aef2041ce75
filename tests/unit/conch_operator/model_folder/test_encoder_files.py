import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conch_contracts.records import Activation, ModelKind, Pooling
from conch_operator.model_folder.encoder_files import check_modules, check_towers, read_encoder
from conch_operator.model_folder.errors import SourceError
from conch_operator.routes.encoder_profile import encoder_profile
from conch_operator.routes.route import make_route
from conch_operator.state import EncoderFacts
from testkit.builders.model_deployments import FACTS, desired_model, model_deployment

MODULES = [
    {"path": "", "type": "sentence_transformers.models.Transformer"},
    {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
NORMALIZE = {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}


def folder(path: Path, modules: object = None, pooling: object = None, sentence: object = None) -> Path:
    (path / "1_Pooling").mkdir()
    for name, content in (
        ("modules.json", modules),
        ("1_Pooling/config.json", pooling),
        ("sentence_bert_config.json", sentence),
    ):
        if content is not None:
            (path / name).write_text(json.dumps(content))
    return path


def test_layers_that_are_not_computed_are_told(tmp_path: Path) -> None:
    check_modules(tmp_path)
    check_modules(folder(tmp_path, [*MODULES, NORMALIZE]))
    dense = {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    (tmp_path / "modules.json").write_text(json.dumps([*MODULES, dense, NORMALIZE]))
    with pytest.raises(SourceError, match=r"asks for Dense, which is not computed from weights\. Export"):
        check_modules(tmp_path)


@pytest.mark.parametrize(
    ("mode", "pooling"),
    [
        ("pooling_mode_mean_tokens", Pooling.MEAN),
        ("pooling_mode_cls_token", Pooling.CLS),
        ("pooling_mode_lasttoken", Pooling.LAST),
    ],
)
def test_pooling_comes_from_the_sentence_transformers_files(tmp_path: Path, mode: str, pooling: Pooling) -> None:
    config = {"word_embedding_dimension": 8, "pooling_mode_max_tokens": False, mode: True}
    facts = read_encoder(folder(tmp_path, MODULES, config), {})
    assert (facts.pooling, facts.normalize) == (pooling, False)


def test_a_folder_without_those_files_says_nothing(tmp_path: Path) -> None:
    assert read_encoder(folder(tmp_path), {}) == EncoderFacts()


def test_a_module_normalizes(tmp_path: Path) -> None:
    assert read_encoder(folder(tmp_path, [*MODULES, NORMALIZE]), {}).normalize is True


@pytest.mark.parametrize(
    "config",
    [{"pooling_mode_max_tokens": True}, {}, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}],
)
def test_a_pooling_that_is_not_supported_is_told(tmp_path: Path, config: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="pooling_mode_mean_tokens"):
        read_encoder(folder(tmp_path, MODULES, config), {})


@pytest.mark.parametrize(
    ("config", "sentence", "tokens"),
    [
        ({"max_position_embeddings": 512}, {"max_seq_length": 256}, 256),
        ({"max_position_embeddings": 512}, None, 512),
        ({"max_position_embeddings": 514, "model_type": "xlm-roberta", "pad_token_id": 1}, None, 512),
        ({}, None, None),
    ],
)
def test_the_longest_text_is_what_folder_and_config_allow(
    tmp_path: Path, config: dict[str, Any], sentence: object, tokens: int | None
) -> None:
    assert read_encoder(folder(tmp_path, sentence=sentence), config).max_tokens == tokens


def test_labels_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    facts = read_encoder(folder(tmp_path), {"id2label": {"1": "b", "0": "a"}, "is_matryoshka": True})
    assert (facts.labels, facts.matryoshka) == (("a", "b"), True)


@pytest.mark.parametrize(
    ("config", "labels"),
    [
        ({"architectures": ["BertForSequenceClassification"]}, ("LABEL_0", "LABEL_1")),
        ({"architectures": ["BertModel"]}, ()),
        ({}, ()),
    ],
)
def test_a_classifier_without_named_labels_has_the_two_of_transformers(
    tmp_path: Path, config: dict[str, object], labels: tuple[str, ...]
) -> None:
    assert read_encoder(folder(tmp_path), config).labels == labels


@pytest.mark.parametrize(
    ("kind", "spec", "facts", "expected"),
    [
        ("Embedding", {}, EncoderFacts(), {"pooling": Pooling.MEAN, "normalize": True, "matryoshka": False}),
        ("Embedding", {}, EncoderFacts(pooling=Pooling.CLS, normalize=False), {"pooling": "cls", "normalize": False}),
        ("Embedding", {"embedding": {"pooling": "last"}}, EncoderFacts(pooling=Pooling.CLS), {"pooling": "last"}),
        ("Embedding", {"embedding": {"matryoshka": True}}, EncoderFacts(), {"matryoshka": True}),
        ("Embedding", {"tensors": {"output": {"process": "none"}}}, EncoderFacts(), {"normalize": False}),
        ("Rerank", {}, EncoderFacts(labels=("LABEL_0",)), {"activation": Activation.SIGMOID, "labels": ()}),
        ("Rerank", {"tensors": {"output": {"process": "none"}}}, EncoderFacts(), {"activation": Activation.NONE}),
        ("Classify", {}, EncoderFacts(labels=("a", "b")), {"activation": Activation.SOFTMAX, "labels": ("a", "b")}),
        ("Classify", {}, EncoderFacts(labels=("a", "b"), several_labels=True), {"activation": Activation.SIGMOID}),
        ("Rerank", {"maxTokens": 9}, EncoderFacts(), {"truncate": True}),
        ("Rerank", {"cache": {"ttl": "90s"}}, EncoderFacts(), {"cache_ttl_s": 90.0, "truncate": False}),
        ("Rerank", {"tensors": {"inputs": {"input_ids": "i"}}}, EncoderFacts(), {"inputs": {"input_ids": "i"}}),
    ],
)
def test_the_deployment_decides_and_else_the_folder(
    kind: str, spec: dict[str, Any], facts: EncoderFacts, expected: dict[str, Any]
) -> None:
    profile = encoder_profile(model_deployment(kind=kind, **spec).spec, replace(FACTS, encoder=facts))
    assert {name: getattr(profile, name) for name in expected} == expected


@pytest.mark.parametrize(("most", "length"), [({}, 256), ({"maxTokens": 100}, 100), ({"maxTokens": 900}, 256)])
def test_an_encoders_route_holds_its_longest_text(most: dict[str, int], length: int) -> None:
    model = desired_model(kind="Embedding", **most)
    made = make_route(model, replace(FACTS, encoder=EncoderFacts(max_tokens=256)), model.deployment.served_names)
    assert (made.max_model_len, made.kind, made.dialect) == (length, ModelKind.EMBEDDING, "encoder")


CLIP = {"model_type": "clip", "vision_config": {}, "text_config": {"max_position_embeddings": 32}}


@pytest.mark.parametrize(
    ("config", "longest"),
    [
        (CLIP, 32),
        ({**CLIP, "text_config": {}}, 77),
        ({**CLIP, "text_config_dict": {"max_position_embeddings": 40}}, 40),
    ],
)
def test_a_model_of_texts_and_pictures_is_known_by_its_type(
    tmp_path: Path, config: dict[str, Any], longest: int
) -> None:
    with pytest.raises(SourceError, match=r"has no preprocessor_config\.json"):
        read_encoder(folder(tmp_path), config)
    (tmp_path / "preprocessor_config.json").write_text("{}")
    facts = read_encoder(tmp_path, config)
    assert (facts.sees, facts.max_tokens) == (True, longest)


@pytest.mark.parametrize(
    ("kind", "files", "said"),
    [
        ("clip", ["model.safetensors"], None),
        ("clip", ["model.onnx"], r"computed from its weights, not from ONNX: put its safetensors there\."),
        ("siglip", ["model.safetensors"], r"of the type siglip, which sees\. .*: use a CLIP model for a text"),
        ("llava", ["model.safetensors"], None),
        ("llava", ["model.onnx"], r"of the type llava is computed from its weights, not from ONNX"),
        ("siglip", ["model.onnx"], None),
    ],
)
def test_a_model_that_sees_and_is_not_computed_is_told(
    tmp_path: Path, kind: str, files: list[str], said: str | None
) -> None:
    for name in files:
        (tmp_path / name).touch()
    with nullcontext() if said is None else pytest.raises(SourceError, match=said):
        check_towers(tmp_path, {**CLIP, "model_type": kind})
    check_towers(tmp_path, {"model_type": "bert"})


def test_only_a_model_with_both_towers_makes_vectors_of_pictures(tmp_path: Path) -> None:
    folder(tmp_path)
    for config in ({"model_type": "clip_text_model"}, {"model_type": "clip"}, {**CLIP, "model_type": "llava"}):
        assert not read_encoder(tmp_path, config).sees
