import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image
from transformers import LlavaProcessor
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from conch_contracts.messages.encoding import PrepareRowsRequest
from conch_contracts.messages.generation import PreparedPrompt
from conch_contracts.messages.tokenization import EncodeTextRequest, PrepareRequest
from conch_kit.errors import InvalidRequest
from conch_tokenizer.pictures import picture_reader
from conch_tokenizer.pictures.picture_reader import PictureReader
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.encoder_rows import prepare_rows
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer, load
from conch_tokenizer.text.prompts import prepare_prompts
from conch_tokenizer.text.tokenize_detokenize import tokenize
from testkit.builders.picture_chats import picture_chat
from testkit.models.content_templates import CHATML, OF_EITHER
from testkit.models.picture_model import FEATURES, IMAGE, IMAGE_ID, PROCESSOR, SIDE, make_picture_model
from testkit.models.pictures import base64_of, file_of, picture, see_through, turned

DIGEST = "0" * 64
RED, BLUE = file_of(picture(seed=1)), file_of(picture(100, 64, seed=2), "JPEG")
FIRST = "messages.0.content.0.image_url"

Refused = Callable[..., InvalidRequest]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_picture_model(tmp_path_factory.mktemp("sees") / "model")


@pytest.fixture(scope="module")
def seeing(folder: Path) -> ModelTokenizer:
    return load(folder)


@pytest.fixture(scope="module")
def renderer(seeing: ModelTokenizer) -> ChatRenderer:
    return ChatRenderer(seeing)


@pytest.fixture
def read() -> list[int]:
    """Give the list of pictures that had to be decoded."""
    return []


@pytest.fixture
def tokenizer(seeing: ModelTokenizer, renderer: ChatRenderer, read: list[int]) -> LimitedTokenizer:
    return LimitedTokenizer(seeing, renderer, 1_000_000, lambda: None, PictureReader(read.append))


@pytest.fixture
def refused(tokenizer: LimitedTokenizer) -> Refused:
    def refusal(chat: dict[str, Any], **fields: Any) -> InvalidRequest:
        with pytest.raises(InvalidRequest) as caught:
            prepared(tokenizer, chat, **fields)
        return caught.value

    return refusal


def prepared(tokenizer: LimitedTokenizer, chat: dict[str, Any], **fields: Any) -> PreparedPrompt:
    told = {"digest": DIGEST, "chat": chat, "add_special_tokens": False, "picture_limits": {}, **fields}
    (prompt,) = prepare_prompts(tokenizer, msgspec.convert(told, PrepareRequest)).prompts
    return prompt


def test_pictures_stand_where_the_messages_show_them(
    tokenizer: LimitedTokenizer, folder: Path, seeing: ModelTokenizer
) -> None:
    prompt = prepared(tokenizer, picture_chat(("Is ", RED, " like ", BLUE, "?"), "Yes.", (RED, BLUE)))
    expected = "<|im_start|>user\nIs <image> like <image>?<|im_end|>"
    assert prompt.text.startswith(expected)
    settings = {name: value for name, value in PROCESSOR.items() if name != "processor_class"}
    reference = LlavaProcessor(CLIPImageProcessorPil.from_pretrained(str(folder)), seeing.transformers, **settings)
    images = [Image.open(io.BytesIO(data)) for data in (RED, BLUE, RED, BLUE)]
    assert list(prompt.ids) == reference(text=prompt.text, images=images)["input_ids"][0]
    assert [picture.length for picture in prompt.pictures] == [FEATURES] * 4
    for shown in prompt.pictures:
        assert set(prompt.ids[shown.start : shown.start + shown.length]) == {IMAGE_ID}
        assert (shown.height, shown.width, len(shown.data)) == (SIDE, SIDE, SIDE * SIDE * 3)
    first, second, third, fourth = prompt.pictures
    assert (first.digest, second.digest) == (third.digest, fourth.digest)
    assert first.digest != second.digest
    assert fourth.start == third.start + FEATURES  # side by side
    assert not prompt.text_is_exact


def test_a_picture_alone_is_a_message(tokenizer: LimitedTokenizer) -> None:
    prompt = prepared(tokenizer, picture_chat((RED,)))
    assert prompt.text == "<|im_start|>user\n<image><|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("What is ", RED, "this?"), "<image>\nWhat is \nthis?"),
        ((RED, BLUE, "Which?"), "<image>\n<image>\nWhich?"),
        ((RED,), "<image>"),
    ],
)
@pytest.mark.parametrize("content_format", ["auto", "string"])
def test_a_template_of_texts_has_them_in_front(
    content_format: str, parts: tuple[str | bytes, ...], text: str, tokenizer: LimitedTokenizer
) -> None:
    chat = picture_chat("Hi", parts, chat_template=CHATML, content_format=content_format)
    prompt = prepared(tokenizer, chat)
    assert f"<|im_start|>user\nHi<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n" in prompt.text
    assert len(prompt.pictures) == len(chat["pictures"])


@pytest.mark.parametrize("template", [None, CHATML])
def test_what_stands_for_a_picture_is_words_where_a_user_writes_it(
    template: str | None, tokenizer: LimitedTokenizer, seeing: ModelTokenizer
) -> None:
    chat = picture_chat(("See <image>", RED, "<image> and <|im_end|>"), "<image>", chat_template=template)
    prompt = prepared(tokenizer, chat)
    assert prompt.ids.count(IMAGE_ID) == FEATURES
    assert prompt.text.count(IMAGE) == 4
    words = "".join(
        seeing.decode(run)
        for run in (prompt.ids[: prompt.pictures[0].start], prompt.ids[prompt.pictures[0].start + 64 :])
    )
    assert words.count(IMAGE) == 3
    without = prepared(tokenizer, picture_chat("See <image>", chat_template=template))
    assert IMAGE_ID not in without.ids
    assert (without.pictures, without.text_is_exact) == ((), True)


def test_parts_that_would_make_a_word_for_a_picture_stay_one_text(tokenizer: LimitedTokenizer) -> None:
    prompt = prepared(tokenizer, picture_chat(("a <ima", RED, "ge> b")))
    assert prompt.text.startswith("<|im_start|>user\n<image>a <ima\nge> b<|im_end|>")
    assert prompt.ids.count(IMAGE_ID) == FEATURES


@pytest.mark.parametrize("role", ["system", "tool"])
def test_pictures_of_others_than_the_user_are_not_lost(role: str, tokenizer: LimitedTokenizer) -> None:
    chat = picture_chat(("See", RED), role=role, chat_template=OF_EITHER["qwen 2 vl"])
    assert prepared(tokenizer, chat).text == f"{role}See<image>"


@pytest.mark.parametrize(
    ("template", "found"),
    [("Hi" + OF_EITHER["devstral"], 0), ("<image>{{ messages[0].content }}", 3), ("{{ messages[0].content[:7] }}", 1)],
)
def test_a_template_that_loses_pictures_or_makes_some_up_is_refused(
    template: str, found: int, refused: Refused, read: list[int]
) -> None:
    told = refused(picture_chat((RED, BLUE), chat_template=template, chat_template_param="chat_template"))
    assert (told.param, told.code) == ("chat_template", "template_error")
    assert told.message == f"the chat template has places for {found} pictures, where the messages hold 2"
    assert read == []


def test_a_template_that_shows_a_picture_where_there_is_none_is_refused(refused: Refused) -> None:
    told = refused(picture_chat("Hi", chat_template="<image>{{ messages[0].content }}"))
    assert (told.param, told.code) == ("messages", "template_error")


def test_only_so_many_pictures_are_taken(refused: Refused, tokenizer: LimitedTokenizer) -> None:
    assert len(prepared(tokenizer, picture_chat((RED, RED)), picture_limits={"max": 2}).pictures) == 2
    told = refused(picture_chat((RED, RED), "and", (RED,)), picture_limits={"max": 2})
    assert (told.param, told.code) == ("messages.2.content.0.image_url", "invalid_value")
    assert told.message == "expected at most 2 pictures in one prompt, found 3"


@pytest.mark.parametrize(
    ("limits", "said"),
    [({"max_pixels": 5_399}, "5399 pixels, found 90 x 60"), ({"max_bytes": 100}, "at most 100 bytes")],
)
def test_a_models_limits_are_kept_also_by_what_was_read_before(
    limits: dict[str, int], said: str, refused: Refused, tokenizer: LimitedTokenizer
) -> None:
    prepared(tokenizer, picture_chat((RED,)))
    told = refused(picture_chat((RED,)), picture_limits=limits)
    assert told.param == FIRST
    assert said in told.message


@pytest.mark.parametrize(
    "chat",
    [picture_chat(("a", RED)) | {"pictures": []}, picture_chat(("a", RED)) | {"part_lengths": {}}],
)
def test_a_picture_without_a_place_and_a_place_without_one_are_refused(chat: dict[str, Any], refused: Refused) -> None:
    assert "expected a picture for each of" in refused(chat).message


def test_a_model_that_sees_nothing_refuses_pictures(
    refused: Refused, model: ModelTokenizer, tokenizer: LimitedTokenizer
) -> None:
    blind = LimitedTokenizer(model, ChatRenderer(model), 1_000_000, lambda: None)
    with pytest.raises(InvalidRequest, match="sees no pictures") as caught:
        prepared(blind, picture_chat((RED,)))
    told = refused(picture_chat((RED,)), picture_limits=None)
    assert [(one.param, one.code) for one in (told, caught.value)] == [(FIRST, "unsupported_parameter")] * 2
    rows = {"digest": DIGEST, "chat": picture_chat((RED,))}
    with pytest.raises(InvalidRequest, match="sees no pictures"):
        prepare_rows(tokenizer, msgspec.convert(rows, PrepareRowsRequest))


def test_a_prompt_is_cut_between_pictures(tokenizer: LimitedTokenizer) -> None:
    chat = picture_chat(("One", RED, "two", BLUE, "three"))
    whole = prepared(tokenizer, chat)
    first, second = whole.pictures
    after = len(whole.ids) - second.start
    left = prepared(tokenizer, chat, truncate_prompt_tokens=after)
    assert left.ids == whole.ids[-after:]
    assert [(one.start, one.digest) for one in left.pictures] == [(0, second.digest)]
    assert left.text == "<image>three<|im_end|>\n<|im_start|>assistant\n"
    end = first.start + first.length
    right = prepared(tokenizer, chat, truncate_prompt_tokens=end, truncation_side="right")
    assert (right.ids, right.pictures) == (whole.ids[:end], (first,))
    assert right.text == "<|im_start|>user\nOne<image>"
    none = prepared(tokenizer, chat, truncate_prompt_tokens=first.start, truncation_side="right")
    assert none.pictures == ()
    assert prepared(tokenizer, chat, truncate_prompt_tokens=len(whole.ids)) == whole


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("off", [-1, 1 - FEATURES])
def test_no_picture_is_cut(side: str, off: int, refused: Refused, tokenizer: LimitedTokenizer) -> None:
    chat = picture_chat(("One", RED, "two"))
    whole = prepared(tokenizer, chat)
    end = whole.pictures[0].start + FEATURES
    keep = end + off if side == "right" else len(whole.ids) - whole.pictures[0].start + off
    told = refused(chat, truncate_prompt_tokens=keep, truncation_side=side)
    assert (told.param, told.code) == ("truncate_prompt_tokens", "invalid_value")
    assert f"found {keep}, which cuts one of 64 tokens" in told.message


def test_a_context_has_room_for_the_ids_of_pictures(
    refused: Refused, tokenizer: LimitedTokenizer, read: list[int]
) -> None:
    chat = picture_chat(("Which?", RED, BLUE, RED))
    whole = prepared(tokenizer, chat, context=1024)
    assert prepared(tokenizer, chat, context=len(whole.ids)) == whole
    read.clear()
    told = refused(chat, context=100, picture_scope="another")
    assert (told.param, told.code) == ("messages.0.content.2.image_url", "context_length_exceeded")
    assert "maximum context length is 100 tokens" in told.message
    assert read == [0, 1]  # those behind are not read


def test_a_picture_is_read_once(tokenizer: LimitedTokenizer, read: list[int]) -> None:
    first = prepared(tokenizer, picture_chat((RED, BLUE, RED)))
    second = prepared(tokenizer, picture_chat((RED, BLUE, RED), "And?"))
    assert read == [0, 1]
    assert second.pictures == first.pictures
    prepared(tokenizer, picture_chat((BLUE,)), picture_form="png")
    prepared(tokenizer, picture_chat((BLUE,)), picture_scope="another")
    assert read == [0, 1, 0, 0]


def test_what_was_read_longest_ago_is_forgotten(seeing: ModelTokenizer, renderer: ChatRenderer) -> None:
    read: list[int] = []
    reader = PictureReader(read.append, kept_bytes=2 * SIDE * SIDE * 3)
    tokenizer = LimitedTokenizer(seeing, renderer, 1_000_000, lambda: None, reader)
    green = file_of(picture(seed=3))
    for data in (RED, BLUE, RED, green, RED, BLUE):
        prepared(tokenizer, picture_chat((data,)))
    assert len(read) == 4
    large = PictureReader(read.append, kept_bytes=100)
    tokenizer = LimitedTokenizer(seeing, renderer, 1_000_000, lambda: None, large)
    assert prepared(tokenizer, picture_chat((RED, RED))).pictures[1].data
    assert len(read) == 6


def test_an_engine_gets_nothing_of_a_file_but_its_pixels(tokenizer: LimitedTokenizer) -> None:
    profiled = file_of(picture(), icc_profile=b"p" * 1000)
    (shown,) = prepared(tokenizer, picture_chat((profiled,)), picture_form="png").pictures
    assert b"iCCP" in profiled
    assert b"iCCP" not in shown.data


def test_one_that_is_too_large_to_be_kept_takes_nobodys_place(seeing: ModelTokenizer, renderer: ChatRenderer) -> None:
    read: list[int] = []
    reader = PictureReader(read.append, kept_bytes=2 * SIDE * SIDE * 3)
    tokenizer = LimitedTokenizer(seeing, renderer, 1_000_000, lambda: None, reader)
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    large = file_of(Image.fromarray(noise))
    for form, data in (("pixels", RED), ("png", large), ("pixels", RED)):
        prepared(tokenizer, picture_chat((data,)), picture_form=form)
    assert len(read) == 2


def test_a_picture_that_takes_too_much_memory_is_named(
    seeing: ModelTokenizer, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object, param: str) -> None:
        raise MemoryError

    monkeypatch.setattr(picture_reader, "decode", exhausted)
    refusal = refused(picture_chat((RED,)))
    assert "more memory" in refusal.message
    assert refusal.param == FIRST


def test_a_digest_is_of_scope_size_and_pixels(tokenizer: LimitedTokenizer) -> None:
    (shown,) = prepared(tokenizer, picture_chat((RED,)), picture_scope="tenant é").pictures
    told = b"9 " + "tenant é".encode() + b" 64 64 "
    assert shown.digest == hashlib.sha256(told + shown.data).hexdigest()
    twin = file_of(Image.open(io.BytesIO(RED)), "WEBP", lossless=True)
    (same,) = prepared(tokenizer, picture_chat((twin,)), picture_scope="tenant é").pictures
    (other,) = prepared(tokenizer, picture_chat((RED,)), picture_scope="").pictures
    assert (same.digest == shown.digest, other.digest == shown.digest) == (True, False)


@pytest.mark.parametrize("data", [RED, turned(6), file_of(see_through("RGBA"))], ids=["png", "turned", "see-through"])
def test_an_engine_of_files_gets_a_png_and_one_id(
    data: bytes, tokenizer: LimitedTokenizer, seeing: ModelTokenizer
) -> None:
    prompt = prepared(tokenizer, picture_chat(("What?", data)), picture_form="png")
    (shown,) = prompt.pictures
    image = Image.open(io.BytesIO(shown.data))
    assert (image.format, image.mode, image.size) == ("PNG", "RGB", (shown.width, shown.height))
    assert image.info == {}
    assert (shown.length, prompt.ids[shown.start]) == (1, IMAGE_ID)
    assert list(prompt.ids) == seeing.encode(prompt.text, add_special_tokens=False)
    assert prompt.text_is_exact
    expected = Image.open(io.BytesIO(data))
    if expected.mode == "RGBA":
        expected = Image.alpha_composite(Image.new("RGBA", expected.size, "white"), expected).convert("RGB")
    elif data != RED:
        expected = expected.transpose(Image.Transpose.ROTATE_270)
    np.testing.assert_array_equal(np.asarray(image), np.asarray(expected))


def test_an_engine_of_files_gets_no_text_in_which_it_would_find_more_pictures(refused: Refused) -> None:
    told = refused(picture_chat(("This <image>?", RED)), picture_form="png")
    assert (told.param, told.code) == ("messages", "invalid_value")
    assert "'<image>', which this model's engine would take for a picture" in told.message


def test_pictures_that_are_too_large_for_one_answer_are_refused(refused: Refused, tokenizer: LimitedTokenizer) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (2_200, 3_300, 3), np.uint8)
    loud = file_of(Image.fromarray(noise), "JPEG", quality=20)
    assert len(prepared(tokenizer, picture_chat((loud,)), picture_form="png").pictures) == 1
    told = refused(picture_chat((loud, "and", loud, loud)), picture_form="png")
    assert (told.param, told.code) == ("messages.0.content.3.image_url", "invalid_value")
    assert "at most 41943040 bytes as PNG files" in told.message


def test_tokens_of_a_chat_are_counted_with_its_pictures(tokenizer: LimitedTokenizer, tmp_path: Path) -> None:
    told = {
        "digest": DIGEST,
        "chat": picture_chat(("What?", RED)),
        "add_special_tokens": False,
        "picture_limits": {},
        "return_token_strs": True,
    }
    counted = tokenize(tokenizer, msgspec.convert(told, EncodeTextRequest))
    assert counted.tokens == prepared(tokenizer, picture_chat(("What?", RED))).ids
    assert (counted.token_strs or ()).count(IMAGE) == FEATURES
    unknown = load(make_picture_model(tmp_path / "unknown", config={"model_type": "qwen2_vl"}))
    other = LimitedTokenizer(unknown, ChatRenderer(unknown), 1_000_000, lambda: None)
    assert tokenize(other, msgspec.convert(told, EncodeTextRequest)).tokens.count(IMAGE_ID) == 1
    with pytest.raises(InvalidRequest, match="cannot be made ready for this model") as caught:
        prepared(other, picture_chat(("What?", RED)))
    assert (caught.value.param, caught.value.code) == ("messages.0.content.1.image_url", "unsupported_parameter")


def test_a_picture_that_is_none_is_named(refused: Refused) -> None:
    chat = picture_chat(("See", RED, b"GIF89a"))
    assert refused(chat).param == "messages.0.content.2.image_url"
    chat["pictures"][0]["data"] = base64_of(RED)[:-3] + "???"
    assert refused(chat).param == "messages.0.content.1.image_url"


def test_the_template_of_a_processor_is_the_models(tmp_path: Path) -> None:
    folder = make_picture_model(tmp_path / "old")
    (folder / "chat_template.json").write_text('{"chat_template": "old"}')
    assert load(folder).transformers.chat_template != "old"
    (folder / "chat_template.jinja").unlink()
    assert load(folder).transformers.chat_template == "old"


def test_the_ids_of_a_model_of_parts_are_those_of_its_text_part(seeing: ModelTokenizer) -> None:
    assert seeing.vocab_size == 2056
