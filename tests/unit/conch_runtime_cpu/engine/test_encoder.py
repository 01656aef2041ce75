import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as onnx_errors
from safetensors.numpy import load_file, save_file

from conch_contracts.dialects import encoder as dialect
from conch_runtime_cpu.engine.encoder import Encoder, computed, load_encoder
from conch_runtime_cpu.errors import UnservableRequest, UnusableModel
from conch_runtime_cpu.graphs.encoder_architecture import parse_encoder_architecture
from conch_runtime_cpu.settings import EncoderSettings, parse_encoder_settings

MODELS = Path(__file__).parents[4] / "examples"
CLASSIFIER, RERANKER = MODELS / "tiny-classifier", MODELS / "tiny-reranker"
BERT = json.loads((CLASSIFIER / "config.json").read_text())


def tensors(rows: list[list[int]]) -> dict[str, Any]:
    width = max(map(len, rows))
    ids = np.array([row + [0] * (width - len(row)) for row in rows], np.int64)
    mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in rows], np.int64)
    return {dialect.INPUT_IDS: ids, dialect.ATTENTION_MASK: mask, dialect.TOKEN_TYPE_IDS: np.zeros_like(ids)}


def loaded(folder: Path, cache: Path, output: str = dialect.LOGITS) -> Encoder:
    return load_encoder(EncoderSettings(folder, cache, output))


def test_converted_weights_give_the_reference_logits(tmp_path: Path) -> None:
    golden = json.loads((CLASSIFIER / "golden.json").read_text())["items"]
    logits = loaded(CLASSIFIER, tmp_path).run(tensors([item["input_ids"] for item in golden]))
    np.testing.assert_allclose(logits, [item["logits"] for item in golden], atol=1e-4)


def test_a_folders_own_onnx_file_is_served_as_it_is(tmp_path: Path) -> None:
    assert loaded(RERANKER, tmp_path).run(tensors([[2, 9, 3], [2, 9, 9, 3]])).shape == (2, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_conversion_is_found_again(tmp_path: Path) -> None:
    loaded(CLASSIFIER, tmp_path)
    (entry,) = tmp_path.iterdir()
    made = entry.stat().st_mtime_ns
    loaded(CLASSIFIER, tmp_path)
    assert [path.stat().st_mtime_ns for path in tmp_path.iterdir()] == [made]


def test_roberta_counts_positions_from_behind_the_padding_id(tmp_path: Path) -> None:
    weights = load_file(CLASSIFIER / "model.safetensors")
    folder = tmp_path / "roberta"
    shutil.copytree(CLASSIFIER, folder)
    renamed = {name.replace("bert.", "roberta."): value for name, value in weights.items()}
    for part in ("weight", "bias"):
        renamed[f"classifier.dense.{part}"] = renamed.pop(f"roberta.pooler.dense.{part}")
        renamed[f"classifier.out_proj.{part}"] = renamed.pop(f"classifier.{part}")
    name = "roberta.embeddings.position_embeddings.weight"
    renamed[name] = np.concatenate([np.full((2, renamed[name].shape[1]), 7, np.float32), renamed[name]])
    save_file(renamed, folder / "model.safetensors")
    changes = {"architectures": ["XLMRobertaForSequenceClassification"], "pad_token_id": 1}
    (folder / "config.json").write_text(json.dumps(BERT | changes))
    rows = tensors([[2, 60, 70, 3], [2, 80, 3]])
    expected = loaded(CLASSIFIER, tmp_path / "cache").run(rows)
    np.testing.assert_allclose(loaded(folder, tmp_path / "cache").run(rows), expected, atol=1e-5)


def test_an_encoder_without_a_head_gives_hidden_states(tmp_path: Path) -> None:
    folder = tmp_path / "bert"
    shutil.copytree(CLASSIFIER, folder)
    weights = load_file(CLASSIFIER / "model.safetensors")
    bare = {name.removeprefix("bert."): value for name, value in weights.items()}
    save_file(bare, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(BERT | {"architectures": ["BertModel"]}))
    encoder = loaded(folder, tmp_path / "cache", dialect.LAST_HIDDEN_STATE)
    hidden = encoder.run(tensors([[2, 60, 3], [2, 60, 70, 80, 3]]))
    assert hidden.shape == (2, 5, BERT["hidden_size"])
    np.testing.assert_allclose(hidden[0, :3], encoder.run(tensors([[2, 60, 3]]))[0], atol=1e-5)


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableModel, match=r"no output like last_hidden_state; it has logits.*spec\.kind"):
        loaded(RERANKER, tmp_path, dialect.LAST_HIDDEN_STATE)


def test_an_onnx_file_of_pictures_is_refused_with_what_to_do(tmp_path: Path) -> None:
    given, made = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 4, 4])
        for name in (dialect.PIXEL_VALUES, dialect.IMAGE_EMBEDS)
    )
    node = helper.make_node("Identity", [dialect.PIXEL_VALUES], [dialect.IMAGE_EMBEDS])
    graph = helper.make_graph([node], "pictures", [given], [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(UnusableModel, match=r"model\.onnx takes pictures.* Put the safetensors of one in its place"):
        loaded(tmp_path, tmp_path / "cache", dialect.LAST_HIDDEN_STATE)


def test_a_token_that_the_model_does_not_have_fails_the_batch(tmp_path: Path) -> None:
    with pytest.raises(UnservableRequest):
        loaded(RERANKER, tmp_path).run(tensors([[2, 1_000_000, 3]]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"architectures": ["DebertaV2Model"]}, "this model's architecture is DebertaV2Model"),
        ({"architectures": None}, "architecture is None"),
        ({"hidden_act": "gelu_new"}, "hidden_act must be gelu"),
        ({"position_embedding_type": "relative_key"}, "must be absolute"),
        ({"is_decoder": True}, "only encoders"),
        ({"quantization_config": {"bits": 8}}, "original weights"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_attention_heads": "4"}, "num_attention_heads"),
        ({"layer_norm_eps": -1}, "layer_norm_eps"),
    ],
)
def test_what_would_change_the_numbers_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UnusableModel, match=says):
        parse_encoder_architecture(BERT | changes)


def test_settings_name_an_output_that_there_is() -> None:
    values = {"model_folder": "/m", "cache_folder": "/c", "output": "pooled"}
    config = json.dumps({"parameters": {key: {"string_value": value} for key, value in values.items()}})
    with pytest.raises(UnusableModel, match="last_hidden_state, logits"):
        parse_encoder_settings(config)


@pytest.mark.parametrize("failure", [onnx_errors.Fail, onnx_errors.InvalidArgument])
def test_a_batch_that_a_graph_cannot_compute_is_the_fault_of_its_request(failure: type[Exception]) -> None:
    class Failing:
        def run(self, *asked: object) -> None:
            raise failure("no room for it\nat node 7")

    with pytest.raises(UnservableRequest, match=r"no room for it$"):
        computed(Failing(), dialect.LOGITS, {})  # type: ignore[arg-type]
