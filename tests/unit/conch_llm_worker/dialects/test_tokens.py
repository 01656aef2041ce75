import json
from typing import Any

import pytest

from conch_contracts.messages.generation import SamplingParameters
from conch_contracts.messages.message import changed, from_json
from conch_kit.errors import InvalidRequest
from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects import tokens
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs, TokenDelta, split
from testkit.builders.generate_requests import backend, generate_request, picture, prompt, sampling
from testkit.engines.engine_messages import inputs, response, text_inputs, tokens_response


def test_a_call_sends_the_ids_and_each_parameter_that_is_not_its_default() -> None:
    parameters = sampling(seed=5, logit_bias={3: 1.5}, bad_words=((1, 2),))
    call = tokens.engine_call(generate_request(), prompt((7, 8, 9)), parameters)
    assert call.streamed
    assert call.message.model_name == "m"
    assert inputs(call.message) == {"input_ids": ("INT32", [3], [7, 8, 9])}
    sent = json.loads(call.message.raw_input_contents[1][4:])
    assert sent == {"max_tokens": 100, "temperature": 0.0, "seed": 5, "logit_bias": {"3": 1.5}, "bad_words": [[1, 2]]}
    assert from_json(SamplingParameters, call.message.raw_input_contents[1][4:]) == parameters


def test_pictures_go_with_their_prompt_in_the_order_of_their_ids() -> None:
    shown = (picture(b"\1\2\3", digest="a"), picture(bytes(range(6)), width=2, start=4, length=3, digest="b"))
    asked = changed(prompt(range(8)), pictures=shown)
    call = tokens.engine_call(generate_request(prompts=(asked,)), asked, sampling())
    assert inputs(call.message) == {
        "input_ids": ("INT32", [8], list(range(8))),
        "image_pixels": ("UINT8", [9], [1, 2, 3, 0, 1, 2, 3, 4, 5]),
        "image_shapes": ("INT32", [2, 3], [1, 1, 3, 1, 2, 3]),
        "image_spans": ("INT32", [2, 2], [0, 2, 4, 3]),
    }
    assert text_inputs(call.message)["image_hashes"] == [b"a", b"b"]


def test_each_prompt_has_its_own_pictures() -> None:
    with_one, without = changed(prompt((1, 1)), pictures=(picture(),)), prompt((5,))
    request = generate_request(prompts=(with_one, without))
    assert "image_pixels" in inputs(tokens.engine_call(request, with_one, sampling()).message)
    assert "image_pixels" not in inputs(tokens.engine_call(request, without, sampling()).message)


@pytest.mark.parametrize(
    ("message", "delta"),
    [
        (tokens_response([5, 6]), TokenDelta((5, 6))),
        (tokens_response([], "length"), TokenDelta((), None, None, EngineEnd.LENGTH, None)),
        (tokens_response([9], "stop", 9), TokenDelta((9,), None, None, EngineEnd.STOP, 9)),
        (tokens_response([], "cancelled"), TokenDelta((), None, None, EngineEnd.CANCELLED, None)),
        (response(final=True), TokenDelta(())),
    ],
)
def test_a_message_is_read_as_what_it_says(message: object, delta: TokenDelta) -> None:
    assert tokens.TokensReader().read(message) == delta  # type: ignore[arg-type]


def test_log_probabilities_are_read_in_rows() -> None:
    delta = tokens.TokensReader().read(
        response(
            token_ids=("INT32", [2], [5, 6]),
            logprobs=("FP32", [2], [-0.5, -0.25]),
            top_ids=("INT32", [2, 2], [5, 1, 6, 2]),
            top_logprobs=("FP32", [2, 2], [-0.5, -1, -0.25, -2]),
            prompt_logprobs=("FP32", [1], [-1]),
        )
    )
    assert delta.logprobs == Logprobs((-0.5, -0.25), [(5, 1), (6, 2)], [(-0.5, -1), (-0.25, -2)])
    assert delta.prompt == Logprobs((-1.0,), (), ())


@pytest.mark.parametrize(
    "message",
    [
        tokens_response([1], "because"),
        response(token_ids=("INT32", [2], [5, 6]), logprobs=("FP32", [1], [-0.5])),
        response(token_ids=("FP32", [1], [0.5])),
        response(
            token_ids=("INT32", [2], [5, 6]),
            logprobs=("FP32", [2], [-0.5, -0.5]),
            top_ids=("INT32", [1, 3], [5, 1, 6]),
            top_logprobs=("FP32", [1, 3], [-1, -1, -1]),
        ),
    ],
)
def test_a_message_that_breaks_the_contract_is_refused(message: object) -> None:
    with pytest.raises(MalformedResponse):
        tokens.TokensReader().read(message)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"sampling": sampling(beams=2)}, "use_beam_search"),
        ({"backend": backend(extra_arguments={"a": 1})}, "vllm_xargs"),
        ({"backend": backend(kv_transfer={"a": 1})}, "kv_transfer_params"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_by_name(changes: dict[str, Any], param: str) -> None:
    request = generate_request(**changes)
    with pytest.raises(InvalidRequest) as refused:
        tokens.engine_call(request, prompt((1,)), request.sampling)
    assert (refused.value.param, refused.value.code) == (param, "unsupported_parameter")


def test_a_message_can_be_taken_in_smaller_parts() -> None:
    found = Logprobs([-1.0, -2.0, -3.0], [(1,), (2,), (3,)], [(-1.0,), (-2.0,), (-3.0,)])
    whole = TokenDelta((5, 6, 7), found, Logprobs([0.0], (), ()), EngineEnd.STOP, 7)
    first, last = split(whole, 2)
    assert first == TokenDelta((5, 6), Logprobs([-1.0, -2.0], [(1,), (2,)], [(-1.0,), (-2.0,)]), whole.prompt)
    assert last == TokenDelta((7,), Logprobs([-3.0], [(3,)], [(-3.0,)]), None, EngineEnd.STOP, 7)
    text = TokenDelta((), text="a few words", made=3)
    assert split(text, 1) == [text]
    assert split(TokenDelta((), end=EngineEnd.LENGTH), 1) == [TokenDelta((), end=EngineEnd.LENGTH)]
