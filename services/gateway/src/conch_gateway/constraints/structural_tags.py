"""Constraints on an answer as parts of a larger one, in xgrammar's notation of structural tags; pure.

An answer that begins inside the thinking is constrained from the end of the thinking on, and one that may call tools
instead of obeying a constraint may do either.
"""

import json
import re
from collections.abc import Sequence
from typing import assert_never

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.thinking_marks import ThinkingMarks

Format = dict[str, object]
ANY_TEXT: Format = {"type": "any_text"}

_BEFORE_MARKS = re.compile(r"(?<=[<\[◁])(?=.)", re.DOTALL)
"""Behind the first character of what may be a special token, which in one piece would stand for the token."""


def structural(written: Format, whitespace: str | None = None) -> Grammar:
    """Return a format as a grammar."""
    definition = json.dumps({"type": "structural_tag", "format": written})
    return Grammar(kind=GrammarKind.STRUCTURAL_TAG, definition=definition, whitespace=whitespace)


def fixed(text: str) -> Format:
    """Return the format of one text."""
    return {"type": "const_string", "value": text}


def spelled(text: str) -> Format:
    """Return the format of one text that is no more than text: where it spells a special token, none is meant."""
    pieces = _BEFORE_MARKS.split(text)
    return fixed(text) if len(pieces) == 1 else in_order(*map(fixed, pieces))


def matching(pattern: str) -> Format:
    """Return the format of what a regular expression matches."""
    return {"type": "regex", "pattern": pattern}


def obeying(schema: object) -> Format:
    """Return the format of JSON that obeys a schema."""
    return {"type": "json_schema", "json_schema": schema}


def tag(begin: str, content: Format, end: str) -> Format:
    """Return the format of something between a begin and an end."""
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def in_order(*formats: Format) -> Format:
    """Return the format of one after the other."""
    return {"type": "sequence", "elements": list(formats)}


def separated(tags: Sequence[Format], separator: str, *, only_one: bool) -> Format:
    """Return the format of one of these tags or, unless there may be only one, of several."""
    return {
        "type": "tags_with_separator",
        "tags": list(tags),
        "separator": separator,
        "at_least_one": True,
        "stop_after_first": only_one,
    }


def perhaps(one: Format) -> Format:
    """Return the format of a tag that may be left out."""
    return {**separated([one], "\n", only_one=True), "at_least_one": False}


def text_with(tags: Sequence[Format], *triggers: str, only_one: bool) -> Format:
    """Return the format of text in which each trigger begins one of these tags."""
    return {"type": "triggered_tags", "triggers": list(triggers), "tags": list(tags), "stop_after_first": only_one}


def either(*formats: Format) -> Format:
    """Return the format of any of these."""
    return {"type": "or", "elements": list(formats)}


def behind_thinking(written: Format, marks: ThinkingMarks) -> Format:
    """Return the format of any thinking, its end, and then what the given one wants.

    The thinking is a tag without a begin: xgrammar takes any text only at the end of a sequence, or in a tag.
    """
    return in_order(tag("", ANY_TEXT, marks.end), matching(r"\n{0,2}"), written)


def perhaps_behind_thinking(written: Format, marks: ThinkingMarks) -> Format:
    """Return the format of an answer that may think first: one that does says so with the mark, if that is needed."""
    thinking = in_order(fixed(marks.start), behind_thinking(written, marks))
    return either(thinking, behind_thinking(written, marks) if marks.implied else written)


def format_of(grammar: Grammar) -> Format | None:
    """Return a grammar as a format; None for one that has a notation of its own."""
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return obeying(json.loads(grammar.definition))
        case GrammarKind.JSON_OBJECT:
            return obeying({"type": "object"})
        case GrammarKind.REGEX:
            return matching(grammar.definition)
        case GrammarKind.CHOICE:
            return either(*map(spelled, json.loads(grammar.definition)))
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
        tag(one["begin"], obeying(one["schema"]), one["end"])
        for one in (structures if isinstance(structures, list) else ())
    ]
    return {"type": "triggered_tags", "triggers": definition.get("triggers"), "tags": tags}
