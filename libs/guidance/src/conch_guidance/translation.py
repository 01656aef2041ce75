"""Each kind of grammar as llguidance writes it: Lark text, or JSON that holds a schema or Lark text. Pure."""

import json
from collections.abc import Mapping
from typing import assert_never

from llguidance import LLMatcher
from llguidance.gbnf_to_lark import any_to_lark

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_guidance.errors import UnusableGrammar
from conch_guidance.structural_tags import lark_of_tags

WHITESPACE = r" |\n {0,32}"
"""Between JSON tokens, where the client does not say: nothing, one space, or a line break with an indentation.

Small models would else fill an answer with white space, which every schema allows.
"""


def translated(grammar: Grammar, added_tokens: Mapping[str, int], *, lenient: bool = False) -> str:
    """Return the grammar in llguidance's notation; raises UnusableGrammar.

    `added_tokens` are those of the tokenizer that ordinary text cannot spell. `lenient` passes over what llguidance
    does not know of JSON Schema.
    """
    whitespace = WHITESPACE if grammar.whitespace is None else grammar.whitespace
    options: dict[str, object] = {"whitespace_pattern": whitespace, "lenient": lenient}
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return _schema(grammar.definition, options)
        case GrammarKind.JSON_OBJECT:
            return _schema('{"type":"object"}', options)
        case GrammarKind.REGEX:
            return LLMatcher.grammar_from_regex(grammar.definition)
        case GrammarKind.CHOICE:
            return "start: " + " | ".join(json.dumps(text, ensure_ascii=False) for text in _texts(grammar.definition))
        case GrammarKind.GRAMMAR:
            return _lark(grammar.definition)
        case GrammarKind.STRUCTURAL_TAG:
            return lark_of_tags(grammar.definition, added_tokens, options)
        case _:
            assert_never(grammar.kind)


def _schema(definition: str, options: Mapping[str, object]) -> str:
    schema = json.loads(definition)
    if not isinstance(schema, dict):
        raise UnusableGrammar("the schema must be an object")
    return json.dumps({"grammars": [{"json_schema": {**schema, "x-guidance": options}}]})


def _texts(definition: str) -> list[str]:
    texts = json.loads(definition)
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise UnusableGrammar("the choices must be a list of texts")
    return texts


def _lark(definition: str) -> str:
    try:
        return any_to_lark(definition)
    except RecursionError:
        raise UnusableGrammar("the grammar is nested too deeply") from None
    except Exception as exc:  # what the converter raises for a text that is no EBNF
        raise UnusableGrammar(str(exc)) from exc
