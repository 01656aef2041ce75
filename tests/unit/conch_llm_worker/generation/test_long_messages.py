"""What an engine may send in one message: a whole answer, which takes as long per token as any other."""

import asyncio
import time
from collections.abc import Callable

import pytest
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig
from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.messages.generation import Api, GenerateRequest
from conch_contracts.records import Dialect
from conch_kit.tracing import tracer
from conch_llm_worker.answer_writer import answer_for
from conch_llm_worker.choices import Choices
from conch_llm_worker.dialects.token_deltas import EngineEnd, TokenDelta
from conch_llm_worker.engine.calls import EngineCalls
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.id_generation import IdGeneration
from conch_llm_worker.generation.parsed_generation import ParsedGeneration
from conch_llm_worker.generation.text_generation import TextGeneration
from testkit.builders.generate_requests import generate_request, sampling, target
from testkit.engines.engine_messages import response, tokens_response
from testkit.engines.scripted_triton import Caller, ScriptedTriton
from testkit.models.transcripts import HERMES, THINKING_HERMES, thoughts
from testkit.models.vocabularies import (
    BYTE_EOS,
    PIECE_BYTE_0,
    byte_level,
    sentence_piece_tokenizer,
    vocabulary_of,
)

CALL = b'<tool_call>{"name": "now", "arguments": {"a": 1}}</tool_call>\n'


BROKEN = '<tool_call>{"name": "now", "arguments": {"a": ?'


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
        pytest.param(lambda count: read([*b" " * count + b"<think>"], thoughts()), id="spaces before the thinking"),
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


async def answer(request: GenerateRequest, message: ModelInferResponse) -> Choices:
    """Answer a request whose engine sends all in one message."""
    caller, triton = Caller(b""), ScriptedTriton([message], config=of_text())
    writer = answer_for(request, byte_level(), caller.send)
    choices = Choices(request, byte_level(), EngineCalls(triton, lambda: 42, tracer("test", None)), writer)
    await choices.run()
    await writer.finish(choices.usage())
    return choices


def of_text() -> ModelConfig:
    """Return the config of a model of vLLM's; one of tokens needs none."""
    config = ModelConfig(name="m")
    for name, datatype in (("text_input", DataType.TYPE_STRING), ("sampling_parameters", DataType.TYPE_STRING)):
        config.input.add(name=name, data_type=datatype, dims=[1])
    config.input.add(name="stream", data_type=DataType.TYPE_BOOL, dims=[1], optional=True)
    config.output.add(name="text_output", data_type=DataType.TYPE_STRING, dims=[-1])
    config.model_transaction_policy.decoupled = True
    return config


def text_message(text: str) -> ModelInferResponse:
    return response(final=True, text_output=("BYTES", [1], [text.encode()]), finish_reason=("BYTES", [1], [b"stop"]))


@pytest.mark.parametrize("parsing", [None, THINKING_HERMES], ids=["plain", "read"])
@pytest.mark.parametrize("dialect", [Dialect.TOKENS, Dialect.VLLM])
async def test_others_have_their_turns_while_a_long_message_is_read(
    parsing: Parsing | None, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conch_llm_worker.choices._TURN_S", 0.0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    of_ids = dialect is Dialect.TOKENS
    message = tokens_response([*b"x" * 50_000, BYTE_EOS], "stop", BYTE_EOS) if of_ids else text_message("x" * 50_000)
    parameters = sampling(max_tokens=60_000, eos_token_ids=(BYTE_EOS,))
    request = generate_request(stream=False, parsing=parsing, sampling=parameters, target=target(dialect))
    beside = asyncio.create_task(other())
    await asyncio.sleep(0)
    choices = await answer(request, message)
    beside.cancel()
    assert choices.usage().completion_tokens == 50_000 + of_ids
    assert turns > 20


@pytest.mark.parametrize("call", [CALL.decode(), BROKEN], ids=["calls", "broken calls"])
@pytest.mark.parametrize("api", [Api.CHAT, Api.RESPONSES, Api.MESSAGES])
def test_the_time_that_a_stream_of_one_message_takes_grows_with_its_length_alone(api: Api, call: str) -> None:
    parameters = sampling(max_tokens=10_000_000)
    request = generate_request(api=api, parsing=HERMES, sampling=parameters, target=target(Dialect.VLLM))

    def took_s(count: int) -> float:
        message = text_message(call * (count // len(call)))
        began = time.thread_time()
        asyncio.run(answer(request, message))
        return time.thread_time() - began

    took_s(1000)
    assert min(took_s(80_000) for _ in range(2)) < 8 * min(took_s(20_000) for _ in range(2))
