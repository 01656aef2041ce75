"""What an engine is asked where the model's defaults ask for more than it can do."""

import json
import logging
from collections.abc import Sequence

import pytest
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig
from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.messages.message import changed
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.errors import InvalidRequest
from conch_kit.tracing import tracer
from conch_llm_worker.dialects.answer_sizes import FREE_BYTES
from conch_llm_worker.engine.calls import EngineCalls
from testkit.builders.generate_requests import generate_request, sampling, target
from testkit.engines.engine_messages import inputs, text_inputs, tokens_response
from testkit.engines.scripted_triton import ScriptedTriton
from testkit.models.vocabularies import byte_level

ASKED = {"temperature": 0.5, "top_k": 7, "min_p": 0.1, "repetition_penalty": 1.1}


def scripted(*scripts: Sequence[ModelInferResponse], decoupled: bool = True) -> ScriptedTriton:
    """Return an engine whose model takes a temperature, and no other parameter of sampling."""
    config = ModelConfig(name="m", max_batch_size=8)
    for name in ("input_ids", "input_lengths", "request_output_len"):
        config.input.add(name=name, data_type=DataType.TYPE_INT32, dims=[-1])
    config.input.add(name="temperature", data_type=DataType.TYPE_FP32, dims=[1], optional=True)
    config.model_transaction_policy.decoupled = decoupled
    return ScriptedTriton(*scripts, config=config)


def calls() -> EngineCalls:
    """Return the calls to that engine."""
    return EngineCalls(scripted(), lambda: 42, tracer("test", None))


@pytest.mark.parametrize("dialect", [Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM])
async def test_defaults_that_a_model_does_not_take_are_left_out_and_told_once(
    dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    request = generate_request(target=target(dialect), sampling=sampling(**ASKED), defaulted=tuple(ASKED))
    engine = calls()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            made = await engine.prepare(request, 0, byte_level())
    sent = inputs(made.message)
    assert sent["temperature"][2] == [0.5]
    assert set(sent) == {"input_ids", "input_lengths", "request_output_len", "temperature"}
    assert sorted(record.__dict__["default"] for record in caplog.records) == ["min_p", "repetition_penalty", "top_k"]


@pytest.mark.parametrize("dialect", [Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM])
@pytest.mark.parametrize("name", ["top_k", "min_p", "repetition_penalty"])
async def test_what_the_client_asks_for_itself_is_refused_by_name(dialect: Dialect, name: str) -> None:
    others = tuple(ASKED.keys() - {name})
    request = generate_request(target=target(dialect), sampling=sampling(**ASKED), defaulted=others)
    with pytest.raises(InvalidRequest) as refused:
        await calls().prepare(request, 0, byte_level())
    assert (refused.value.param, refused.value.code) == (name, "unsupported_parameter")


async def test_a_refusal_that_stays_without_the_default_is_told() -> None:
    request = generate_request(
        target=target(Dialect.TENSORRTLLM), sampling=sampling(seed=7, temperature=0.5), defaulted=("seed",)
    )
    with pytest.raises(InvalidRequest) as refused:
        await calls().prepare(request, 0, byte_level())
    assert refused.value.param == "seed"


async def test_models_of_engines_that_are_gone_are_not_remembered_for_ever() -> None:
    triton = scripted()
    engine = EngineCalls(triton, lambda: 42, tracer("test", None))

    async def ask(port: int) -> None:
        asked = changed(target(Dialect.FASTERTRANSFORMER), grpc=EngineAddress(f"10.0.0.1:{port}"))
        await engine.prepare(generate_request(target=asked), 0, byte_level())

    for port in range(1, 2000):
        await ask(port)
        await ask(1)  # one that stays in use is read once
    assert triton.configs_read == 1999
    await ask(2)
    assert triton.configs_read == 2000


@pytest.mark.parametrize(
    ("whole_s", "first_s", "expected"),
    [
        (60.0, 5.0, {"first": 5.0, "inter": 2.5, "whole": 60.0}),
        (4.0, 5.0, {"first": 4.0, "inter": 2.5, "whole": 4.0}),
    ],
)
async def test_each_part_of_a_call_has_the_time_that_the_request_gives_it(
    whole_s: float, first_s: float, expected: dict[str, float]
) -> None:
    triton = ScriptedTriton([])
    engine = EngineCalls(triton, lambda: 42, tracer("test", None))
    times = {"timeout_s": whole_s, "first_token_timeout_s": first_s, "inter_token_timeout_s": 2.5}
    request = generate_request(**times)
    engine.responses(request, await engine.prepare(request, 0, byte_level()))
    assert triton.timeouts == [expected]


@pytest.mark.parametrize("dialect", [Dialect.TOKENS, Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM])
@pytest.mark.parametrize("decoupled", [True, False])
async def test_a_message_may_be_as_long_as_its_request_can_bring(dialect: Dialect, decoupled: bool) -> None:
    triton = scripted([tokens_response([1])], decoupled=decoupled)
    engine = EngineCalls(triton, lambda: 42, tracer("test", None))
    request = generate_request(target=target(dialect), sampling=sampling(max_tokens=4, temperature=1.0))
    call = await engine.prepare(request, 0, byte_level())
    await anext(aiter(engine.responses(request, call)))
    assert triton.most_bytes == [call.most_bytes]
    assert FREE_BYTES < call.most_bytes < FREE_BYTES + 2000


async def test_the_seed_of_a_later_choice_stays_a_number_that_engines_take() -> None:
    request = generate_request(n=2, sampling=sampling(seed=2**63 - 1))
    seeds = []
    for index in range(2):
        made = await calls().prepare(request, index, byte_level())
        (parameters,) = text_inputs(made.message)["parameters"]
        seeds.append(json.loads(parameters)["seed"])
    assert seeds == [2**63 - 1, 0]
