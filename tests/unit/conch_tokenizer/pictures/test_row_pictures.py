import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from conch_contracts.messages.encoding import PrepareRowsRequest, Row
from conch_contracts.messages.generation import PictureForm
from conch_contracts.messages.tokenization import Picture, PictureLimits
from conch_kit.errors import InvalidRequest
from conch_tokenizer.errors import BundleUnreadable
from conch_tokenizer.pictures import row_pictures as module
from conch_tokenizer.pictures.picture_reader import PictureOrder, PictureReader
from conch_tokenizer.pictures.row_pictures import row_pictures, rows_of_pictures
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.encoder_rows import prepare_rows
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer, load
from testkit.models import clip_golden
from testkit.models.clip_golden import FOLDER
from testkit.models.pictures import base64_of

FILES = ("config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json")
POSITIONS = 65
DEFAULTS: dict[str, int] = {}
GOLDEN = clip_golden.load()


@pytest.fixture(scope="module")
def model() -> ModelTokenizer:
    return load(FOLDER)


@pytest.fixture
def read() -> list[int]:
    """Give the list of pictures that had to be decoded."""
    return []


@pytest.fixture
def tokenizer(model: ModelTokenizer, read: list[int]) -> LimitedTokenizer:
    return LimitedTokenizer(model, ChatRenderer(model), 100_000, lambda: None, PictureReader(read.append))


def ask(tokenizer: LimitedTokenizer, *texts: str | Path, limits: dict[str, int] | None = DEFAULTS) -> tuple[Row, ...]:
    shown = [
        {"data": base64_of(text.read_bytes()), "param": f"input.{index}"}
        for index, text in enumerate(texts)
        if isinstance(text, Path)
    ]
    fields = {
        "digest": "0" * 64,
        "texts": [text if isinstance(text, str) else None for text in texts],
        "pictures": shown,
        "picture_limits": limits,
    }
    return prepare_rows(tokenizer, msgspec.convert(fields, PrepareRowsRequest)).rows


def test_texts_and_pictures_become_rows_in_their_places(tokenizer: LimitedTokenizer) -> None:
    picture, text = GOLDEN.pictures[0], GOLDEN.texts[0]
    of_text, of_picture, again = ask(tokenizer, text.text, picture.file, text.text)
    assert list(of_text.ids) == list(again.ids) == text.ids
    assert of_picture.picture is not None
    assert (of_picture.ids, of_picture.tokens) == ((), POSITIONS)
    assert of_picture.picture.pixels == picture.pixels.tobytes()


@pytest.mark.parametrize("picture", GOLDEN.pictures, ids=lambda picture: picture.file.name)
def test_every_file_has_the_pixels_and_values_of_the_reference(
    tokenizer: LimitedTokenizer, picture: clip_golden.ClipPicture
) -> None:
    (row,) = ask(tokenizer, picture.file)
    assert row.picture is not None
    seen = np.frombuffer(row.picture.pixels, np.uint8).reshape(row.picture.height, row.picture.width, 3)
    np.testing.assert_array_equal(seen, picture.pixels)
    values = seen * np.array(row.picture.scale) + np.array(row.picture.shift)
    np.testing.assert_allclose(np.moveaxis(values, -1, 0), clip_golden.as_values(picture.pixels), atol=1e-6)


def test_a_picture_that_comes_again_is_not_decoded_again(tokenizer: LimitedTokenizer, read: list[int]) -> None:
    first, second = GOLDEN.pictures[0].file, GOLDEN.pictures[1].file
    ask(tokenizer, first, second, first)
    ask(tokenizer, second)
    assert read == [0, 1]


def test_what_is_wrong_with_a_picture_names_it(tokenizer: LimitedTokenizer) -> None:
    file = GOLDEN.pictures[0].file
    for limits, said in (({"max_pixels": 100}, "at most 100 pixels"), ({"max_bytes": 9}, "at most 9 bytes")):
        with pytest.raises(InvalidRequest, match=said) as caught:
            ask(tokenizer, "a", file, limits=limits)
        assert caught.value.param == "input.1"
    with pytest.raises(InvalidRequest, match="sees no pictures"):
        ask(tokenizer, file, limits=None)


def test_so_many_pictures_that_nobody_could_send_them_are_refused(
    tokenizer: LimitedTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 2 * 3 * 64 * 64)
    files = [each.file for each in GOLDEN.pictures[:3]]
    assert len(ask(tokenizer, *files[:2])) == 2
    with pytest.raises(InvalidRequest, match="at most 2 pictures of this size in one request, found 3") as caught:
        ask(tokenizer, *files)
    assert (caught.value.param, caught.value.code) == ("input.2", "too_complex")


def test_a_picture_without_a_place_is_refused(tokenizer: LimitedTokenizer) -> None:
    shown = {"data": "YQ==", "param": "input"}
    for texts, pictures in ((["a"], [shown]), ([None], [])):
        request = msgspec.convert({"digest": "0" * 64, "texts": texts, "pictures": pictures}, PrepareRowsRequest)
        with pytest.raises(InvalidRequest, match="pictures, found"):
            prepare_rows(tokenizer, request)


def changed(tmp_path: Path, **fields: Any) -> Path:
    folder = tmp_path / "clip"
    folder.mkdir()
    for name in FILES:
        shutil.copy(FOLDER / name, folder)
    settings = json.loads((FOLDER / "preprocessor_config.json").read_text()) | fields
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


def test_values_are_scaled_only_as_the_settings_say(tmp_path: Path) -> None:
    found = row_pictures(changed(tmp_path, do_normalize=False))
    assert found is not None
    assert (found.scale, found.shift) == ((1 / 255,) * 3, (0.0,) * 3)


def test_other_settings_are_another_models(tmp_path: Path) -> None:
    ours, other = row_pictures(FOLDER), row_pictures(changed(tmp_path, do_rescale=False))
    assert ours is not None
    assert other is not None
    assert ours.settings != other.settings
    assert other.scale == tuple(1 / one for one in (0.26862954, 0.26130258, 0.27577711))


def test_a_normalisation_without_sense_is_a_fault_of_the_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleUnreadable, match="three numbers"):
        load(changed(tmp_path, image_std=[1.0]))


def test_models_of_other_kinds_make_no_rows_of_pictures(tmp_path: Path) -> None:
    assert row_pictures(FOLDER.with_name("tiny-vlm")) is None
    assert row_pictures(FOLDER.with_name("tiny-reranker")) is None
    assert row_pictures(changed(tmp_path, image_processor_type="OwnImageProcessor")) is None


@pytest.mark.parametrize("limits", [None, PictureLimits()])
def test_a_model_that_makes_no_rows_of_pictures_refuses_them(limits: PictureLimits | None) -> None:
    order = PictureOrder(limits, PictureForm.PIXELS)
    with pytest.raises(InvalidRequest) as refused:
        rows_of_pictures(None, (Picture(data="", param="input.0"),), PictureReader(), order)
    assert (refused.value.param, refused.value.code) == ("input.0", "unsupported_parameter")
