"""Each way of saying what an answer must look like, as the one grammar; and what cannot be said."""

import json

import pytest

from conch_contracts.messages.grammar import GrammarKind
from conch_gateway.constraints.structured_output import constraint_of
from conch_gateway.requests import validation
from conch_kit.errors import InvalidRequest

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
CLOSED = {**SCHEMA, "additionalProperties": False}
TAG = {
    "type": "structural_tag",
    "structures": [{"begin": "<a>", "schema": {}, "end": "</a>"}],
    "triggers": ["<a>"],
}
TREE = {"type": "structural_tag", "format": {"type": "any_text"}}
LARK = 'start: "<[" | /<\\[/ // <[5]>'


def of(fields: dict[str, object]):
    chat = {"messages": [{"role": "user", "content": "x"}], **fields}
    return constraint_of(validation.chat(chat).request)


def named(schema: object, **fields: object) -> dict[str, object]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, **fields}}


@pytest.mark.parametrize(
    ("fields", "param", "kind", "definition"),
    [
        ({"response_format": {"type": "json_object"}}, "response_format", "json_object", ""),
        ({"response_format": named(SCHEMA)}, "response_format.json_schema.schema", "json_schema", CLOSED),
        ({"response_format": named(SCHEMA, strict=True, description="d")}, "response_format.json_schema.schema",
         "json_schema", CLOSED),
        ({"response_format": TAG}, "response_format", "structural_tag", TAG),
        ({"response_format": TREE}, "response_format", "structural_tag", TREE),
        ({"structural_tag": json.dumps(TAG)}, "structural_tag", "structural_tag", TAG),
        ({"guided_json": SCHEMA}, "guided_json", "json_schema", SCHEMA),
        ({"guided_json": json.dumps(SCHEMA)}, "guided_json", "json_schema", SCHEMA),
        ({"guided_regex": "a+", "guided_decoding_backend": "xgrammar:no-fallback"}, "guided_regex", "regex", "a+"),
        ({"guided_choice": ["é", "b"]}, "guided_choice", "choice", ["é", "b"]),
        ({"guided_grammar": LARK}, "guided_grammar", "grammar", LARK),
        ({"structured_outputs": {"json": SCHEMA}}, "structured_outputs.json", "json_schema", SCHEMA),
        ({"structured_outputs": {"json": SCHEMA, "disable_additional_properties": True}}, "structured_outputs.json",
         "json_schema", CLOSED),
        ({"structured_outputs": {"regex": "a"}}, "structured_outputs.regex", "regex", "a"),
        ({"structured_outputs": {"choice": ["a"]}}, "structured_outputs.choice", "choice", ["a"]),
        ({"structured_outputs": {"grammar": "x"}}, "structured_outputs.grammar", "grammar", "x"),
        ({"structured_outputs": {"json_object": True}}, "structured_outputs.json_object", "json_object", ""),
        ({"structured_outputs": {"structural_tag": json.dumps(TAG)}}, "structured_outputs.structural_tag",
         "structural_tag", TAG),
    ],
)  # fmt: skip
def test_every_way_ends_in_one_grammar(fields: dict, param: str, kind: str, definition: object) -> None:
    constraint = of(fields)
    assert (constraint.param, constraint.grammar.kind) == (param, GrammarKind(kind))
    found = constraint.grammar.definition
    assert (found if isinstance(definition, str) else json.loads(found)) == definition
    assert constraint.grammar.whitespace is None


@pytest.mark.parametrize(
    "fields",
    [{}, {"response_format": None}, {"response_format": {"type": "text"}}, {"guided_decoding_backend": "auto"},
     {"guided_json": None, "structured_outputs": None}],
)  # fmt: skip
def test_asking_for_nothing_costs_nothing(fields: dict) -> None:
    assert of(fields) is None


@pytest.mark.parametrize(
    ("fields", "whitespace"),
    [
        ({"guided_json": SCHEMA, "guided_whitespace_pattern": "[ ]*"}, "[ ]*"),
        ({"structured_outputs": {"json": SCHEMA, "whitespace_pattern": " "}}, " "),
        ({"structured_outputs": {"json_object": True, "disable_any_whitespace": True}}, ""),
    ],
)
def test_white_space_is_part_of_the_grammar(fields: dict, whitespace: str) -> None:
    assert of(fields).grammar.whitespace == whitespace


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"response_format": {}}, "response_format"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
         "response_format.json_schema.schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
         "response_format.json_schema.name"),
        ({"response_format": named(SCHEMA) | {"json_schema": {"name": "a b", "schema": {}}}},
         "response_format.json_schema.name"),
        ({"response_format": named([1])}, "response_format.json_schema.schema"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": "[1]"}, "guided_json"),
        ({"guided_json": 5}, "guided_json"),
        ({"guided_json": "[" * 100_000}, "guided_json"),
        ({"guided_regex": "a" * 1_000_000}, "guided_regex"),
        ({"guided_regex": ""}, "guided_regex"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": ["x"] * 5000}, "guided_choice"),
        ({"guided_choice": [1]}, "guided_choice.0"),
        ({"guided_grammar": "start: <[5]>"}, "guided_grammar"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"json_object": False}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
        ({"response_format": {"type": "json_object"}, "guided_json": {}}, "guided_json"),
        ({"structured_outputs": {"regex": "a"}, "guided_regex": "a"}, "guided_regex"),
        ({"guided_whitespace_pattern": " "}, "guided_whitespace_pattern"),
        ({"guided_regex": "a", "guided_whitespace_pattern": " "}, "guided_whitespace_pattern"),
        ({"guided_decoding_backend": "magic"}, "guided_decoding_backend"),
        ({"structural_tag": "nonsense"}, "structural_tag"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_names_its_parameter(fields: dict, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        of(fields)
    assert refused.value.param == param
    assert len(refused.value.message) < 400
