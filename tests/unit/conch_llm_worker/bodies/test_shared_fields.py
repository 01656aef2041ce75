"""What whole answers show beside their text when a request asks for it."""

import json
from typing import Any

import pytest

from conch_contracts.messages.generation import Api, Details, Usage
from conch_contracts.records import Profile
from conch_llm_worker.bodies.complete_body import ChoiceBody, complete_body
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate, TokenEntry
from testkit.builders.generate_requests import generate_request
from testkit.models.vocabularies import byte_level

PROMPT = [TokenEntry(0, 0x61, None, (), ()), TokenEntry(1, 0x62, -2.0, (0x63, 0x62), (-0.5, -2.0))]
UPDATES = (ChoiceUpdate("he", ids=[0x68, 0x65], tokens=2), ChoiceUpdate("", (), ChoiceFinish("stop"), tokens=1))
BOTH = (Api.CHAT, Api.COMPLETION)


def body(*updates: ChoiceUpdate, api: Api = Api.CHAT, **details: Any) -> Any:
    request, choice = generate_request(api=api, details=Details(**details)), ChoiceBody()
    for update in updates:
        choice.add(update)
    return json.loads(complete_body(request, [choice], Usage(prompt_tokens=3, completion_tokens=3), byte_level()))


def test_the_prompts_log_probabilities_are_told_by_id() -> None:
    last = {
        "99": {"logprob": -0.5, "rank": 1, "decoded_token": "c"},
        "98": {"logprob": -2.0, "rank": 2, "decoded_token": "b"},
    }
    updates = (ChoiceUpdate("", prompt=PROMPT), *UPDATES)
    chat = body(*updates, prompt_logprobs=2)
    assert chat["prompt_logprobs"] == chat["choices"][0]["prompt_logprobs"] == [None, last]
    completion = body(*updates, api=Api.COMPLETION, prompt_logprobs=2)
    assert completion["choices"][0]["prompt_logprobs"] == [None, last]


@pytest.mark.parametrize("rank", [None, 17])
def test_a_prompts_token_beyond_the_alternatives_has_the_rank_that_the_engine_tells(rank: int | None) -> None:
    entry = TokenEntry(1, 0x62, -2.0, (), (), rank)
    (found,) = body(ChoiceUpdate("", prompt=[entry]), prompt_logprobs=0)["prompt_logprobs"]
    assert found == {"98": {"logprob": -2.0, "rank": rank, "decoded_token": "b"}}


@pytest.mark.parametrize("api", BOTH)
def test_what_engines_are_told_of_each_other_comes_back(api: Api) -> None:
    told = {"do_remote_prefill": True, "remote_block_ids": [1, 2**64]}
    assert body(*UPDATES, api=api, kv_transfer=told)["kv_transfer_params"] == told
    assert body(*UPDATES, api=api)["kv_transfer_params"] is None


@pytest.mark.parametrize(
    ("finish", "stop_reason"),
    [(ChoiceFinish("stop"), "stop"), (ChoiceFinish("stop", "x"), "x"), (ChoiceFinish("length"), None)],
)
def test_a_natural_end_has_a_stop_reason_in_the_denglin_profile(finish: ChoiceFinish, stop_reason: str | None) -> None:
    answer = body(ChoiceUpdate("a", (), finish), profile=Profile.DENGLIN)
    assert answer["choices"][0]["stop_reason"] == stop_reason
