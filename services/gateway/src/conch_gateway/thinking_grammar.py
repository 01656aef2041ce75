"""A constraint on an answer that begins inside the thinking: it holds from the end of the thinking on; pure.

Without this an engine would have to write the constrained text where the model is about to think.
"""

import json
from typing import assert_never

from conch_contracts.grammar import Grammar, GrammarKind
from conch_contracts.parsing import ThinkingMarks
from conch_gateway.tool_grammar import Format, structural
from conch_kit.errors import InvalidRequest


def behind_thinking(grammar: Grammar, marks: ThinkingMarks) -> Grammar:
    """Return a grammar of any thinking, its end, and then what the given one wants; raises InvalidRequest."""
    parts: list[Format] = [
        {"type": "any_text"},
        {"type": "const_string", "value": marks.end},
        {"type": "regex", "pattern": r"\n{0,2}"},
        _format(grammar),
    ]
    whole = structural({"type": "sequence", "elements": parts})
    return whole.model_copy(update={"whitespace": grammar.whitespace})


def _format(grammar: Grammar) -> Format:
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return {"type": "json_schema", "json_schema": json.loads(grammar.definition)}
        case GrammarKind.JSON_OBJECT:
            return {"type": "json_schema", "json_schema": {"type": "object"}}
        case GrammarKind.REGEX:
            return {"type": "regex", "pattern": grammar.definition}
        case GrammarKind.CHOICE:
            texts = json.loads(grammar.definition)
            return {"type": "or", "elements": [{"type": "const_string", "value": text} for text in texts]}
        case GrammarKind.STRUCTURAL_TAG:
            return _tags(json.loads(grammar.definition))
        case GrammarKind.GRAMMAR:
            raise InvalidRequest(
                "This prompt makes the model think first, and a free grammar cannot begin behind its thinking; switch "
                "the thinking off with 'reasoning_effort': 'none'.",
                param="reasoning_effort",
                code="unsupported_parameter",
            )
        case _:
            assert_never(grammar.kind)


def _tags(definition: dict[str, object]) -> Format:
    """Return a structural tag's format, whichever of the two notations it has."""
    written = definition.get("format")
    if isinstance(written, dict):
        return written
    structures = definition.get("structures")
    tags = [
        {
            "type": "tag",
            "begin": one["begin"],
            "content": {"type": "json_schema", "json_schema": one["schema"]},
            "end": one["end"],
        }
        for one in (structures if isinstance(structures, list) else ())
    ]
    return {"type": "triggered_tags", "triggers": definition.get("triggers"), "tags": tags}
