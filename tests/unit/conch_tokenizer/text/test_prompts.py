from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from conch_contracts.messages.tokenization import PrepareRequest
from conch_contracts.names import Digest
from conch_kit.errors import InvalidRequest
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer
from conch_tokenizer.text.prompts import prepare_prompts

DIGEST = Digest("0" * 64)
CHAT = {"messages": [{"role": "user", "content": "Hello!"}]}


def prepare(**fields: Any) -> PrepareRequest:
    return msgspec.convert(type=PrepareRequest, obj={"digest": DIGEST, **fields})


def test_texts_and_ids_give_the_same_prompt(tokenizer: LimitedTokenizer, model: ModelTokenizer) -> None:
    text = "Once upon a time"
    ids = tuple(model.encode(text, add_special_tokens=False))
    first, second = prepare_prompts(tokenizer, prepare(prompts=(text, ids))).prompts
    assert (first.ids, first.text) == (second.ids, second.text) == (ids, text)


def test_only_text_that_ids_were_made_of_is_exact(tokenizer: LimitedTokenizer) -> None:
    prompts = prepare_prompts(tokenizer, prepare(prompts=("Once upon a time", (5, 6)))).prompts
    chats = (
        prepare(chat=CHAT, add_special_tokens=False),
        prepare(chat=CHAT, add_special_tokens=False, truncate_prompt_tokens=3),
        prepare(chat=CHAT, add_special_tokens=True),
        prepare(prompts=("Once upon a time",), add_special_tokens=False),
    )
    prompts += tuple(prepare_prompts(tokenizer, chat).prompts[0] for chat in chats)
    assert [prompt.text_is_exact for prompt in prompts] == [True, False, True, False, False, False]


@pytest.mark.parametrize(
    ("side", "kept"),
    [({}, slice(-3, None)), ({"truncation_side": "left"}, slice(-3, None)), ({"truncation_side": "right"}, slice(3))],
)
def test_truncation_keeps_ids_of_one_end_and_their_text(
    tokenizer: LimitedTokenizer, model: ModelTokenizer, side: dict[str, str], kept: slice
) -> None:
    (prompt,) = prepare_prompts(tokenizer, prepare(chat=CHAT, truncate_prompt_tokens=3, **side)).prompts
    (whole,) = prepare_prompts(tokenizer, prepare(chat=CHAT)).prompts
    assert prompt.ids == whole.ids[kept]
    assert prompt.text == model.decode(prompt.ids)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, None),
        ({"chat": CHAT, "prompts": ["x"]}, None),
        ({"prompts": []}, "prompt"),
        ({"prompts": [""]}, "prompt"),
        ({"prompts": ["x", []]}, "prompt"),
        ({"prompts": [[2048]]}, "prompt"),
        ({"prompts": [[-1]]}, "prompt"),
        ({"prompts": [[2**63]]}, "prompt"),
        ({"prompts": ["x"], "truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"prompts": ["x"], "bad_words": ["a", ""]}, "bad_words"),
        ({"prompts": ["x"], "stop_words": [""]}, "stop_words"),
        ({"chat": {"messages": []}}, "messages"),
        ({"chat": {**CHAT, "chat_template": "{# nothing #}"}}, "messages"),
    ],
)
def test_a_prompt_that_cannot_be_is_refused(
    fields: dict[str, Any], param: str | None, tokenizer: LimitedTokenizer
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        prepare_prompts(tokenizer, prepare(**fields))
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompts": ["a" * 600, "b" * 600]}, "prompt"),
        ({"prompts": ["中" * 400]}, "prompt"),
        ({"chat": {"messages": [{"role": "user", "content": "a" * 2000}]}}, "messages"),
    ],
)
def test_text_over_the_byte_bound_is_refused(
    fields: dict[str, Any], param: str, make_tokenizer: Callable[[int], LimitedTokenizer]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        prepare_prompts(make_tokenizer(1024), prepare(**fields))
    assert (caught.value.param, caught.value.code) == (param, "context_length_exceeded")


def test_a_text_that_is_far_too_long_is_not_even_measured(make_tokenizer: Callable[[int], LimitedTokenizer]) -> None:
    class Text(str):
        __slots__ = ()

        def encode(self, *_: str) -> bytes:
            raise AssertionError("It may have a gigabyte.")

    with pytest.raises(InvalidRequest):
        make_tokenizer(1000).check_size([Text("x" * 1001)], param="prompt")


def test_text_at_the_byte_bound_is_served(make_tokenizer: Callable[[int], LimitedTokenizer]) -> None:
    assert prepare_prompts(make_tokenizer(1024), prepare(prompts=["中" * 341])).prompts[0].ids


HOPELESS = "word " * 4_000
"""100 tokens of the example model are 100 words and 13,200 bytes at most."""


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompts": ["x", HOPELESS]}, "prompt"),
        ({"prompts": ["中" * 6_000]}, "prompt"),
        ({"chat": {"messages": [{"role": "user", "content": HOPELESS}]}}, "messages"),
    ],
)
def test_a_text_that_no_such_context_holds_is_refused_without_being_encoded(
    fields: dict[str, Any], param: str, tokenizer: LimitedTokenizer
) -> None:
    with pytest.raises(InvalidRequest, match="context length is 100 tokens") as caught:
        prepare_prompts(tokenizer, prepare(context=100, **fields))
    assert (caught.value.param, caught.value.code) == (param, "context_length_exceeded")


@pytest.mark.parametrize(
    "fields",
    [
        {"prompts": [HOPELESS], "truncate_prompt_tokens": 100},
        {"prompts": [(5,) * 200]},
        {"prompts": ["x" * 13_200]},
        {"chat": {**CHAT, "template_kwargs": {"unused": HOPELESS}}},
    ],
    ids=["cut", "ids", "perhaps", "not rendered"],
)
def test_what_the_context_may_hold_is_encoded_and_counted(fields: dict[str, Any], tokenizer: LimitedTokenizer) -> None:
    assert prepare_prompts(tokenizer, prepare(context=100, **fields)).prompts[0].ids


@pytest.mark.parametrize(("length", "expected"), [(2_000, []), (30_000, ["encoding"])])
def test_only_long_work_is_announced(
    length: int, expected: list[str], tokenizer: LimitedTokenizer, announced: list[str]
) -> None:
    prepare_prompts(tokenizer, prepare(prompts=["word " * (length // 5)]))
    assert announced == expected


@pytest.mark.parametrize(("length", "expected"), [(20_000, []), (20_001, ["encoding"])])
def test_many_ids_are_announced_too(
    length: int, expected: list[str], tokenizer: LimitedTokenizer, announced: list[str]
) -> None:
    tokenizer.check_ids([5] * length, param="prompt")
    assert announced == expected


def test_marks_are_spelt_as_the_tokenizer_spells_them(tokenizer: LimitedTokenizer, model: ModelTokenizer) -> None:
    answer = prepare_prompts(tokenizer, prepare(prompts=("x",), marks=("</think>", "[THINK]")))
    assert answer.marks == ((2047,), tuple(model.encode("[THINK]", add_special_tokens=False)))
