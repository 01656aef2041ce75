"""Every kind of body and frame against the schemas that OpenAI publishes."""

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from testkit.http.openai_schemas import check, frames
from testkit.models.golden import load_golden

HELLO = [{"role": "user", "content": "Hello!"}]


def post(url: str, body: dict[str, Any]) -> tuple[int, bytes]:
    request = Request(url, data=json.dumps(body).encode(), headers={"content-type": "application/json"})
    try:
        with urlopen(request, timeout=120) as answer:
            return answer.status, answer.read()
    except HTTPError as refused:
        return refused.code, refused.read()


CHATS = [
    {"messages": HELLO},
    {"messages": HELLO, "n": 2, "logprobs": True, "top_logprobs": 3},
    {"messages": HELLO, "max_tokens": 3},
    {"messages": HELLO, "stop": "can", "user": "someone", "seed": 1},
    {"messages": HELLO, "return_token_ids": True, "service_tier": "auto", "request_id": "mine"},
    {"messages": HELLO, "logprobs": True, "return_tokens_as_token_ids": True, "max_tokens": 3},
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
    {"prompt": "Once upon a time", "return_token_ids": True, "max_streaming_response_tokens": 1},
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


@pytest.mark.parametrize("body", [body for body in COMPLETIONS if "echo" not in body])
def test_completion_frames_follow_the_schema(base_url: str, body: dict[str, Any]) -> None:
    request = {"model": "tiny-chat", **body, "stream": True}
    for options in ({}, {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}):
        for frame in frames(post(f"{base_url}/completions", request | options)[1]):
            for choice in frame["choices"]:
                # OpenAI sends null until a choice ends, which its schema does not foresee.
                choice["finish_reason"] = choice["finish_reason"] or "stop"
            check("CreateCompletionResponse", frame)


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
    with urlopen(f"{base_url}/models", timeout=60) as answer:
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
