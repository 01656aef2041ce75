"""The same model with the habits of each server whose clients it may have."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from testkit.http.json_post import Answered, post, read_raw
from testkit.http.openai_schemas import frames
from testkit.processes.conch_up import EXAMPLE, ConchUp

MODEL = """\
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: {name}}}
spec:
  kind: LLM
  default: {default}
  source: {{path: {folder}}}
  engine: {{cpu: {{}}}}
  {habit}
  generation: {{temperature: "0", fillIn: "<tool_call>{{prefix}}<tool_response>{{suffix}}</tool_response>"}}
"""
HELLO = [{"role": "user", "content": "Hello!"}]
PROFILES = ("openai", "denglin", "fastdeploy")
HABITS = {profile: f"compatProfile: {profile}" for profile in PROFILES} | {
    usage: f"streamUsage: {usage}" for usage in ("always", "final-chunk")
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Conch that serves one model with each habit; the one with FastDeploy's profile is the default."""
    folder = tmp_path_factory.mktemp("profiles")
    file = folder / "models.yaml"
    model = EXAMPLE.parent / "tiny-chat"
    file.write_text(
        "---\n".join(
            MODEL.format(name=name, habit=habit, folder=model, default=str(name == "fastdeploy").lower())
            for name, habit in HABITS.items()
        )
    )
    with ConchUp(folder / "state", file) as running:
        yield running.base_url


def chat(served: str, model: str, **fields: Any) -> Answered:
    return post(f"{served}/chat/completions", {"model": model, "messages": HELLO, **fields})


def stream(served: str, model: str, path: str = "chat/completions", **fields: Any) -> list[Any]:
    prompt = {"messages": HELLO} if path.startswith("chat") else {"prompt": "Once upon", "max_tokens": 4}
    return list(frames(read_raw(f"{served}/{path}", {"model": model, "stream": True, **prompt, **fields})))


def test_every_profile_says_the_same(served: str) -> None:
    texts = {chat(served, profile).body["choices"][0]["message"]["content"] for profile in PROFILES}
    assert len(texts) == 1


def test_an_answer_in_openais_way(served: str) -> None:
    answer = chat(served, "openai").body
    assert answer["id"].startswith("chatcmpl-")
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["choices"][0]["stop_reason"] is None
    seen = stream(served, "openai")
    assert not any("usage" in frame for frame in seen)
    assert not any("arrival_time" in choice for frame in seen for choice in frame["choices"])


def test_an_answer_in_denglins_way(served: str) -> None:
    answer = chat(served, "denglin").body
    assert answer["id"].startswith("cmpl-")
    assert answer["choices"][0]["message"]["role"] == "user"
    assert answer["choices"][0]["stop_reason"] == "stop"
    seen = stream(served, "denglin")
    assert seen[0]["choices"][0]["delta"]["role"] == "user"
    assert seen[-1]["choices"][0]["finish_reason"] == "stop"
    assert seen[-1]["usage"].items() <= answer["usage"].items()
    both = stream(served, "denglin", stream_options={"include_usage": True})
    assert (both[-1]["choices"], both[-1]["usage"]) == ([], answer["usage"])
    assert both[-2]["usage"].items() <= answer["usage"].items()


def test_a_completion_in_denglins_way_ends_twice(served: str) -> None:
    *_, text, last = stream(served, "denglin", "completions")
    assert text["choices"][0]["text"]
    assert text["choices"][0]["finish_reason"] == last["choices"][0]["finish_reason"] == "length"
    assert (last["choices"][0]["text"], last["usage"]["completion_tokens"]) == ("", 4)


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_a_deployment_may_tell_the_usage_of_every_stream(served: str, path: str) -> None:
    asked, always, final = (
        stream(served, name, path, **options)
        for name, options in (
            ("openai", {"stream_options": {"include_usage": True}}),
            ("always", {}),
            ("final-chunk", {}),
        )
    )
    assert (asked[-1]["choices"], always[-1]["choices"]) == ([], [])
    assert asked[-1]["usage"] == always[-1]["usage"] == final[-1]["usage"]
    assert final[-1]["choices"][0]["finish_reason"]
    assert not any(frame.get("usage") for frame in [*always[:-1], *final[:-1]])


def test_an_answer_in_fastdeploys_way(served: str) -> None:
    choices = [choice for frame in stream(served, "fastdeploy") for choice in frame["choices"]]
    arrivals = [choice["arrival_time"] for choice in choices]
    assert arrivals == sorted(arrivals)
    unasked = {"reasoning_content", "prompt_token_ids", "completion_token_ids"}
    assert all(unasked <= choice["delta"].keys() for choice in choices)
    plain = [choice for frame in stream(served, "openai") for choice in frame["choices"]]
    assert all(unasked.isdisjoint(choice["delta"]) for choice in plain)
    anyone = chat(served, "whatever this is")
    assert (anyone.status, anyone.body["model"]) == (200, "fastdeploy")


def test_the_thinking_of_a_text_stands_beside_it_in_fastdeploys_way(served: str) -> None:
    question = {"messages": [{"role": "user", "content": "What is 5 + 6?"}], "temperature": 0}
    thought = chat(served, "fastdeploy", **question, metadata={"enable_thinking": True}).body["choices"][0]["message"]
    assert "11" in thought["reasoning_content"]
    told = {"enable_thinking": True}
    tokens = post(f"{served}/tokenize", {"model": "fastdeploy", **question, "chat_template_kwargs": told}).body[
        "tokens"
    ]
    asked = {"prompt": tokens, "max_tokens": 64, "temperature": 0}
    whole = {
        name: post(f"{served}/completions", {"model": name, **asked}).body["choices"][0]
        for name in ("openai", "fastdeploy")
    }
    parts = [whole["fastdeploy"][name] for name in ("reasoning_content", "text")]
    assert parts == [thought[name] for name in ("reasoning_content", "content")]
    assert whole["openai"]["reasoning_content"] is None
    assert all(part in whole["openai"]["text"] for part in parts)
    choices = [choice for frame in stream(served, "fastdeploy", "completions", **asked) for choice in frame["choices"]]
    assert ["".join(choice[name] for choice in choices) for name in ("reasoning_content", "text")] == parts


def test_a_top_p_of_0_is_greedy_in_fastdeploys_way_alone(served: str) -> None:
    drawn = {"temperature": 2, "top_p": 0}
    greedy = chat(served, "fastdeploy", temperature=0).body["choices"][0]["message"]
    assert chat(served, "fastdeploy", **drawn).body["choices"][0]["message"] == greedy
    for profile in ("openai", "denglin"):
        refused = chat(served, profile, **drawn)
        assert (refused.status, refused.body["error"]["param"]) == (400, "top_p")


def test_who_owns_a_model_depends_on_the_profile(served: str) -> None:
    owners = {name: model_of(served, name)["owned_by"] for name in PROFILES}
    assert owners == {"openai": "conch", "denglin": "openai_api", "fastdeploy": "conch"}


def model_of(served: str, name: str) -> Any:
    with urlopen(f"{served}/models/{name}", timeout=60) as answer:
        return json.load(answer)


def test_a_model_that_fills_in_takes_a_suffix(served: str) -> None:
    body = {"model": "openai", "prompt": "def f(", "suffix": "return x", "max_tokens": 4, "echo": True}
    answer = post(f"{served}/completions", body)
    filled = "<tool_call>def f(<tool_response>return x</tool_response>"
    assert answer.body["choices"][0]["text"].startswith(filled)
    tokens = post(f"{served}/tokenize", {"model": "openai", "prompt": filled}).body["tokens"]
    assert answer.body["usage"]["prompt_tokens"] == len(tokens)


def test_the_deployments_own_defaults_are_used(served: str) -> None:
    assert chat(served, "openai").body["choices"] == chat(served, "openai").body["choices"]
