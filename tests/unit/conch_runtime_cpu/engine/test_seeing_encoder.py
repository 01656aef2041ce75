from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conch_contracts.dialects import encoder as dialect
from conch_contracts.dialects import tokens
from conch_runtime_cpu.engine.seeing_encoder import SeeingEncoder, holds_seeing_model, load_seeing_encoder
from conch_runtime_cpu.errors import UnservableRequest, UnusableModel
from conch_runtime_cpu.settings import EncoderSettings
from testkit.models import clip_golden, vlm_golden
from testkit.models.random_llava import (
    CONTEXT,
    IMAGE_TOKEN,
    SIDE,
    RandomLlava,
    random_picture,
    see,
    weights,
    write_folder,
)
from testkit.models.random_model import RandomModel, forward_embedded

BEFORE, AFTER = [3, 1, 4], [1, 5, 9, 2, 6]
LLAVA = RandomLlava(RandomModel("Qwen2ForCausalLM", biases=True, tied=True))
IMAGE = [IMAGE_TOKEN] * LLAVA.features


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("llava") / "model", LLAVA)


@pytest.fixture
def computed() -> list[None]:
    """Give the list of pictures that had to be computed."""
    return []


@pytest.fixture
def encoder(folder: Path, computed: list[None]) -> SeeingEncoder:
    return loaded(folder, lambda: lambda: computed.append(None))


def loaded(folder: Path, *counter: Any, output: str = dialect.LAST_HIDDEN_STATE) -> SeeingEncoder:
    return load_seeing_encoder(EncoderSettings(folder, folder / "cache", output), *counter)


def shown(*pictures: tuple[int, Any, bytes]) -> dict[str, Any]:
    """Return the tensors of pictures that begin there, in a batch of one text."""
    count, pixels = len(pictures), [picture.reshape(-1) for _, picture, _ in pictures]
    return {
        tokens.IMAGE_PIXELS: np.concatenate(pixels)[np.newaxis],
        tokens.IMAGE_SHAPES: np.array([[list(picture.shape) for _, picture, _ in pictures]], np.int32),
        tokens.IMAGE_SPANS: np.array([[[start, LLAVA.features] for start, _, _ in pictures]], np.int32),
        tokens.IMAGE_HASHES: np.array([[digest for *_, digest in pictures]], object).reshape(1, count),
    }


def states(encoder: SeeingEncoder, rows: list[list[int]], **pictures: Any) -> Any:
    width = max(map(len, rows))
    ids = np.array([row + [0] * (width - len(row)) for row in rows], np.int64)
    mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in rows], np.int64)
    name, found = encoder.answer({dialect.INPUT_IDS: ids, dialect.ATTENTION_MASK: mask} | pictures)
    assert name == dialect.LAST_HIDDEN_STATE
    return found


def logits_of(found: Any) -> Any:
    """Return what the head makes of states, which tells any two of them apart: it is wider than they are."""
    return found @ weights(LLAVA)["model.embed_tokens.weight"].T


def test_texts_of_any_length_have_the_reference_states(encoder: SeeingEncoder) -> None:
    tensors = weights(LLAVA)
    rows = [AFTER, BEFORE, [*BEFORE, *AFTER, *BEFORE]]
    found = logits_of(states(encoder, rows))
    for row, made in zip(rows, found, strict=True):
        expected = forward_embedded(tensors, tensors["model.embed_tokens.weight"][row])
        np.testing.assert_allclose(made[: len(row)], expected, atol=1e-4)


def test_pictures_take_the_place_of_their_ids(encoder: SeeingEncoder) -> None:
    tensors, pictures = weights(LLAVA), [random_picture(seed) for seed in (0, 1)]
    ids = [*BEFORE, *IMAGE, *AFTER, *IMAGE]
    starts = [len(BEFORE), len(ids) - len(IMAGE)]
    embedded = tensors["model.embed_tokens.weight"][ids]
    for start, picture in zip(starts, pictures, strict=True):
        embedded[start : start + len(IMAGE)] = see(LLAVA, tensors, picture)
    tensors_of = shown((starts[0], pictures[0], b"a"), (starts[1], pictures[1], b"b"))
    found = logits_of(states(encoder, [ids], **tensors_of))
    np.testing.assert_allclose(found[0], forward_embedded(tensors, embedded), atol=1e-4)


def test_a_picture_that_comes_again_is_not_computed_again(encoder: SeeingEncoder, computed: list[None]) -> None:
    ids = [*IMAGE, *AFTER]
    first = states(encoder, [ids], **shown((0, random_picture(0), b"a")))
    again = states(encoder, [ids], **shown((0, random_picture(0), b"a")))
    np.testing.assert_array_equal(first, again)
    assert len(computed) == 1
    other = states(encoder, [ids], **shown((0, random_picture(1), b"b")))
    assert len(computed) == 2
    assert np.abs(other - first).max() > 0.01


@pytest.mark.parametrize(
    ("rows", "pictures", "said"),
    [
        ([[*IMAGE, 1], [1]], shown((0, random_picture(0), b"a")), "must be a batch of its own"),
        ([[1, *IMAGE]], shown((0, random_picture(0), b"a")), "image_spans: every id of picture 0 must be 63"),
        ([IMAGE], shown((0, random_picture(0, SIDE + 1), b"a")), "image_shapes: picture 0 must be"),
        ([[1] * (CONTEXT + 1)], {}, f"input_ids: must be rows of at most {CONTEXT} tokens"),
        ([[1]], {dialect.PIXEL_VALUES: np.zeros((1, 3, SIDE, SIDE), np.float32)}, "pixel_values: this model sees"),
        ([[1_000]], {}, "indices element out of data bounds"),
        ([[1, 2, 3]], {dialect.ATTENTION_MASK: np.array([[0, 1, 1]])}, "attention_mask: must be ones and then zeros"),
        ([[1, 2, 3]], {dialect.ATTENTION_MASK: np.array([[1, 0, 1]])}, "attention_mask: must be ones and then zeros"),
        ([[1, 2, 3]], {dialect.ATTENTION_MASK: np.array([[2, 1, 1]])}, "attention_mask: must be ones and then zeros"),
        ([[1, 2, 3]], {dialect.ATTENTION_MASK: np.array([[1, 1]])}, "the inputs must have one shape"),
        ([[1, 2, 3]], {dialect.TOKEN_TYPE_IDS: np.array([[0, 0, 1]])}, "token_type_ids: must be zeros"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(
    encoder: SeeingEncoder, rows: list[list[int]], pictures: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnservableRequest, match=said):
        states(encoder, rows, **pictures)


def test_a_prompt_of_the_example_has_the_reference_vector(tmp_path: Path) -> None:
    settings = EncoderSettings(vlm_golden.FOLDER, tmp_path, dialect.LAST_HIDDEN_STATE)
    encoder, tolerance = load_seeing_encoder(settings), vlm_golden.GOLDEN["tolerance_vectors"]
    for item, expected in zip(vlm_golden.ITEMS, vlm_golden.vectors(), strict=True):
        pictures = {}
        if item["pictures"]:
            files = zip(item["spans"], item["pictures"], strict=True)
            pictures = shown(*((start, vlm_golden.pixels(name), name.encode()) for (start, _), name in files))
            pictures[tokens.IMAGE_SPANS] = np.array([item["spans"]], np.int32)
        last = states(encoder, [item["prompt_ids"]], **pictures)[0, -1]
        np.testing.assert_allclose(clip_golden.normalised(last), expected, atol=tolerance)


def test_a_folder_is_told_by_its_config(folder: Path, tmp_path: Path) -> None:
    assert holds_seeing_model(folder)
    assert not holds_seeing_model(clip_golden.FOLDER)
    assert not holds_seeing_model(tmp_path)  # of a single ONNX file


def test_another_output_is_refused(folder: Path) -> None:
    with pytest.raises(UnusableModel, match="no output like logits"):
        loaded(folder, output=dialect.LOGITS)
