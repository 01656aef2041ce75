"""What is refused before anything is compiled: it would reach elsewhere, or ask for more than any answer has. Pure."""

import json
from collections.abc import Iterator

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_guidance.ebnf_inspection import inspect_ebnf
from conch_guidance.endless_schemas import inspect_json_schema
from conch_guidance.errors import UnusableGrammar
from conch_guidance.regex_inspection import inspect_regex

MAX_DEPTH = 100
MAX_COUNT = 100_000
MAX_VALUES = 10_000
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
MAX_BOUND = 2**63
"""llguidance holds numbers as doubles, and integers of 64 bits: a bound beyond would be kept as this one. A maximum may
be beyond, as that of an unsigned integer of 64 bits is: what is kept admits only numbers that the schema admits."""
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_MAXIMA = frozenset({"maximum", "exclusiveMaximum"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_VALUES = frozenset({"enum", "const", "default", "examples"})
_EMBEDDED = ("json_schema", "schema")
"""What a structural tag calls the schemas in it."""


def inspect(grammar: Grammar) -> None:
    """Look at a grammar as a text; raises UnusableGrammar."""
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            document = _parsed(grammar.definition)
            _inspect_members(document)
            if isinstance(document, dict):
                inspect_json_schema(document)
        case GrammarKind.STRUCTURAL_TAG:
            document = _parsed(grammar.definition)
            _inspect_members(document)
            for key, value in _members(document):
                if key in _EMBEDDED and isinstance(value, dict):
                    inspect_json_schema(value)
        case GrammarKind.REGEX:
            inspect_regex(grammar.definition)
        case GrammarKind.GRAMMAR:
            inspect_ebnf(grammar.definition)
    if grammar.whitespace is not None:
        inspect_regex(grammar.whitespace)


def _inspect_members(document: object) -> None:
    values = 0
    for key, value in _members(document):
        if key in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
            raise UnusableGrammar(f"{key} must stay within the schema and begin with '#'; found {value[:50]!r}")
        if key in _COUNTS and isinstance(value, int | float) and value > MAX_COUNT:
            raise UnusableGrammar(f"{key} must be at most {MAX_COUNT}; found {value}")
        if key in _BOUNDS and isinstance(value, int | float) and _is_beyond(key, value):
            raise UnusableGrammar(f"{key} must be between -{MAX_BOUND} and {MAX_BOUND}; found {value}")
        if key in ("const", "enum"):
            for integer in _integers(value):
                if abs(integer) > MAX_BOUND or float(integer) != integer:
                    raise UnusableGrammar(f"{key} must have integers that a double keeps exactly; found {integer}")
        if key == "pattern" and isinstance(value, str):
            inspect_regex(value)
        if key == "patternProperties" and isinstance(value, dict):
            for pattern in value:
                inspect_regex(pattern)
        if key == "enum" and isinstance(value, list):
            values += len(value)
    if values > MAX_VALUES:
        raise UnusableGrammar(f"all enums together must have at most {MAX_VALUES} values; found {values}")


def _is_beyond(key: str, value: float) -> bool:
    return value < -MAX_BOUND or (value > MAX_BOUND and key not in _MAXIMA)


def _integers(value: object) -> Iterator[int]:
    match value:
        case int():
            yield value
        case list():
            for item in value:
                yield from _integers(item)
        case dict():
            for item in value.values():
                yield from _integers(item)


def _parsed(definition: str) -> object:
    try:
        return json.loads(definition)
    except RecursionError:
        raise UnusableGrammar(f"it is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as exc:
        raise UnusableGrammar(f"it is not JSON: {exc}") from None


def _members(document: object) -> Iterator[tuple[str, object]]:
    """Yield every member of every object that is a schema or holds one."""
    level = [document]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                yield from value.items()
                below += [inner for key, inner in value.items() if key not in _VALUES or isinstance(inner, dict)]
            elif isinstance(value, list):
                below += value
        level = below
        if not level:
            return
    raise UnusableGrammar(f"it is nested deeper than {MAX_DEPTH} levels")
