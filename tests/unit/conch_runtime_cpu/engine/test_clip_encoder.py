import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from conch_contracts.dialects import encoder as dialect
from conch_runtime_cpu.engine.clip_encoder import ClipEncoder, holds_clip, load_clip
from conch_runtime_cpu.errors import UnservableRequest, UnusableModel
from conch_runtime_cpu.settings import EncoderSettings
from testkit.models import clip_golden
from testkit.models.clip_golden import FOLDER


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def clip(cache: Path) -> ClipEncoder:
    return loaded(FOLDER, cache)


def loaded(folder: Path, cache: Path, output: str = dialect.LAST_HIDDEN_STATE) -> ClipEncoder:
    return load_clip(EncoderSettings(folder, cache, output))


def padded(rows: list[list[int]], with_id: int = 0) -> Any:
    width = max(map(len, rows))
    return np.array([row + [with_id] * (width - len(row)) for row in rows], np.int64)


def texts(encoder: ClipEncoder, rows: list[list[int]]) -> Any:
    name, vectors = encoder.answer({dialect.INPUT_IDS: padded(rows)})
    assert name == dialect.TEXT_EMBEDS
    return clip_golden.normalised(vectors)


def test_texts_have_the_reference_vectors(clip: ClipEncoder) -> None:
    golden = clip_golden.load()
    np.testing.assert_allclose(texts(clip, [each.ids for each in golden.texts]), golden.text_vectors, atol=1e-4)


def test_pictures_have_the_reference_vectors(clip: ClipEncoder) -> None:
    golden = clip_golden.load()
    values = np.stack([clip_golden.as_values(each.pixels) for each in golden.pictures])
    name, vectors = clip.answer({dialect.PIXEL_VALUES: values})
    assert name == dialect.IMAGE_EMBEDS
    np.testing.assert_allclose(clip_golden.normalised(vectors), [each.vector for each in golden.pictures], atol=1e-4)


def test_padding_changes_no_vector(clip: ClipEncoder) -> None:
    ids = clip_golden.load().texts[0].ids
    alone = texts(clip, [ids])[0]
    for with_id in (0, ids[-1]):
        _, vectors = clip.answer({dialect.INPUT_IDS: padded([ids, [1] * 20], with_id)})
        np.testing.assert_allclose(clip_golden.normalised(vectors)[0], alone, atol=1e-5)


def test_the_oldest_folders_mark_the_end_by_the_highest_id(tmp_path: Path, clip: ClipEncoder, cache: Path) -> None:
    folder = changed(tmp_path, text_config={"eos_token_id": 2})
    golden = clip_golden.load()  # its end id is its highest
    rows = [each.ids for each in golden.texts]
    np.testing.assert_allclose(texts(loaded(folder, tmp_path / "cache"), rows), texts(clip, rows), atol=1e-6)


def changed(tmp_path: Path, **parts: dict[str, Any]) -> Path:
    folder = tmp_path / "clip"
    shutil.copytree(FOLDER, folder)
    config = json.loads((FOLDER / "config.json").read_text())
    for name, part in parts.items():
        config[name] |= part
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "input_ids: must hold at least one token"),
        ({dialect.INPUT_IDS: np.ones((1, 33), np.int64)}, "input_ids: must be rows of at most 32 tokens"),
        ({dialect.INPUT_IDS: np.full((1, 2), 389, np.int64)}, "indices element out of data bounds"),
        ({dialect.PIXEL_VALUES: np.ones((1, 3, 64, 63), np.float32)}, r"pixel_values: each must be \[3, 64, 64\]"),
        ({dialect.PIXEL_VALUES: np.ones((0, 3, 64, 64), np.float32)}, "pixel_values: each must be"),
        (
            {dialect.PIXEL_VALUES: np.ones((1, 3, 64, 64), np.float32), dialect.INPUT_IDS: np.ones((1, 2), np.int64)},
            "pixel_values: texts and pictures are no batch together",
        ),
    ],
)
def test_a_batch_that_is_wrong_fails_with_the_tensors_name(clip: ClipEncoder, given: dict[str, Any], says: str) -> None:
    with pytest.raises(UnservableRequest, match=says):
        clip.answer(given)


def test_a_folder_of_another_kind_is_none_of_clip(tmp_path: Path) -> None:
    assert holds_clip(FOLDER)
    assert not holds_clip(FOLDER.with_name("tiny-classifier"))
    assert not holds_clip(tmp_path)


def test_clip_has_no_classes(cache: Path) -> None:
    with pytest.raises(UnusableModel, match=r"no output like logits. Check spec\.kind"):
        loaded(FOLDER, cache, dialect.LOGITS)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    folder = changed(tmp_path)
    weights = load_file(FOLDER / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(UnusableModel, match=r"no tensor visual_projection\.weight"):
        loaded(folder, tmp_path / "cache")
