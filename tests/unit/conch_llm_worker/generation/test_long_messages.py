"""What an engine may send in one message: a whole answer, which takes as long per token as any other."""

import asyncio
import time
from collections.abc import Callable

import pytest

from conch_contracts.messages.answer_parsing import Parsing
from conch_kit.tracing import tracer
from conch_llm_worker.answer_writer import answer_for
from conch_llm_worker.choices import Choices
from conch_llm_worker.dialects.token_deltas import EngineEnd, TokenDelta
from conch_llm_worker.engine.calls import EngineCalls
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.id_generation import IdGeneration
from conch_llm_worker.generation.parsed_generation import ParsedGeneration
from conch_llm_worker.generation.text_generation import TextGeneration
from testkit.builders.generate_requests import generate_request, sampling
from testkit.engines.engine_messages import tokens_response
from testkit.engines.scripted_triton import Caller, ScriptedTriton
from testkit.models.transcripts import HERMES, THINKING_HERMES
from testkit.models.vocabularies import (
    BYTE_EOS,
    PIECE_BYTE_0,
    byte_level,
    sentence_piece_tokenizer,
    vocabulary_of,
)

CALL = b'<tool_call>{"name": "now", "arguments": {"a": 1}}</tool_call>\n'


def read(ids: list[int], parsing: Parsing) -> None:
    request = generate_request(parsing=parsing, sampling=sampling(max_tokens=10_000_000))
    generation = IdGeneration(ChoiceRules.of(request, byte_level()), byte_level())
    ParsedGeneration.of(generation, parsing, byte_level()).feed(TokenDelta(ids, end=EngineEnd.STOP))


def read_text(text: str) -> None:
    request = generate_request(parsing=HERMES, sampling=sampling(max_tokens=10_000_000))
    generation = TextGeneration(request, ChoiceRules.of(request, byte_level()), byte_level())
    ParsedGeneration.of(generation, HERMES, byte_level()).feed(TokenDelta((), text=text, made=1, end=EngineEnd.STOP))


def read_bytes_one_by_one(count: int) -> None:
    detokenizer = vocabulary_of(sentence_piece_tokenizer()).detokenizer(skip_special_tokens=True)
    for _ in range(count):
        detokenizer.feed((PIECE_BYTE_0 + 0xF0,))
    detokenizer.finish()


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda count: read([*b"x" * count], HERMES), id="content"),
        pytest.param(lambda count: read([*b"x" * count], THINKING_HERMES), id="thinking"),
        pytest.param(lambda count: read([*b"x" + b" " * count + b"x"], THINKING_HERMES), id="spaces in the thinking"),
        pytest.param(lambda count: read([*b"x</think>" + b"\n" * count], THINKING_HERMES), id="line breaks behind it"),
        pytest.param(lambda count: read([*CALL * (count // len(CALL))], HERMES), id="calls"),
        pytest.param(lambda count: read_text((CALL * (count * 4 // len(CALL))).decode()), id="calls as text"),
        pytest.param(read_bytes_one_by_one, id="bytes of no character"),
    ],
)
def test_the_time_that_a_message_takes_grows_with_its_length_alone(work: Callable[[int], None]) -> None:
    def took_s(count: int) -> float:
        began = time.thread_time()
        work(count)
        return time.thread_time() - began

    assert min(took_s(40_000) for _ in range(3)) < 8 * min(took_s(10_000) for _ in range(3))


@pytest.mark.parametrize("parsing", [None, THINKING_HERMES], ids=["plain", "read"])
async def test_others_have_their_turns_while_a_long_message_is_read(parsing: Parsing | None) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    ids = [*b"x" * 20_000, BYTE_EOS]
    message = tokens_response(ids, "stop", BYTE_EOS)
    parameters = sampling(max_tokens=30_000, eos_token_ids=(BYTE_EOS,))
    request = generate_request(stream=False, parsing=parsing, sampling=parameters)
    caller, triton = Caller(b""), ScriptedTriton([message])
    answer = answer_for(request, byte_level(), caller.send)
    choices = Choices(request, byte_level(), EngineCalls(triton, lambda: 42, tracer("test", None)), answer)
    beside = asyncio.create_task(other())
    await asyncio.sleep(0)
    await choices.run()
    beside.cancel()
    assert choices.usage().completion_tokens == len(ids)
    assert turns > len(ids) / 1000
