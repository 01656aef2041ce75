"""Log probabilities of a response are those of its texts, however the engine groups its tokens."""

import asyncio
import json
import random
from typing import Any

import pytest

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.messages.generation import Api
from conch_kit.tracing import tracer
from conch_llm_worker.answer_writer import answer_for
from conch_llm_worker.choices import Choices
from conch_llm_worker.dialects.token_deltas import Logprobs, TokenDelta
from conch_llm_worker.engine.calls import EngineCalls
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.id_generation import IdGeneration
from conch_llm_worker.generation.parsed_generation import ParsedGeneration
from testkit.builders.generate_requests import generate_request, sampling
from testkit.engines.engine_messages import tokens_response
from testkit.engines.scripted_triton import Caller, ScriptedTriton
from testkit.models.transcripts import HERMES, THINKING_HERMES, thoughts
from testkit.models.vocabularies import BYTE_EOS, byte_level

CALL = '<tool_call>{"name": "now", "arguments": {"a": 1}}</tool_call>'
PARTS = ["Hello world", "<b>Hi</b> <tool", "\n\n", " ", CALL, "你好", "<think>hm</think>", "<think>", "</think>", "<"]


async def items(parsing: Parsing | None, groups: list[list[int]], *, stream: bool, max_tokens: int = 1000) -> list[Any]:
    """Return the output of a response whose engine sends each group in one message; the id of a byte is the byte."""
    made = [
        tokens_response(group, "stop" if last else None, BYTE_EOS, logprob=-0.5)
        for group, last in zip(groups, [*[False] * (len(groups) - 1), True], strict=True)
    ]
    parameters = sampling(max_tokens=1000, eos_token_ids=(BYTE_EOS,), logprobs=0)
    request = generate_request(
        api=Api.RESPONSES, parsing=parsing, sampling=parameters, stream=stream, response_id="resp_ab", logprobs=True
    )
    caller = Caller(b"")
    answer = answer_for(request, byte_level(), caller.send)
    choices = Choices(
        request, byte_level(), EngineCalls(ScriptedTriton(made), lambda: 42, tracer("test", None)), answer
    )
    await choices.run()
    await answer.finish(choices.usage())
    if not stream:
        return list(json.loads(caller.body)["output"])
    events = [json.loads(line[6:]) for line in caller.body.decode().splitlines() if line.startswith("data: ")]
    return list(events[-1]["response"]["output"])


def shown(output: list[Any]) -> list[tuple[str, list[str]]]:
    """Return the text of each message, and the tokens whose log probabilities it has."""
    texts = [item["content"][0] for item in output if item["type"] == "message"]
    return [(text["text"], [entry["token"] for entry in text["logprobs"]]) for text in texts]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("parsing", [HERMES, THINKING_HERMES, thoughts(), thoughts(show=False), None])
async def test_they_are_the_same_however_tokens_are_grouped(parsing: Parsing | None, stream: bool) -> None:
    chance = random.Random(5)
    for _ in range(25):
        ids = [*"".join(chance.choices(PARTS, k=chance.randrange(1, 5))).encode(), BYTE_EOS]
        wanted = shown(await items(parsing, [[id_] for id_ in ids], stream=stream))
        cut = chance.randrange(len(ids))
        for groups in ([ids], [ids[:cut], ids[cut:]] if cut else [ids]):
            assert shown(await items(parsing, groups, stream=stream)) == wanted, (bytes(ids[:-1]), cut)
        await asyncio.sleep(0)


async def test_each_token_of_a_text_has_one_and_no_other() -> None:
    text = f"<think>hm</think>\n\n<b>Hello</b>{CALL}"
    output = await items(THINKING_HERMES, [[*text.encode(), BYTE_EOS]], stream=False)
    ((said, tokens),) = shown(output)
    assert said == "<b>Hello</b>"
    assert "".join(tokens) == "\n\n<b>Hello</b>"


def test_what_waits_for_its_text_is_not_copied_with_each_token() -> None:
    request = generate_request(parsing=HERMES, sampling=sampling(max_tokens=1000, logprobs=0), logprobs=True)
    generation = IdGeneration(ChoiceRules.of(request, byte_level()), byte_level())
    parsed = ParsedGeneration.of(generation, HERMES, byte_level(), entries_of_texts=True)
    held = parsed._held
    for _ in range(50):
        assert parsed.feed(TokenDelta(b" ", Logprobs([-0.5], (), ()))).entries == ()
    assert (parsed._held is held, len(held)) == (True, 50)
    assert len(parsed.feed(TokenDelta(b"H", Logprobs([-0.5], (), ()))).entries) == 51
