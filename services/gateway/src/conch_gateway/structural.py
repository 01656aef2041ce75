"""Constraints on an answer as parts of a larger one, in xgrammar's notation of structural tags; pure.

An answer that begins inside the thinking is constrained from the end of the thinking on, and one that may call tools
instead of obeying a constraint may do either.
"""

import json
from typing import assert_never

from conch_contracts.grammar import Grammar, GrammarKind
from conch_contracts.parsing import ThinkingMarks

Format = dict[str, object]


def structural(written: Format, whitespace: str | None = None) -> Grammar:
    """Return a format as a grammar."""
    definition = json.dumps({"type": "structural_tag", "format": written})
    return Grammar(kind=GrammarKind.STRUCTURAL_TAG, definition=definition, whitespace=whitespace)


def fixed(text: str) -> Format:
    """Return the format of one text."""
    return {"type": "const_string", "value": text}


def either(*formats: Format) -> Format:
    """Return the format of any of these."""
    return {"type": "or", "elements": list(formats)}


def behind_thinking(written: Format, marks: ThinkingMarks) -> Format:
    """Return the format of any thinking, its end, and then what the given one wants."""
    line_breaks = {"type": "regex", "pattern": r"\n{0,2}"}
    return {"type": "sequence", "elements": [{"type": "any_text"}, fixed(marks.end), line_breaks, written]}


def format_of(grammar: Grammar) -> Format | None:
    """Return a grammar as a format; None for one that has a notation of its own."""
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return {"type": "json_schema", "json_schema": json.loads(grammar.definition)}
        case GrammarKind.JSON_OBJECT:
            return {"type": "json_schema", "json_schema": {"type": "object"}}
        case GrammarKind.REGEX:
            return {"type": "regex", "pattern": grammar.definition}
        case GrammarKind.CHOICE:
            return either(*map(fixed, json.loads(grammar.definition)))
        case GrammarKind.STRUCTURAL_TAG:
            return _tags(json.loads(grammar.definition))
        case GrammarKind.GRAMMAR:
            return None
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
