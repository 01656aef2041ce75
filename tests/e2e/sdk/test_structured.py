"""Structured answers through the SDK: every kind matches, streamed or not, and bad grammars harm nobody."""

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal

import jsonschema
import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel, Field

MESSAGES = [{"role": "user", "content": "Tell me about Paris."}]
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "size": {"enum": ["big", "small"]},
        "likes": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["city", "size", "likes"],
    "additionalProperties": False,
}
NODE = {
    "type": "object",
    "properties": {"v": {"enum": [1, 2]}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
    "required": ["v", "next"],
    "additionalProperties": False,
}
RECURSIVE = {"$ref": "#/$defs/node", "$defs": {"node": NODE}}
REGEX = r"[A-Z][a-z]{2,5} \d{3}-\d{4}"
LARK = """
start: greeting " " NAME ("!" | "?")
greeting: "hello" | "good " ("morning" | "night")
NAME: /[A-Z][a-z]{1,8}/
"""
EBNF = '''root ::= "<" word ">"
word ::= "one" | "two"'''
TAGS = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<n>", "content": {"type": "regex", "pattern": "[0-9]{2}"}, "end": "</n>"},
}
REFUSED_WITHIN_S = 2
CHAIN = "start: r0\n" + "\n".join(f"r{n}: r{n + 1}" for n in range(3_000)) + '\nr3000: "a"'


def named(schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}}}


def tool(parameters: dict[str, Any]) -> dict[str, Any]:
    function = {"name": "f", "parameters": parameters}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}


def wide(prefix: str) -> dict[str, Any]:
    return {"type": "object", "properties": {f"{prefix}{n}": {"type": "string"} for n in range(10)}}


def valid(schema: dict[str, Any]) -> Callable[[str], bool]:
    return lambda text: jsonschema.validate(json.loads(text), schema) is None


def matching(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


KINDS: dict[str, tuple[dict[str, Any], Callable[[str], bool]]] = {
    "response_format": (named(SCHEMA), valid(SCHEMA)),
    "guided_json": ({"guided_json": SCHEMA}, valid(SCHEMA)),
    "guided_json as text": ({"guided_json": json.dumps(SCHEMA)}, valid(SCHEMA)),
    "guided_regex": ({"guided_regex": REGEX}, matching(REGEX)),
    "guided_choice": ({"guided_choice": ["red", "green", "é😀"]}, matching("red|green|é😀")),
    "guided_grammar": ({"guided_grammar": LARK}, matching("(hello|good (morning|night)) [A-Z][a-z]{1,8}[!?]")),
    "guided_grammar in EBNF": ({"guided_grammar": EBNF}, matching("<(one|two)>")),
    "structural_tag": ({"structural_tag": json.dumps(TAGS)}, matching("<n>[0-9]{2}</n>")),
    "structural_tag as a format": ({"response_format": TAGS}, matching("<n>[0-9]{2}</n>")),
    "structured_outputs.json": ({"structured_outputs": {"json": SCHEMA}}, valid(SCHEMA)),
    "structured_outputs.regex": ({"structured_outputs": {"regex": REGEX}}, matching(REGEX)),
    "structured_outputs.choice": ({"structured_outputs": {"choice": ["a", "b"]}}, matching("a|b")),
    "structured_outputs.grammar": ({"structured_outputs": {"grammar": EBNF}}, matching("<(one|two)>")),
    "compact": ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}}, valid(SCHEMA)),
}


@pytest.fixture
def client(client: OpenAI) -> OpenAI:
    """Return a client that asks again: a machine that is busy with tests may answer that it is overloaded."""
    return client.with_options(max_retries=8)


def chat(client: OpenAI, body: dict[str, Any], **fields: Any) -> str:
    answer = client.chat.completions.create(
        model="tiny-chat", messages=MESSAGES, temperature=0.8, seed=11, max_tokens=150, extra_body=body, **fields
    )
    assert answer.choices[0].finish_reason == "stop"
    return answer.choices[0].message.content or ""


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_matches_and_streams_the_same(client: OpenAI, kind: str) -> None:
    body, matches = KINDS[kind]
    whole = chat(client, body)
    assert matches(whole), whole
    stream = client.chat.completions.create(
        model="tiny-chat", messages=MESSAGES, temperature=0.8, seed=11, max_tokens=150, extra_body=body, stream=True
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["stop"]


@pytest.mark.parametrize("kind", ["response_format", "guided_regex", "guided_choice", "guided_grammar"])
def test_a_text_completion_matches_too(client: OpenAI, kind: str) -> None:
    body, matches = KINDS[kind]
    answer = client.completions.create(
        model="tiny-chat", prompt=["One:", "Two:"], n=2, temperature=1, seed=5, max_tokens=150, extra_body=body
    )
    assert len(answer.choices) == 4
    assert [choice.text for choice in answer.choices if not matches(choice.text)] == []


def test_a_json_object_is_one(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny-chat",
        messages=MESSAGES,
        response_format={"type": "json_object"},
        temperature=0,
        max_tokens=8,
    )
    text = answer.choices[0].message.content or ""
    assert text.startswith("{")
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(text), dict)
    else:
        assert answer.choices[0].finish_reason == "length"  # nothing in this request bounds the object


def test_a_recursive_schema_works(client: OpenAI) -> None:
    jsonschema.validate(json.loads(chat(client, named(RECURSIVE))), RECURSIVE)


class Sight(BaseModel):
    name: str = Field(max_length=10)
    kind: Literal["tower", "museum"]


class City(BaseModel):
    sights: list[Sight] = Field(max_length=2)
    rating: Literal[1, 2, 3]
    note: Literal["good"] | None


def test_the_sdk_parses_a_pydantic_model(client: OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="tiny-chat", messages=MESSAGES, response_format=City, temperature=1, seed=2, max_tokens=200
    )
    assert isinstance(answer.choices[0].message.parsed, City)
    with client.chat.completions.stream(
        model="tiny-chat", messages=MESSAGES, response_format=City, temperature=1, seed=2, max_tokens=200
    ) as stream:
        parsed = stream.get_final_completion().choices[0].message.parsed
    assert parsed == answer.choices[0].message.parsed


def test_an_answer_that_is_cut_off_says_so(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny-chat", messages=MESSAGES, temperature=0, max_tokens=2, **named(SCHEMA)
    )
    assert answer.choices[0].finish_reason == "length"
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(
            model="tiny-chat", messages=MESSAGES, response_format=City, temperature=0, max_tokens=2
        )


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "reference to a URL": (named({"$ref": "http://169.254.169.254/"}), "response_format.json_schema.schema"),
    "reference to a file": ({"guided_json": {"$ref": "file:///etc/passwd"}}, "guided_json"),
    "deep": ({"guided_json": '{"items":' * 10_000 + "{}" + "}" * 10_000}, "guided_json"),
    "many values": ({"guided_json": {"enum": [str(n) for n in range(90_000)]}}, "guided_json"),
    "out of proportion": ({"guided_json": {"type": "array", "minItems": 10**9}}, "guided_json"),
    "unknown type": (named({"type": "strin"}), "response_format.json_schema.schema"),
    "unsupported keyword": (named({"not": {"type": "string"}}), "response_format.json_schema.schema"),
    "explosion": (
        named({"allOf": [{"anyOf": [{"properties": {f"p{i}{j}": {}}} for i in range(9)]} for j in range(9)]}),
        "response_format.json_schema.schema",
    ),
    "broken expression": ({"guided_regex": "["}, "guided_regex"),
    "ambiguous expression": ({"guided_regex": "(a+)+$"}, "guided_regex"),
    "more of it": ({"guided_regex": "(.*a){30}"}, "guided_regex"),
    "repetition": ({"guided_regex": "a{1,1000000}"}, "guided_regex"),
    "pattern": (named({"type": "string", "pattern": "(a+)+$"}), "response_format.json_schema.schema"),
    "left recursion": ({"guided_grammar": 'root ::= root "a" | "a"'}, "guided_grammar"),
    "back reference": ({"guided_regex": r"(a)\1"}, "guided_regex"),
    "look-behind": ({"guided_regex": "(?<=a)b"}, "guided_regex"),
    "long expression": ({"guided_regex": "a" * 1_000_000}, "guided_regex"),
    "no choices": ({"guided_choice": []}, "guided_choice"),
    "undefined rule": ({"guided_grammar": "start: missing"}, "guided_grammar"),
    "token ids": ({"guided_grammar": "start: <[5]>"}, "guided_grammar"),
    "endless rule": ({"guided_grammar": 'root ::= "a" root'}, "guided_grammar"),
    "endless rule of Lark": ({"guided_grammar": 'start: "a" start'}, "guided_grammar"),
    "repeated part": ({"guided_grammar": 'root ::= "a"{1000000}'}, "guided_grammar"),
    "endless schema": ({"guided_json": {"type": "array", "items": {"$ref": "#"}, "minItems": 1}}, "guided_json"),
    "endless arguments": (tool({"$ref": "#"}), "tools.0.function.parameters"),
    "too wide": (named({"anyOf": [wide(f"{n}_") for n in range(200)]}), "response_format.json_schema.schema"),
    "empty language": ({"structured_outputs": {"grammar": 'start: ""'}}, "structured_outputs.grammar"),
    "chain": ({"guided_grammar": CHAIN}, "guided_grammar"),
    "unknown format": ({"response_format": {"type": "yaml"}}, "response_format"),
    "two at once": ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
    "unknown backend": ({"guided_regex": "a", "guided_decoding_backend": "magic"}, "guided_decoding_backend"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_grammar_is_a_400_that_names_its_parameter(client: OpenAI, what: str) -> None:
    body, param = BAD[what]
    for _ in range(2):
        with pytest.raises(openai.BadRequestError) as refused:
            chat(client, body)
        code = "too_deep" if what == "deep" else "invalid_value"
        assert (refused.value.param, refused.value.code) == (param, code)
        assert refused.value.type == "invalid_request_error"
    assert chat(client, {"guided_choice": ["alive"]}) == "alive"


@pytest.mark.parametrize("what", BAD)
def test_a_bad_grammar_is_refused_within_two_seconds(client: OpenAI, what: str) -> None:
    body, param = BAD[what]
    assert any(_refusal_s(client, _varied(body, number), param) < REFUSED_WITHIN_S for number in range(1, 6))


def _refusal_s(client: OpenAI, body: dict[str, Any], param: str) -> float:
    began = time.perf_counter()
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, body)
    assert refused.value.param == param
    return time.perf_counter() - began


def _varied(body: dict[str, Any], number: int) -> dict[str, Any]:
    """Return something as bad that nobody has judged yet, as far as it is a grammar: verdicts are kept."""
    match body:
        case {"guided_regex": str(text)}:
            return {**body, "guided_regex": "x" * number + text}
        case {"guided_grammar": str(text)}:
            return {"guided_grammar": f"{text}\n{'#' if '::=' in text else '//'} {number}"}
        case {"guided_json": dict(schema)}:
            return {"guided_json": {**schema, "title": str(number)}}
        case {"response_format": {"json_schema": {"schema": dict(schema)}}}:
            return named({**schema, "title": str(number)})
        case {"tools": [{"function": {"parameters": dict(schema)}}]}:
            return tool({**schema, "title": str(number)})
    return body


def test_a_schema_that_is_not_there_is_missing(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, {"response_format": {"type": "json_schema"}})
    missing = ("response_format.json_schema", "missing_required_parameter")
    assert (refused.value.param, refused.value.code) == missing


@pytest.mark.parametrize("stream", [False, True])
def test_what_only_the_engine_finds_names_its_parameter_too(client: OpenAI, stream: bool) -> None:
    ask = partial(client.chat.completions.create, model="tiny-chat", messages=MESSAGES, max_tokens=5, stream=stream)
    with pytest.raises(openai.APIError) as refused:
        list(ask(extra_body={"guided_choice": ["yes"], "allowed_token_ids": [5]}))
    assert (refused.value.param, refused.value.code) == ("guided_choice", "invalid_value")


def test_streams_go_on_while_bad_grammars_come(client: OpenAI) -> None:
    def stream(seed: int) -> str:
        chunks = client.chat.completions.create(
            model="tiny-chat",
            messages=MESSAGES,
            seed=seed,
            max_tokens=200,
            extra_body={"ignore_eos": True},
            stream=True,
        )
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    alone = [stream(seed) for seed in range(8)]
    with ThreadPoolExecutor(12) as pool:
        streams = [pool.submit(stream, seed) for seed in range(8)]
        bombs = [pool.submit(chat, client, {"guided_grammar": f"{CHAIN} // {n}"}) for n in range(2)]
        forms = [pool.submit(chat, client, body) for body, _ in list(KINDS.values())[:4]]
        assert [one.result() for one in streams] == alone
        assert [type(bomb.exception()) for bomb in bombs] == [openai.BadRequestError] * 2
        assert all(matches(form.result()) for form, (_, matches) in zip(forms, KINDS.values(), strict=False))
