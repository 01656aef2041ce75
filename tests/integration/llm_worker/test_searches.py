"""Beam search through the real process and the real server, with the models that have it and those that have not."""

from typing import Any

import aiohttp
import pytest

from conch_contracts.messages.generation import PreparedPrompt
from testkit.engines.dialect_stand_ins import StandIn
from testkit.models.vocabularies import BYTE_EOS

from .asking import FORMS, ask, said
from .conftest import Stage

MODELS = {one.name: one for one in FORMS}
SEARCHING = ("fastertransformer", "tensorrtllm", "trt-unary", "trt-unary-old")

searching = pytest.mark.parametrize("model", [MODELS[name] for name in SEARCHING], ids=lambda one: one.name)


@searching
async def test_the_beams_of_a_search_are_choices(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    text = "zwölf 🥊 ja"
    prompt = PreparedPrompt(ids=tuple(text.encode()), text=text)
    asked = {"beams": 3, "length_penalty": 1.5, "temperature": 0.5, "seed": 4, "top_p": 0.5}
    request = ask(engines, model, prompt, n=2, best_of=3, stream=False, logprobs=True, sampling=asked)
    reply = await engines.worker.ask(session, request)
    assert [reply.text(index) for index in range(2)] == [text[turn:] + text[:turn] for turn in (0, 1)]
    assert reply.finishes == [("stop", None)] * 2
    content = reply.json["choices"][1]["logprobs"]["content"]
    made = (*(text[1:] + text[0]).encode(), BYTE_EOS)
    assert [token["logprob"] for token in content] == [-(id_ % 8) / 8 for id_ in made]
    assert reply.usage == {"prompt_tokens": len(text.encode()), "completion_tokens": 3 * (len(text.encode()) + 1)}
    (seen,) = engines.seen("request", request.request_id)
    assert (seen["beam_width"], seen["len_penalty"], seen["temperature"]) == (3, 1.5, 0.5)


@searching
async def test_the_rules_that_end_an_answer_hold_for_each_beam(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    prompt = PreparedPrompt(ids=tuple(b"abcdef"), text="abcdef")
    asked = {"n": 3, "stream": False, "sampling": {"beams": 3, "max_tokens": 4}}
    reply = await engines.worker.ask(session, ask(engines, model, prompt, prompt, stop=("ef",), **asked))
    assert [reply.text(index) for index in range(6)] == ["abcd", "bcde", "cd"] * 2
    assert reply.finishes == [("length", None), ("length", None), ("stop", "ef")] * 2


@searching
async def test_one_beam_is_the_greedy_answer(engines: Stage, session: aiohttp.ClientSession, model: StandIn) -> None:
    prompt = PreparedPrompt(ids=tuple(b"abcdef"), text="abcdef")
    request = ask(engines, model, prompt, stream=False, sampling={"beams": 1, "temperature": 1, "seed": 4})
    assert (await engines.worker.ask(session, request)).text() == "abcdef"


@searching
async def test_a_search_may_take_longer_than_a_first_token(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn
) -> None:
    slow = {"n": 2, "stream": False, "sampling": {"beams": 2}, "first_token_timeout_s": 0.2}
    reply = await engines.worker.ask(session, ask(engines, model, said("slow", delay=0.2), **slow))
    assert (reply.status, reply.text()) == (200, "slow")


@pytest.mark.parametrize(
    ("model", "changes", "code"),
    [
        ("tensorrtllm", {"n": 5, "sampling": {"beams": 5}}, "invalid_value"),
        ("trt-bls", {"n": 2, "sampling": {"beams": 2}}, "unsupported_parameter"),
        ("trt-llm-api", {"n": 2, "sampling": {"beams": 2}}, "unsupported_parameter"),
    ],
)
async def test_a_search_that_the_model_cannot_make_is_refused(
    engines: Stage, session: aiohttp.ClientSession, model: str, changes: dict[str, Any], code: str
) -> None:
    asked = MODELS[model]
    reply = await engines.worker.ask(session, ask(engines, asked, stream=False, **changes))
    assert (reply.status, reply.error["param"], reply.error["code"]) == (400, "use_beam_search", code)
