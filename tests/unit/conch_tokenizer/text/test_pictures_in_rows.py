"""What `encoder_rows` and `prompts` make of one chat with pictures: a row of an encoder has what a prompt has."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from conch_contracts.messages.encoding import PrepareRowsRequest, Row
from conch_contracts.messages.tokenization import PrepareRequest
from conch_kit.errors import InvalidRequest
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.encoder_rows import prepare_rows
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import load
from conch_tokenizer.text.prompts import prepare_prompts
from testkit.builders.picture_chats import picture_chat
from testkit.models.picture_model import make_picture_model
from testkit.models.pictures import file_of, picture

ASKED = {"digest": "0" * 64, "add_special_tokens": False, "picture_limits": {}}
RED, BLUE = file_of(picture(seed=1)), file_of(picture(100, 64, seed=2), "JPEG")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> LimitedTokenizer:
    folder: Path = make_picture_model(tmp_path_factory.mktemp("sees") / "model")
    model = load(folder)
    return LimitedTokenizer(model, ChatRenderer(model), 1_000_000, lambda: None)


def row(tokenizer: LimitedTokenizer, chat: dict[str, Any], **fields: Any) -> Row:
    told = {**ASKED, "chat": chat, **fields}
    (made,) = prepare_rows(tokenizer, msgspec.convert(told, PrepareRowsRequest)).rows
    return made


def test_a_row_of_a_chat_has_the_ids_and_pictures_of_its_prompt(tokenizer: LimitedTokenizer) -> None:
    chat = picture_chat(("Is ", RED, " like ", BLUE, "?"))
    told = {**ASKED, "chat": chat, "picture_scope": "a"}
    (prompt,) = prepare_prompts(tokenizer, msgspec.convert(told, PrepareRequest)).prompts
    made = row(tokenizer, chat, picture_scope="a")
    assert (made.ids, made.pictures, made.picture, made.tokens) == (prompt.ids, prompt.pictures, None, len(prompt.ids))
    assert row(tokenizer, chat, picture_scope="b").pictures[0].digest != made.pictures[0].digest


def test_a_row_is_cut_between_pictures(tokenizer: LimitedTokenizer) -> None:
    chat = picture_chat(("One", RED, "two", BLUE, "three"))
    whole = row(tokenizer, chat)
    first, second = whole.pictures
    right = row(tokenizer, chat, truncate=first.start + first.length)
    assert (right.ids, right.pictures) == (whole.ids[: first.start + first.length], (first,))
    after = len(whole.ids) - second.start
    left = row(tokenizer, chat, truncate=after, truncation_side="left")
    assert (left.ids, [one.start for one in left.pictures]) == (whole.ids[-after:], [0])
    with pytest.raises(InvalidRequest, match="cuts no picture") as caught:
        row(tokenizer, chat, truncate=first.start + 1)
    assert caught.value.param == "truncate_prompt_tokens"
    with pytest.raises(InvalidRequest, match="maximum context length is 70 tokens"):
        row(tokenizer, chat, longest=70)
