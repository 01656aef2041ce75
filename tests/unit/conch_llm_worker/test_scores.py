"""Log probabilities in whole answers: of the prompt, of more choices than come back, and without a token made."""

import json

import pytest

from conch_contracts.messages.generation import Api, Details
from conch_kit.errors import UpstreamError
from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects.token_deltas import Logprobs
from conch_llm_worker.generation.id_generation import prompt_entries
from testkit.builders.generate_requests import prompt, sampling, target
from testkit.engines.engine_messages import response
from testkit.engines.scripted_triton import Event
from testkit.engines.scripted_worker import Worker, ask


async def test_an_echo_of_no_tokens_needs_no_engine() -> None:
    worker = Worker()
    caller = await worker.call(ask(api=Api.COMPLETION, echo=True, stream=False, sampling=sampling(max_tokens=0)))
    choice = json.loads(caller.body)["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("abc", "length")
    assert worker.triton.requests == []


async def test_an_echo_of_no_tokens_with_log_probabilities_asks_for_the_prompts() -> None:
    message = response(
        final=True,
        token_ids=("INT32", [1], [104]),
        logprobs=("FP32", [1], [-1]),
        prompt_logprobs=("FP32", [3], [float("nan"), -1, -2]),
        finish_reason=("BYTES", [1], [b"length"]),
    )
    worker = Worker([message])
    request = ask(
        api=Api.COMPLETION,
        echo=True,
        logprobs=True,
        stream=False,
        prompts=(prompt(b"abc", "abc"),),
        sampling=sampling(max_tokens=0, logprobs=1),
    )
    caller = await worker.call(request)
    sent = json.loads(worker.triton.requests[0].raw_input_contents[1][4:])
    assert (sent["max_tokens"], sent["prompt_logprobs"]) == (1, 1)
    choice = json.loads(caller.body)["choices"][0]
    assert choice["text"] == "abc"
    assert choice["logprobs"]["token_logprobs"] == [None, -1.0, -2.0]
    assert choice["logprobs"]["text_offset"] == [0, 1, 2]
    assert json.loads(caller.headers["x-conch-usage"])["completion_tokens"] == 0


def scored(letter: int, logprob: float) -> list[Event]:
    """Return an engine's answer of one letter, which is so likely."""
    return [
        response(
            final=True,
            token_ids=("INT32", [1], [letter]),
            logprobs=("FP32", [1], [logprob]),
            finish_reason=("BYTES", [1], [b"length"]),
        )
    ]


async def test_of_more_choices_than_come_back_the_likeliest_do() -> None:
    worker = Worker(scored(97, -2.0), scored(98, -0.5), scored(99, -1.0), scored(100, -4.0), scored(101, -3.0))
    request = ask(n=2, best_of=5, stream=False, sampling=sampling(logprobs=0), target=target(slots=5))
    caller = await worker.call(request)
    choices = json.loads(caller.body)["choices"]
    assert [(choice["index"], choice["message"]["content"]) for choice in choices] == [(0, "b"), (1, "c")]
    assert choices[0]["logprobs"] is None
    assert json.loads(caller.headers["x-conch-usage"])["completion_tokens"] == 5


async def test_the_prompts_log_probabilities_come_without_an_echo() -> None:
    message = response(
        final=True,
        token_ids=("INT32", [1], [104]),
        prompt_logprobs=("FP32", [3], [float("nan"), -1, -2]),
        prompt_ranks=("INT32", [3], [0, 1, 1]),
        prompt_top_ids=("INT32", [3, 2], [-1, -1, 98, 97, 99, 97]),
        prompt_top_logprobs=("FP32", [3, 2], [float("nan"), float("nan"), -1, -3, -2, -4]),
        finish_reason=("BYTES", [1], [b"length"]),
    )
    request = ask(
        stream=False,
        prompts=(prompt(b"abc", "abc"),),
        details=Details(prompt_logprobs=1),
        sampling=sampling(prompt_logprobs=2),
    )
    answer = json.loads((await Worker([message]).call(request)).body)
    assert answer["choices"][0]["message"]["content"] == "h"
    assert [list(position or ()) for position in answer["prompt_logprobs"]] == [[], ["98"], ["99"]]


@pytest.mark.parametrize("found", [None, Logprobs((-1.0,), (), ()), Logprobs((-1.0,) * 4, (), ())])
def test_scores_that_do_not_fit_the_prompt_are_the_engines_fault(found: Logprobs | None) -> None:
    with pytest.raises(MalformedResponse):
        prompt_entries((1, 2, 3), found, 0)


async def test_a_prompt_can_be_scored_without_making_a_token() -> None:
    message = response(
        final=True,
        token_ids=("INT32", [1], [104]),
        prompt_logprobs=("FP32", [3], [float("nan"), -1, -2]),
        prompt_ranks=("INT32", [3], [0, 5, 7]),
        finish_reason=("BYTES", [1], [b"length"]),
    )
    request = ask(
        api=Api.COMPLETION,
        echo=True,
        stream=False,
        prompts=(prompt(b"abc", "abc"),),
        details=Details(prompt_logprobs=0),
        sampling=sampling(max_tokens=0, prompt_logprobs=0),
    )
    choice = json.loads((await Worker([message]).call(request)).body)["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("abc", "length")
    assert [
        entry and entry[id_]["rank"] for id_, entry in zip(("97", "98", "99"), choice["prompt_logprobs"], strict=True)
    ] == [
        None,
        5,
        7,
    ]


async def test_ranks_that_do_not_fit_the_prompt_are_the_engines_fault() -> None:
    message = response(
        final=True,
        token_ids=("INT32", [1], [104]),
        prompt_logprobs=("FP32", [3], [float("nan"), -1, -2]),
        prompt_ranks=("INT32", [2], [0, 5]),
        finish_reason=("BYTES", [1], [b"length"]),
    )
    request = ask(stream=False, details=Details(prompt_logprobs=0), sampling=sampling(prompt_logprobs=0))
    with pytest.raises(UpstreamError, match="cannot be read"):
        await Worker([message]).call(request)
