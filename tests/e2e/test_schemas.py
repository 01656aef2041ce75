"""Every kind of body and frame against the schemas that OpenAI publishes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from jsonschema import Draft202012Validator

from testkit.golden import load_golden


def _modern(schema: Any) -> Any:
    """Return a schema with OpenAPI 3.0's `nullable` written as JSON Schema understands it."""
    if isinstance(schema, list):
        return [_modern(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _modern(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [parts, {"type": "null"}]} if schema.get("nullable") is True else parts


PUBLISHED = _modern(json.loads((Path(__file__).parent / "schemas" / "openai.json").read_text()))
HELLO = [{"role": "user", "content": "Hello!"}]


def check(name: str, body: object) -> None:
    """Fail with every way in which a body departs from the published schema."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": PUBLISHED["components"]}
    errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(body)]
    assert errors == []


def post(url: str, body: dict[str, Any]) -> tuple[int, bytes]:
    request = Request(url, data=json.dumps(body).encode(), headers={"content-type": "application/json"})
    try:
        with urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except HTTPError as refused:
        return refused.code, refused.read()


def frames(stream: bytes) -> Iterator[dict[str, Any]]:
    """Yield the frames of a stream, which must consist of nothing else and end with [DONE]."""
    *parts, done, rest = stream.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    for part in parts:
        assert part.startswith("data: {")
        yield json.loads(part.removeprefix("data: "))


CHATS = [
    {"messages": HELLO},
    {"messages": HELLO, "n": 2, "logprobs": True, "top_logprobs": 3},
    {"messages": HELLO, "max_tokens": 3},
    {"messages": HELLO, "stop": "can", "user": "someone", "seed": 1},
]
GOLDEN = load_golden()
CHATS += [
    {"messages": item.messages, "tools": item.tools, "temperature": 0}
    for item in map(GOLDEN.named, ("tool", "tool-parallel", "tool-result", "tool-not-needed"))
]
CHATS += [
    {"messages": GOLDEN.named("think").messages, "reasoning_effort": "high", "temperature": 0},
    {
        "messages": GOLDEN.named("tool").messages,
        "tools": GOLDEN.named("tool").tools,
        "max_tokens": 20,
        "temperature": 0,
    },
]
COMPLETIONS = [
    {"prompt": "Once upon a time"},
    {"prompt": ["Once", "The"], "n": 2, "max_tokens": 4},
    {"prompt": "The capital of Italy is", "logprobs": 2, "echo": True},
]


@pytest.mark.parametrize("body", CHATS)
def test_a_chat_completion_follows_the_schema(base_url: str, body: dict[str, Any]) -> None:
    status, answer = post(f"{base_url}/chat/completions", {"model": "tiny-chat", **body})
    assert status == 200
    check("CreateChatCompletionResponse", json.loads(answer))


@pytest.mark.parametrize("usage", [False, True])
@pytest.mark.parametrize("body", CHATS)
def test_chat_frames_follow_the_schema(base_url: str, body: dict[str, Any], usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if usage else {}
    status, answer = post(f"{base_url}/chat/completions", {"model": "tiny-chat", **body, "stream": True, **options})
    assert status == 200
    seen = list(frames(answer))
    for frame in seen:
        check("CreateChatCompletionStreamResponse", frame)
    choices = [choice for frame in seen for choice in frame["choices"]]
    finished = [choice["index"] for choice in choices if choice["finish_reason"]]
    assert sorted(finished) == list(range(int(body.get("n", 1))))


# With echo the first token has no log probability: OpenAI sends null there, which its schema does not foresee.
@pytest.mark.parametrize(
    "body", [body for body in COMPLETIONS if "echo" not in body] + [{"prompt": "The", "logprobs": 2}]
)
def test_a_completion_follows_the_schema(base_url: str, body: dict[str, Any]) -> None:
    status, answer = post(f"{base_url}/completions", {"model": "tiny-chat", **body})
    assert status == 200
    check("CreateCompletionResponse", json.loads(answer))


@pytest.mark.parametrize("body", COMPLETIONS)
def test_joined_completion_frames_equal_the_whole_answer(base_url: str, body: dict[str, Any]) -> None:
    request = {"model": "tiny-chat", "temperature": 0, **body}
    whole = json.loads(post(f"{base_url}/completions", request)[1])
    texts = dict.fromkeys((choice["index"] for choice in whole["choices"]), "")
    for frame in frames(post(f"{base_url}/completions", {**request, "stream": True})[1]):
        for choice in frame["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == {choice["index"]: choice["text"] for choice in whole["choices"]}


def test_the_list_of_models_follows_the_schema(base_url: str) -> None:
    with urlopen(f"{base_url}/models", timeout=10) as answer:
        models = json.load(answer)
    check("ListModelsResponse", models)
    (model,) = [model for model in models["data"] if model["id"] == "tiny-chat"]
    assert len(model["permission"][0]) == 12
    assert model["max_model_len"] == 1024


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "nobody", "messages": HELLO}, 404),
        ({"model": "tiny-chat", "messages": HELLO, "temperature": 9}, 400),
        ({"model": "tiny-chat", "messages": []}, 400),
        ({"model": "tiny-chat"}, 400),
        ({"model": "tiny-chat", "messages": HELLO, "tools": [{"type": "function"}]}, 400),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_follows_the_schema(base_url: str, body: dict[str, Any], status: int, stream: bool) -> None:
    answered, answer = post(f"{base_url}/chat/completions", {**body, "stream": stream})
    assert answered == status
    check("ErrorResponse", json.loads(answer))
