import json
import re

import pytest

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_kit.errors import InvalidRequest
from conch_llm_worker.dialects.guided_decoding import Guide, tensorrtllm_guide, vllm_guidance

SCHEMA = '{"type": "object"}'
EBNF = 'root ::= "a"'
SPACED = Grammar(kind=GrammarKind.JSON_SCHEMA, definition=SCHEMA, whitespace=" ")
TIGHT = Grammar(kind=GrammarKind.JSON_SCHEMA, definition=SCHEMA, whitespace="")
LARK = Grammar(kind=GrammarKind.GRAMMAR, definition='start: "a"')
TAG = '{"type": "structural_tag", "format": {"type": "any_text"}}'


@pytest.mark.parametrize(
    ("kind", "definition", "vllm", "tensorrtllm"),
    [
        ("json_schema", SCHEMA, {"json": {"type": "object"}}, Guide("json_schema", SCHEMA)),
        ("json_object", "", {"json_object": True}, Guide("json_schema", '{"type":"object"}')),
        ("regex", "a+", {"regex": "a+"}, Guide("regex", "a+")),
        ("choice", '["a", "b.c"]', {"choice": ["a", "b.c"]}, Guide("regex", r"(a)|(b\.c)")),
        ("grammar", EBNF, {"grammar": EBNF}, Guide("ebnf_grammar", EBNF)),
    ],
)
def test_each_kind_has_its_word(kind: str, definition: str, vllm: dict[str, object], tensorrtllm: Guide) -> None:
    grammar = Grammar(kind=GrammarKind(kind), definition=definition)
    assert vllm_guidance(grammar) == vllm
    assert tensorrtllm_guide(grammar, "guided_json") == tensorrtllm


def test_structural_tags_are_vllms_alone() -> None:
    grammar = Grammar(kind=GrammarKind.STRUCTURAL_TAG, definition=TAG)
    assert vllm_guidance(grammar) == {"structural_tag": TAG}
    with pytest.raises(InvalidRequest) as refused:
        tensorrtllm_guide(grammar, "tool_choice")
    assert (refused.value.param, refused.value.code) == ("tool_choice", "unsupported_parameter")


def test_choices_are_taken_literally() -> None:
    choices = ["a|b", "(", "é😀", "x y"]
    guide = tensorrtllm_guide(Grammar(kind=GrammarKind.CHOICE, definition=json.dumps(choices)), "guided_choice").guide
    assert guide is not None
    assert [choice for choice in choices if not re.fullmatch(guide, choice)] == []
    assert not re.fullmatch(guide, "a")


@pytest.mark.parametrize(
    ("grammar", "asked_as", "param"),
    [
        (SPACED, "guided_json", "guided_whitespace_pattern"),
        (SPACED, "structured_outputs.json", "structured_outputs.whitespace_pattern"),
        (TIGHT, "structured_outputs.json", "structured_outputs.disable_any_whitespace"),
        (LARK, "guided_grammar", "guided_grammar"),
        (LARK, "structured_outputs.grammar", "structured_outputs.grammar"),
    ],
)
def test_what_tensorrtllm_has_no_word_for_is_refused(grammar: Grammar, asked_as: str, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        tensorrtllm_guide(grammar, asked_as)
    assert (refused.value.param, refused.value.code) == (param, "unsupported_parameter")


def test_white_space_travels_to_vllm() -> None:
    grammar = Grammar(kind=GrammarKind.JSON_SCHEMA, definition=SCHEMA, whitespace=" ?")
    assert vllm_guidance(grammar) == {"json": {"type": "object"}, "whitespace_pattern": " ?"}
