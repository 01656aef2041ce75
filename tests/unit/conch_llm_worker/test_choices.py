"""How the beams of one search become choices."""

import asyncio
import json
from typing import Any

import pytest
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig
from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.messages.generation import Api, GenerateRequest
from conch_contracts.messages.message import changed
from conch_contracts.records import Dialect
from conch_kit.tracing import tracer
from conch_kit.triton.errors import EngineLost, MalformedResponse
from conch_llm_worker.answer_writer import answer_for
from conch_llm_worker.choices import Choices
from conch_llm_worker.engine.calls import EngineCalls
from testkit.builders.generate_requests import generate_request, prompt, sampling, target
from testkit.engines.engine_messages import response
from testkit.engines.scripted_triton import Caller, Event, ScriptedTriton
from testkit.models.vocabularies import BYTE_EOS, byte_level


def searching() -> ModelConfig:
    """Return the config of a model of TensorRT-LLM's that searches with beams."""
    config = ModelConfig(name="m", max_batch_size=8)
    for name in ("input_ids", "input_lengths", "request_output_len", "beam_width"):
        config.input.add(name=name, data_type=DataType.TYPE_INT32, dims=[-1])
    config.input.add(name="exclude_input_in_output", data_type=DataType.TYPE_BOOL, dims=[1], optional=True)
    for name in ("output_ids", "sequence_length"):
        config.output.add(name=name, data_type=DataType.TYPE_INT32, dims=[-1])
    config.model_transaction_policy.decoupled = True
    return config


def beams(*texts: bytes, final: bool = True) -> ModelInferResponse:
    """Return the beams of a search, padded to the same length."""
    width = max(map(len, texts))
    ids = [id_ for text in texts for id_ in (*text, *[-1] * (width - len(text)))]
    lengths = ("INT32", [1, len(texts)], [len(text) for text in texts])
    return response(final=final, output_ids=("INT32", [1, len(texts), width], ids), sequence_length=lengths)


def search(n: int, **changes: Any) -> GenerateRequest:
    parameters = sampling(eos_token_ids=(BYTE_EOS,), beams=changes.get("best_of") or n)
    engine = target(Dialect.TENSORRTLLM, slots=4)
    return generate_request(n=n, stream=False, sampling=parameters, target=engine, **changes)


async def answered(
    request: GenerateRequest, *scripts: list[Event], config: ModelConfig | None = None
) -> tuple[list[str], int, ScriptedTriton]:
    """Return the texts of the choices, the tokens that count, and the server that was asked."""
    triton, caller = ScriptedTriton(*scripts, config=config or searching()), Caller(b"")
    answer = answer_for(request, byte_level(), caller.send)
    engines = EngineCalls(triton, lambda: 42, tracer("test", None))
    choices = Choices(request, byte_level(), engines, answer)
    await choices.run()
    await answer.finish(choices.usage())
    found = json.loads(caller.body)["choices"]
    assert [choice["index"] for choice in found] == list(range(len(found)))
    texts = [choice["text"] if request.api is Api.COMPLETION else choice["message"]["content"] for choice in found]
    return texts, choices.usage().completion_tokens, triton


async def test_the_beams_of_one_search_are_choices_in_the_engines_order() -> None:
    script: list[Event] = [beams(b"x", b"y", final=False), beams(b"hello", b"world!")]
    texts, tokens, triton = await answered(search(2), script)
    assert (texts, tokens) == (["hello", "world!"], 11)
    (stream,) = triton.streams
    assert stream.rest_within_s is not None
    assert not triton.cancelled


async def test_an_empty_last_message_leaves_the_one_before() -> None:
    texts, _, _ = await answered(search(2), [beams(b"a", b"b", final=False), response(final=True)])
    assert texts == ["a", "b"]


async def test_of_more_beams_than_come_back_the_first_do_and_all_count() -> None:
    texts, tokens, _ = await answered(search(2, best_of=3), [beams(b"first", b"other", b"third")])
    assert (texts, tokens) == (["first", "other"], 15)


async def test_a_search_that_breaks_ends_the_engines_work() -> None:
    triton = ScriptedTriton([beams(b"only one"), asyncio.Event()], config=searching())
    engines = EngineCalls(triton, lambda: 42, tracer("test", None))
    answer = answer_for(search(2), byte_level(), Caller(b"").send)
    with pytest.raises(MalformedResponse):
        await Choices(search(2), byte_level(), engines, answer).run()
    assert triton.cancelled == [0]


async def test_the_only_message_of_a_search_may_take_all_of_the_requests_time() -> None:
    request = search(2, timeout_s=500.0, first_token_timeout_s=3.0)
    _, _, triton = await answered(request, [beams(b"a", b"b")])
    assert triton.timeouts[0]["first"] == 500.0


async def test_nothing_is_waited_for_behind_the_last_beams() -> None:
    async with asyncio.timeout(30):
        texts, _, _ = await answered(search(2), [beams(b"a", b"b"), asyncio.Event()])
    assert texts == ["a", "b"]


async def test_a_model_that_answers_once_is_asked_once() -> None:
    config = searching()
    config.model_transaction_policy.decoupled = False
    texts, _, triton = await answered(search(2), [beams(b"a", b"b")], config=config)
    assert (texts, len(triton.requests)) == (["a", "b"], 1)


async def test_each_prompt_has_a_search_of_its_own() -> None:
    request = search(2, prompts=(prompt(), prompt()), api=Api.COMPLETION)
    texts, _, triton = await answered(request, [beams(b"a", b"b")], [beams(b"c", b"d")])
    assert texts == ["a", "b", "c", "d"]
    assert len(triton.requests) == 2


async def test_a_search_that_is_wider_than_an_engine_has_slots_is_made_all_the_same() -> None:
    request = search(2, prompts=(prompt(), prompt()), api=Api.COMPLETION)
    narrow = changed(request, target=changed(request.target, slots=1))
    async with asyncio.timeout(30):
        texts, _, _ = await answered(narrow, [beams(b"a", b"b")], [beams(b"c", b"d")])
    assert texts == ["a", "b", "c", "d"]


@pytest.mark.parametrize("script", [[], [response(final=True)], [beams(b"only one")]])
async def test_a_search_without_its_beams_breaks_the_contract(script: list[Event]) -> None:
    with pytest.raises(MalformedResponse):
        await answered(search(2), script)


async def test_after_a_failure_the_models_config_is_read_again() -> None:
    triton = ScriptedTriton([EngineLost("gone")], [beams(b"a", b"b")], [beams(b"a", b"b")], config=searching())
    engines, request = EngineCalls(triton, lambda: 42, tracer("test", None)), search(2)

    async def ask() -> None:
        await Choices(request, byte_level(), engines, answer_for(request, byte_level(), Caller(b"").send)).run()

    with pytest.raises(EngineLost):
        await ask()
    assert triton.configs_read == 1
    for _ in range(2):
        await ask()
    assert triton.configs_read == 2


def several(n: int, slots: int) -> GenerateRequest:
    return generate_request(n=n, stream=False, target=target(Dialect.TOKENS, slots=slots))


async def fail(request: GenerateRequest, *scripts: list[Event]) -> ScriptedTriton:
    """Run choices of which one fails, and return the server that was asked."""
    triton = ScriptedTriton(*scripts)
    engines = EngineCalls(triton, lambda: 42, tracer("test", None))
    with pytest.raises(EngineLost, match="first"):
        await Choices(request, byte_level(), engines, answer_for(request, byte_level(), Caller(b"").send)).run()
    return triton


async def test_choices_that_fail_together_are_not_cancelled() -> None:
    at_once, soon = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, at_once.set)
    asyncio.get_running_loop().call_later(0.03, soon.set)
    others: list[list[Event]] = [[soon, EngineLost("second")], [soon, EngineLost("third")]]
    triton = await fail(several(3, 3), [at_once, EngineLost("first")], *others)
    assert (len(triton.requests), triton.cancelled) == (3, [])


async def test_a_choice_that_goes_on_beside_one_that_failed_is_cancelled_soon() -> None:
    at_once = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, at_once.set)
    triton = await fail(several(2, 2), [at_once, EngineLost("first")], [asyncio.Event()])
    assert triton.cancelled == [1]


async def test_a_choice_that_waits_for_a_slot_does_not_begin_when_one_has_failed() -> None:
    triton = await fail(several(3, 1), [EngineLost("first")], [], [])
    assert len(triton.requests) == 1
