"""Prompts of so many ids that nobody needs to look at each of them."""

from typing import Any

import orjson
import pytest

from conch_gateway.generation.endpoints import CHAT, COMPLETIONS
from conch_gateway.requests import prompt_length
from conch_gateway.requests.prompt_length import MANY
from conch_kit.errors import InvalidRequest, ModelNotFound
from conch_kit.registry.snapshot import Snapshot
from testkit.gateway.fakes import route, snapshot

LONG = [5] * (MANY + 1)
KNOWN = snapshot(route(max_model_len=MANY))
SPACIOUS = snapshot(route(max_model_len=MANY + 1))


def check(param: str, known: Snapshot = KNOWN, **fields: Any) -> None:
    prompt_length.check_number({"model": "tiny-chat", **fields}, param, known)


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("prompt", {"prompt": LONG}),
        ("prompt", {"prompt": [[5], LONG]}),
        ("messages", {"messages": LONG}),
    ],
)
def test_a_prompt_of_too_many_ids_is_refused(param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=f"your {param} resulted in {MANY + 1} tokens") as caught:
        check(param, **fields)
    assert (caught.value.param, caught.value.code) == (param, "context_length_exceeded")


@pytest.mark.parametrize("param", ["prompt", "messages"])
def test_a_prompt_is_named_as_the_client_names_it(param: str) -> None:
    with pytest.raises(InvalidRequest, match="Please reduce the length of the prompt_token_ids") as caught:
        check(param, prompt_token_ids=LONG, model=None)
    assert caught.value.param == "prompt_token_ids"


def test_several_prompts_are_many_together() -> None:
    several = [[5] * 60] * (MANY // 60)
    narrow = snapshot(route(max_model_len=60))
    check("prompt", narrow, prompt=[*several, [5] * 30])
    with pytest.raises(InvalidRequest, match="your prompt resulted in 62 tokens"):
        check("prompt", narrow, prompt=[*several, [5] * 61, [5] * 62])


@pytest.mark.parametrize(
    ("param", "known", "fields"),
    [
        ("prompt", SPACIOUS, {"prompt": LONG}),
        ("prompt", KNOWN, {"prompt": LONG[1:]}),
        ("prompt", KNOWN, {"prompt": LONG, "prompt_token_ids": [5]}),
        ("prompt", KNOWN, {"prompt": LONG, "truncate_prompt_tokens": 3}),
        ("prompt", KNOWN, {"prompt": ["a"] * len(LONG)}),
        ("prompt", KNOWN, {"prompt": [True] * len(LONG)}),
        ("prompt", KNOWN, {"prompt": "a" * len(LONG)}),
        ("prompt", KNOWN, {"prompt": [], "model": "nobody"}),
        ("messages", KNOWN, {"messages": [{"role": "user"}] * len(LONG)}),
        ("messages", KNOWN, {"messages": LONG, "model": 3}),
    ],
)
def test_everything_else_is_left_to_be_validated(param: str, known: Snapshot, fields: dict[str, Any]) -> None:
    check(param, known, **fields)


def test_a_model_that_there_is_not_has_no_length() -> None:
    with pytest.raises(ModelNotFound):
        check("prompt", prompt=LONG, model="nobody")


@pytest.mark.parametrize(
    ("endpoint", "param"),
    [(CHAT, "messages"), (COMPLETIONS, "prompt"), (CHAT, "prompt_token_ids"), (COMPLETIONS, "prompt_token_ids")],
)
@pytest.mark.parametrize("ids", [[*LONG, "no id"], [5] * MANY])
def test_whether_the_ids_are_looked_at_or_not_the_answer_is_the_same(endpoint: Any, param: str, ids: list[Any]) -> None:
    """Those of the second prompt are, as it might have room without an answer."""
    with pytest.raises(InvalidRequest) as caught:
        endpoint.resolve(orjson.dumps({param: ids}), KNOWN)
    assert caught.value.message == (
        f"This model's maximum context length is {MANY} tokens. However, your {param} resulted in {len(ids)} tokens. "
        f"Please reduce the length of the {param}."
    )
