"""Text of a grammar that spells a special token is made of ordinary tokens; a token that is meant is named."""

import json

import pytest
from llguidance import LLMatcher
from tokenizers import Tokenizer

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_guidance.compiler import GrammarCompiler
from testkit.models.golden import FOLDER

SPECIAL = range(2039, 2048)
THINK = 2046
CHOICE, JSON_SCHEMA, TAGS = GrammarKind.CHOICE, GrammarKind.JSON_SCHEMA, GrammarKind.STRUCTURAL_TAG
SEPARATOR = {"type": "object", "properties": {"sep": {"enum": ["<|endoftext|>"]}}, "required": ["sep"]}
NAMED = {"type": "object", "properties": {"<tool_call>": {"const": 1}}, "required": ["<tool_call>"]}
OPTIONS = [*(f"opt{n}" for n in range(40)), "zz long text <think>zzz"]


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler.of_folder(FOLDER, vocabulary=2048, kept=4)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


def grammar(kind: GrammarKind, definition: object) -> Grammar:
    return Grammar(kind=kind, definition=definition if isinstance(definition, str) else json.dumps(definition))


def answer(matcher: LLMatcher) -> list[int]:
    """Return the answer in which always the last of the allowed tokens is chosen; an end is none."""
    tokens = []
    while not matcher.is_stopped():
        allowed = int.from_bytes(matcher.compute_bitmask(), "little")
        tokens.append(allowed.bit_length() - 1)
        matcher.consume_token(tokens[-1])
    assert not matcher.get_error()
    return tokens


@pytest.mark.parametrize(
    ("kind", "definition", "text"),
    [
        (CHOICE, ["a<|endoftext|>b"], "a<|endoftext|>b"),
        (CHOICE, ["a<|im_end|>b"], "a<|im_end|>b"),
        (CHOICE, OPTIONS, "zz long text <think>zzz"),
        (CHOICE, ["<<think>think>"], "<<think>think>"),
        (JSON_SCHEMA, {"const": "<tool_call>"}, '"<tool_call>"'),
        (JSON_SCHEMA, {**SEPARATOR, "additionalProperties": False}, '{"sep": "<|endoftext|>" }'),
        (JSON_SCHEMA, {**NAMED, "additionalProperties": False}, '{"<tool_call>": 1 }'),
        (GrammarKind.REGEX, "é<think>é", "é<think>é"),
        (GrammarKind.GRAMMAR, 'start: "<think>"', "<think>"),
    ],
)
def test_a_text_that_spells_a_special_token_is_made_of_ordinary_ones(
    compiler: GrammarCompiler, tokenizer: Tokenizer, kind: GrammarKind, definition: object, text: str
) -> None:
    asked = grammar(kind, definition)
    compiler.check(asked, foreign=False)
    tokens = answer(compiler.matcher(asked))
    assert not set(tokens) & set(SPECIAL)
    assert json_or_text(tokenizer.decode(tokens)) == json_or_text(text)


def json_or_text(text: str) -> object:
    return json.loads(text) if text[0] in '{"' else text


def test_a_text_without_one_is_forced_as_the_tokenizer_writes_it(
    compiler: GrammarCompiler, tokenizer: Tokenizer
) -> None:
    text = "The whole answer is here."
    assert answer(compiler.matcher(grammar(CHOICE, [text]))) == tokenizer.encode(text).ids


@pytest.mark.parametrize(
    ("kind", "definition"),
    [
        (GrammarKind.GRAMMAR, 'start: <think> "so"'),
        (TAGS, {"type": "structural_tag", "format": {"type": "const_string", "value": "<think>so"}}),
    ],
)
def test_a_token_that_a_grammar_names_is_itself(
    compiler: GrammarCompiler, kind: GrammarKind, definition: object
) -> None:
    assert answer(compiler.matcher(grammar(kind, definition)))[0] == THINK
