"""Where control tokens are found in what users write."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from transformers import AddedToken, PreTrainedTokenizerBase

from conch_tokenizer.text.control_tokens import ControlTokens

SPECIAL = ("<|end|>", 'a"b\\c', "<\n>", "<ü>")


@pytest.fixture(scope="module")
def control() -> ControlTokens:
    added = {index: AddedToken(content, special=True) for index, content in enumerate(SPECIAL)}
    added[9] = AddedToken("<think>", special=False)
    tokenizer = SimpleNamespace(chat_control_tokens=None, added_tokens_decoder=added)
    return ControlTokens(cast(PreTrainedTokenizerBase, tokenizer))


@pytest.mark.parametrize("token", SPECIAL)
@pytest.mark.parametrize(
    "around", [lambda text: text, lambda text: [{"a": (1, {"b": f"x{text}y"})}], lambda text: {"n": 2**70, "a": text}]
)
def test_a_control_token_is_found_wherever_it_stands(control: ControlTokens, token: str, around: Any) -> None:
    assert control.found_in(around(token))


@pytest.mark.parametrize(
    "value", ["<think>", "<|end", {"<|end|>": 1}, ["<|", "end|>"], None, 2**70, {"n": 2**70, "a": ["b"]}, 'a\\"b\\\\c']
)
def test_nothing_else_is(control: ControlTokens, value: object) -> None:
    assert not control.found_in(value)
