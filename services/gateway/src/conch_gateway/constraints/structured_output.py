"""From the ways of saying what an answer must look like to the one `Grammar` that engines know; pure.

Whether the grammar itself can be obeyed is for the tokenizer service to say: see `generation/grammar_check.py`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.messages.message import changed
from conch_contracts.openai.structured_output import (
    JsonDocument,
    JsonObjectFormat,
    JsonSchemaFormat,
    StructuralTagFormat,
    StructuredFields,
    StructuredOutputs,
)
from conch_gateway.constraints import closed_schemas
from conch_gateway.errors.bad_request import invalid
from conch_gateway.errors.nesting import check_depth, too_deep

BACKENDS = frozenset({"auto", "guidance", "llguidance", "lm-format-enforcer", "outlines", "xgrammar"})
"""vLLM's names for engines of grammars; all are served by the one that the model's engine has."""

_LARK_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|/(?:\\.|[^/\\])+/|(?://|#).*|(?P<id><\[)')
_JSON_KINDS = (GrammarKind.JSON_SCHEMA, GrammarKind.JSON_OBJECT)


@dataclass(frozen=True, slots=True)
class Constraint:
    """What an answer must look like, and the parameter that says so."""

    param: str
    grammar: Grammar
    may_think: bool = False
    """Whether the model may write its thinking before it, although the prompt has not begun any."""


def constraint_of(request: StructuredFields) -> Constraint | None:
    """Return what the request's answer must look like; raises InvalidRequest."""
    _check_backend(request.guided_decoding_backend)
    asked = list(_asked(request))
    if len(asked) > 1:
        params = " and ".join(f"'{one.param}'" for one in asked[:2])
        raise invalid(asked[1].param, f"{params} cannot be together: an answer has one form")
    constraint = asked[0] if asked else None
    if request.guided_whitespace_pattern is not None:
        return _with_whitespace(constraint, request.guided_whitespace_pattern, "guided_whitespace_pattern")
    return constraint


def _asked(request: StructuredFields) -> Iterator[Constraint]:
    match request.response_format:
        case JsonObjectFormat():
            yield Constraint("response_format", Grammar(kind=GrammarKind.JSON_OBJECT, definition=""))
        case JsonSchemaFormat(json_schema=named):
            yield _schema("response_format.json_schema.schema", named.document, closed=True)
        case StructuralTagFormat() as tag:
            yield _tag("response_format", tag.model_dump(exclude_none=True))
    if request.structured_outputs is not None:
        yield _structured_outputs(request.structured_outputs)
    if request.structural_tag is not None:
        yield _tag("structural_tag", request.structural_tag)
    if request.guided_json is not None:
        yield _schema("guided_json", request.guided_json)
    if request.guided_regex is not None:
        yield Constraint("guided_regex", Grammar(kind=GrammarKind.REGEX, definition=request.guided_regex))
    if request.guided_choice is not None:
        yield _choice("guided_choice", request.guided_choice)
    if request.guided_grammar is not None:
        yield _grammar("guided_grammar", request.guided_grammar)


def _structured_outputs(outputs: StructuredOutputs) -> Constraint:
    constraints = list(_in_structured_outputs(outputs))
    if len(constraints) != 1:
        found = ", ".join(one.param.rpartition(".")[2] for one in constraints) or "none"
        raise invalid(
            "structured_outputs",
            f"expected one of json, regex, choice, grammar, json_object and structural_tag, found {found}",
        )
    (constraint,) = constraints
    if outputs.disable_any_whitespace:
        return _with_whitespace(constraint, "", "structured_outputs.disable_any_whitespace")
    if outputs.whitespace_pattern is not None:
        return _with_whitespace(constraint, outputs.whitespace_pattern, "structured_outputs.whitespace_pattern")
    return constraint


def _in_structured_outputs(outputs: StructuredOutputs) -> Iterator[Constraint]:
    if outputs.json_ is not None:
        yield _schema("structured_outputs.json", outputs.json_, closed=bool(outputs.disable_additional_properties))
    if outputs.regex is not None:
        yield Constraint("structured_outputs.regex", Grammar(kind=GrammarKind.REGEX, definition=outputs.regex))
    if outputs.choice is not None:
        yield _choice("structured_outputs.choice", outputs.choice)
    if outputs.grammar is not None:
        yield _grammar("structured_outputs.grammar", outputs.grammar)
    if outputs.json_object:
        yield Constraint("structured_outputs.json_object", Grammar(kind=GrammarKind.JSON_OBJECT, definition=""))
    if outputs.structural_tag is not None:
        yield _tag("structured_outputs.structural_tag", outputs.structural_tag)


def _schema(param: str, schema: JsonDocument | str, *, closed: bool = False) -> Constraint:
    document = _object(param, schema)
    definition = json.dumps(closed_schemas.closed(document) if closed else document, ensure_ascii=False)
    return Constraint(param, Grammar(kind=GrammarKind.JSON_SCHEMA, definition=definition))


def _tag(param: str, tag: JsonDocument | str) -> Constraint:
    definition = json.dumps(_object(param, tag), ensure_ascii=False)
    return Constraint(param, Grammar(kind=GrammarKind.STRUCTURAL_TAG, definition=definition))


def _choice(param: str, choices: list[str]) -> Constraint:
    definition = json.dumps(choices, ensure_ascii=False)
    return Constraint(param, Grammar(kind=GrammarKind.CHOICE, definition=definition))


def _grammar(param: str, text: str) -> Constraint:
    if any(found.group("id") for found in _LARK_TOKEN.finditer(text)):
        raise invalid(param, "token ids ('<[...]>') are not allowed in a grammar")
    return Constraint(param, Grammar(kind=GrammarKind.GRAMMAR, definition=text))


def _object(param: str, value: JsonDocument | str) -> JsonDocument:
    if not isinstance(value, str):
        return value
    try:
        document = json.loads(value)
    except RecursionError:
        raise too_deep(param) from None
    except ValueError:
        raise invalid(param, "expected JSON") from None
    check_depth(document, param)
    if not isinstance(document, dict):
        raise invalid(param, "expected a JSON object")
    return document


def _with_whitespace(constraint: Constraint | None, pattern: str, param: str) -> Constraint:
    if constraint is None or constraint.grammar.kind not in _JSON_KINDS:
        raise invalid(param, "it needs an answer in JSON")
    return Constraint(constraint.param, changed(constraint.grammar, whitespace=pattern))


def _check_backend(name: str | None) -> None:
    # vLLM lets options follow the name, such as `xgrammar:no-fallback`.
    if name is not None and name.partition(":")[0] not in BACKENDS:
        raise invalid("guided_decoding_backend", f"expected one of {', '.join(sorted(BACKENDS))}")
