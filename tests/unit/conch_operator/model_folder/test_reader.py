import json
from pathlib import Path
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_operator.model_folder.chat_template import read_templates
from conch_operator.model_folder.reader import read_source
from conch_operator.state import DesiredModel, GenerationFacts, SourceFacts, SourceFault
from testkit.builders.model_deployments import model_deployment

EXTERNAL = {"external": {"grpc": "h:1", "dialect": "fastertransformer"}}


def model(base: Path, **spec: Any) -> DesiredModel:
    return DesiredModel(model_deployment(**spec), base, 1)


def facts(wanted: DesiredModel) -> SourceFacts:
    found = read_source(wanted)
    assert isinstance(found, SourceFacts), found
    return found


def test_a_folder_tells_vocabulary_and_context(folder: Path) -> None:
    found = facts(model(folder.parent))
    assert (found.folder, found.vocab_size, found.max_position_embeddings) == (folder, 12, 64)
    assert len(found.digest) == 64


@pytest.mark.parametrize(
    ("files", "ids"),
    [
        ({"generation_config.json": {"eos_token_id": [3, 4]}, "config.json": {"eos_token_id": 5}}, (3, 4)),
        ({"config.json": {"eos_token_id": 5}}, (5,)),
        ({"tokenizer_config.json": {"eos_token": "<end>"}}, (9,)),
        ({"tokenizer_config.json": {"eos_token": {"content": "<end>"}}}, (9,)),
        ({}, ()),
    ],
)
def test_end_of_sequence_ids_come_from_the_first_file_that_has_them(
    folder: Path, files: dict[str, dict[str, Any]], ids: tuple[int, ...]
) -> None:
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    assert facts(model(folder.parent)).generation.eos_token_ids == ids


def test_sampling_defaults_come_from_the_folder_as_far_as_they_make_sense(folder: Path) -> None:
    said = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0, "repetition_penalty": 1.05}
    (folder / "generation_config.json").write_text(json.dumps(said))
    assert facts(model(folder.parent)).generation == GenerationFacts((), 0.6, 0.95, 20, 0.0, 1.05)
    wrong = {"temperature": 9, "top_p": 0, "top_k": -3, "min_p": "x", "repetition_penalty": True}
    (folder / "generation_config.json").write_text(json.dumps(wrong))
    assert facts(model(folder.parent)).generation == GenerationFacts()


def test_the_text_part_of_a_config_counts_too(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"text_config": {"padded_vocab_size": 20, "seq_length": 8}}))
    found = facts(model(folder.parent))
    assert (found.vocab_size, found.max_position_embeddings) == (20, 8)


@pytest.mark.parametrize(
    ("config", "sees"),
    [
        ({"model_type": "llava", "vision_config": {}}, True),
        ({"model_type": "llava"}, False),
        ({"model_type": "llava", "vision_config": None}, False),
        ({"model_type": "qwen3_vl", "vision_config": {}}, False),
        ({"model_type": "qwen2"}, False),
    ],
)
def test_a_model_that_sees_is_known_by_its_config(folder: Path, config: dict[str, Any], sees: bool) -> None:
    (folder / "config.json").write_text(json.dumps({"text_config": {"vocab_size": 12}, **config}))
    assert facts(model(folder.parent)).sees is sees
    asked = read_source(model(folder.parent, multimodal={"images": {"max": 1}}))
    assert isinstance(asked, SourceFacts if sees else SourceFault)
    if isinstance(asked, SourceFault):
        assert asked.reason is Reason.FILES_INVALID
        assert "no model that sees" in asked.message


def test_an_external_model_needs_no_weights_and_with_a_length_no_config(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "config.json").unlink()
    found = facts(model(folder.parent, engine=EXTERNAL, generation={"maxLength": 100}))
    assert (found.vocab_size, found.max_position_embeddings) == (10, None)


def test_an_encoder_whose_layers_are_not_all_computed_needs_an_onnx_file(folder: Path) -> None:
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Dense"}]))
    found = read_source(model(folder.parent, kind="Embedding"))
    assert isinstance(found, SourceFault)
    assert (found.reason, "asks for Dense" in found.message) == (Reason.FILES_INVALID, True)
    (folder / "model.onnx").write_bytes(b"")
    assert facts(model(folder.parent, kind="Embedding"))


def test_an_embedding_model_whose_vectors_of_pictures_are_not_computed_is_told_before_it_starts(folder: Path) -> None:
    config = {"model_type": "siglip", "vision_config": {}, "text_config": {"vocab_size": 12}}
    (folder / "config.json").write_text(json.dumps(config))
    found = read_source(model(folder.parent, kind="Embedding"))
    assert isinstance(found, SourceFault)
    assert (found.reason, "of the type siglip" in found.message) == (Reason.FILES_INVALID, True)
    external = {"external": {"grpc": "h:1", "dialect": "encoder"}}
    assert isinstance(read_source(model(folder.parent, kind="Embedding", engine=external)), SourceFacts)


@pytest.mark.parametrize(
    ("missing", "reason", "says"),
    [
        ("tokenizer.json", Reason.FILES_MISSING, "has no tokenizer.json"),
        ("config.json", Reason.FILES_MISSING, "has no config.json"),
        ("model.safetensors", Reason.FILES_MISSING, "has no *.safetensors"),
    ],
)
def test_a_missing_file_is_named(folder: Path, missing: str, reason: Reason, says: str) -> None:
    (folder / missing).unlink()
    found = read_source(model(folder.parent))
    assert isinstance(found, SourceFault)
    assert found.reason is reason
    assert says in found.message


@pytest.mark.parametrize(
    ("name", "reason"),
    [("tokenizer.json", Reason.TOKENIZER_INVALID), ("config.json", Reason.FILES_INVALID)],
)
def test_a_broken_file_is_named(folder: Path, name: str, reason: Reason) -> None:
    (folder / name).write_text("{")
    found = read_source(model(folder.parent))
    assert isinstance(found, SourceFault)
    assert found.reason is reason
    assert name in found.message


@pytest.mark.parametrize(
    "tokenizer",
    [
        {},
        {"model": {}},
        {"model": {"vocab": {}}},
        {"model": {"vocab": {"a": "x"}}},
        {"model": {"vocab": [1]}},
        {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}}, "added_tokens": [1]},
        {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}}, "added_tokens": [{"id": 9}]},
    ],
)
def test_a_vocabulary_that_cannot_be_read_is_a_fault(folder: Path, tokenizer: dict[str, Any]) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    found = read_source(model(folder.parent))
    assert isinstance(found, SourceFault)
    assert found.reason is Reason.TOKENIZER_INVALID
    assert "tokenizer.json" in found.message


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    found = read_source(model(tmp_path))
    assert found == SourceFault(
        Reason.FOLDER_MISSING, f"The folder {tmp_path / 'tiny'} does not exist. Check spec.source.", is_of_now=True
    )


@pytest.mark.parametrize("override", [{"inline": "{{ x }}"}, {"file": "chat.jinja"}])
def test_a_chat_template_may_be_inline_or_a_file(folder: Path, override: dict[str, str]) -> None:
    (folder.parent / "chat.jinja").write_text("{{ x }}")
    assert facts(model(folder.parent, tokenizer={"chatTemplate": override})).chat_template == "{{ x }}"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"source": {"pvc": {"claimName": "models"}}}, "Sources of type pvc need a cluster"),
        ({"kind": "Rerank", "engine": {"onnxruntime": {}}}, "The runtime onnxruntime needs a cluster"),
        (
            {"tokenizer": {"chatTemplate": {"configMapKeyRef": {"name": "a", "key": "b"}}}},
            "A chat template in a ConfigMap needs a cluster",
        ),
    ],
)
def test_what_needs_a_cluster_says_so(folder: Path, spec: dict[str, Any], says: str) -> None:
    found = read_source(model(folder.parent, **spec))
    assert isinstance(found, SourceFault)
    assert found.reason is Reason.NOT_HERE
    assert says in found.message


def test_other_weights_are_told_apart_and_other_tokenizer_files_are_not(folder: Path) -> None:
    before = facts(model(folder.parent))
    (folder / "tokenizer_config.json").write_text("{}")
    same = facts(model(folder.parent))
    (folder / "model.safetensors").write_bytes(b"other")
    after = facts(model(folder.parent))
    assert before.digest != same.digest
    assert before.weights == same.weights != after.weights


def test_the_template_of_a_model_that_sees_pictures_may_stand_in_a_file_of_its_own(folder: Path) -> None:
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "one"}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "two"}))
    assert read_templates(folder) == ("two",)
    (folder / "config.json").write_text(json.dumps({"vision_config": {}}))
    assert read_templates(folder) == ("one",)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat_template.jinja", "one\n{% endfor %}"),
        ("tokenizer_config.json", json.dumps({"chat_template": "one\n{% endfor %}"})),
        ("tokenizer_config.json", json.dumps({"chat_template": [{"name": "x", "template": "one\n{% endfor %}"}]})),
    ],
)
def test_row_29_a_template_of_the_folder_must_compile(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content)
    found = read_source(model(folder.parent))
    assert isinstance(found, SourceFault)
    assert found.reason is Reason.TEMPLATE_INVALID
    assert str(folder / name) in found.message
    assert "line 2: " in found.message
    good = {"tokenizer": {"chatTemplate": {"inline": "{{ messages }}"}}}
    assert facts(model(folder.parent, **good)).chat_template == "{{ messages }}"
