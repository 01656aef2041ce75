"""What vLLM's backend is sent, and how its log probabilities become tokens."""

import json
from base64 import b64decode
from typing import Any

import orjson
import pytest

from conch_contracts.messages.generation import Api, Details, PreparedPrompt
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.messages.message import changed
from conch_contracts.records import Dialect, TextOutput
from conch_kit.errors import InvalidRequest
from conch_kit.triton.declared_tensors import DeclaredTensors
from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects.engine_call import EngineCall, PreparedChoice
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs
from conch_llm_worker.dialects.vllm import LogprobsReader, engine_call
from testkit.builders.generate_requests import backend, generate_request, picture, prompt, sampling, target
from testkit.engines.engine_messages import inputs, response, text_inputs
from testkit.models.vocabularies import byte_level

NEW = {
    "text_input": "BYTES",
    "stream": "BOOL",
    "sampling_parameters": "BYTES",
    "exclude_input_in_output": "BOOL",
    "return_finish_reason": "BOOL",
    "return_logprobs": "BOOL",
    "return_num_output_tokens": "BOOL",
}
AN_OBJECT = Grammar(kind=GrammarKind.JSON_OBJECT, definition="")
OLD = {"PROMPT": "BYTES", "STREAM": "BOOL", "SAMPLING_PARAMETERS": "BYTES"}


def called(
    types: dict[str, str] = NEW,
    outputs: tuple[str, ...] = ("text_output",),
    at: TextOutput | None = None,
    **changes: Any,
) -> EngineCall:
    parameters = sampling(**changes.pop("sampling", {}))
    needed = changes.pop("required", frozenset())
    asked = changes.pop("prompt", prompt())
    keep = changes.pop("keep_special_tokens", False)
    request = generate_request(target=target(Dialect.VLLM, text_output=at), sampling=parameters, **changes)
    declared = DeclaredTensors(types, batched=False, decoupled=True, outputs=frozenset(outputs), required=needed)
    choice = PreparedChoice(request, asked, parameters, declared, byte_level().text, keep_special_tokens=keep)
    return engine_call(choice)


def parameters_of(call: EngineCall, name: str = "sampling_parameters") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text_inputs(call.message)[name][0])
    return found


def test_a_plain_request_sends_no_more_than_it_must() -> None:
    call = called(sampling={"max_tokens": 5})
    assert parameters_of(call) == {"max_tokens": 5, "temperature": 0.0}
    assert text_inputs(call.message)["text_input"] == [b"abc"]
    sent = {name: values for name, (_, _, values) in inputs(call.message).items()}
    flags = ("stream", "exclude_input_in_output", "return_finish_reason", "return_num_output_tokens")
    assert sent == {name: [True] for name in flags}
    assert (call.streamed, call.answers_text) == (True, True)


def test_pictures_go_beside_the_text_as_bare_base64() -> None:
    shown = changed(prompt(), pictures=(picture(b"\x89PNG one"), picture(b"\x89PNG two", start=1)))
    call = called({**NEW, "image": "BYTES"}, prompt=shown)
    assert [b64decode(file, validate=True) for file in text_inputs(call.message)["image"]] == [
        b"\x89PNG one",
        b"\x89PNG two",
    ]
    assert [list(tensor.shape) for tensor in call.message.inputs if tensor.name == "image"] == [[2]]
    assert "image" not in text_inputs(called({**NEW, "image": "BYTES"}).message)


@pytest.mark.parametrize("types", [NEW, OLD])
def test_a_model_that_declares_no_pictures_gets_none(types: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        called(types, prompt=changed(prompt(), pictures=(picture(),)))
    assert (refused.value.param, refused.value.code) == ("image_url", "unsupported_parameter")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"sampling": {"temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1}},
            {"top_p": 0.9, "top_k": 4, "min_p": 0.1},
        ),
        ({"sampling": {"seed": 7, "min_tokens": 2}}, {"seed": 7, "min_tokens": 2}),
        (
            {"sampling": {"presence_penalty": 0.5, "frequency_penalty": -1}},
            {"presence_penalty": 0.5, "frequency_penalty": -1},
        ),
        ({"sampling": {"repetition_penalty": 1.5}}, {"repetition_penalty": 1.5}),
        ({"sampling": {"stop_token_ids": (5, 6), "eos_token_ids": (6, 7)}}, {"stop_token_ids": [5, 6, 7]}),
        ({"sampling": {"ignore_eos": True, "eos_token_ids": (6,)}}, {"ignore_eos": True}),
        ({"sampling": {"bad_words": (tuple(b"no"), tuple(b" no"), tuple(b"not"))}}, {"bad_words": ["no", "not"]}),
        ({"sampling": {"bad_words": (tuple(b"no "), tuple(b" no "))}}, {"bad_words": ["no "]}),
        ({"logprobs": True, "sampling": {"logprobs": 3}}, {"logprobs": 3}),
        ({"keep_special_tokens": True}, {"skip_special_tokens": False}),
        ({"details": Details(spaces_between_special_tokens=False)}, {"spaces_between_special_tokens": False}),
        ({"best_of": 3}, {"logprobs": 0}),
        ({"sampling": {"allowed_token_ids": (5, 6)}}, {"allowed_token_ids": [5, 6]}),
        ({"sampling": {"grammar": AN_OBJECT}}, {"guided_decoding": '{"json_object":true}'}),
        (
            {"types": NEW | {"embedding_request": "BYTES"}, "sampling": {"grammar": AN_OBJECT}},
            {"structured_outputs": '{"json_object":true}'},
        ),
        (
            {"backend": backend(extra_arguments={"a": 10**400}, kv_transfer={"b": [2**64]})},
            {"extra_args": {"a": 10**400, "kv_transfer_params": {"b": [2**64]}}},
        ),
    ],
)
def test_parameters_are_vllms_own(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    found = parameters_of(called(**changes))
    assert found == {"max_tokens": 100, "temperature": changes.get("sampling", {}).get("temperature", 0.0), **expected}


def test_the_old_names_are_used_where_they_are_declared() -> None:
    call = called(OLD, ("TEXT",))
    assert set(text_inputs(call.message)) == {"PROMPT", "SAMPLING_PARAMETERS"}
    assert inputs(call.message)["STREAM"] == ("BOOL", [1], [True])
    whole = [call.reader.read(response(TEXT=("BYTES", [1], [text]))).text for text in (b"abca", b"abcab")]
    assert whole == ["a", "b"]


@pytest.mark.parametrize(
    ("at", "texts"), [(None, ["a", "ab"]), (TextOutput.DELTA, ["a", "ab"]), (TextOutput.CUMULATIVE, ["a", "b"])]
)
def test_the_deployment_says_what_a_message_holds(at: TextOutput | None, texts: list[str]) -> None:
    reader = called(at=at).reader
    assert [reader.read(response(text_output=("BYTES", [1], [raw]))).text for raw in (b"a", b"ab")] == texts


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"sampling": {"logit_bias": {3: 1.0}}}, "logit_bias"),
        ({"logprobs": True, "echo": True, "sampling": {"logprobs": 0}}, "echo"),
        ({"prompt": PreparedPrompt(ids=(1,), text="a", text_is_exact=False)}, "messages"),
        ({"prompt": PreparedPrompt(ids=(1,), text="a", text_is_exact=False), "api": Api.COMPLETION}, "prompt"),
        ({"types": OLD, "logprobs": True, "sampling": {"logprobs": 0}}, "logprobs"),
        ({"types": OLD, "best_of": 2}, "best_of"),
        ({"details": Details(token_ids=True)}, "return_token_ids"),
        ({"details": Details(max_frame_tokens=1)}, "max_streaming_response_tokens"),
    ],
)
def test_what_the_backend_cannot_do_is_refused_by_name(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        called(**changes)
    assert (refusal.value.param, refusal.value.code) == (param, "unsupported_parameter")


def test_a_model_of_another_kind_is_told_from_this_one() -> None:
    with pytest.raises(MalformedResponse, match="no vllm model"):
        called({"input_ids": "INT32"})


def test_a_model_that_needs_what_nobody_knows_is_not_called() -> None:
    with pytest.raises(MalformedResponse, match="needs the input speaker"):
        called({**NEW, "speaker": "BYTES"}, required=frozenset({"speaker"}))


def test_tokens_are_read_from_their_log_probabilities() -> None:
    found = [
        {"7": {"logprob": -1.5, "rank": 2}, "9": {"logprob": -0.5, "rank": 1}},
        {"8": {"logprob": -0.1, "rank": 1}, "5": {"logprob": -3.0, "rank": 2}},
    ]
    message = response(
        logprobs=("BYTES", [1], [orjson.dumps(found)]),
        text_output=("BYTES", [1], [b"x"]),
        finish_reason=("BYTES", [1], [b"length"]),
    )
    delta = LogprobsReader(1).read(message)
    assert (delta.ids, delta.end, delta.text) == ((7, 8), EngineEnd.LENGTH, "")
    assert delta.logprobs == Logprobs((-1.5, -0.1), ((9,), (8,)), ((-0.5,), (-0.1,)))


@pytest.mark.parametrize("raw", [b"{", b"[1]", b"[{}]", b'[{"a": {"logprob": 1, "rank": 1}}]', b'[{"7": {}}]'])
def test_log_probabilities_that_cannot_be_read_are_an_error(raw: bytes) -> None:
    with pytest.raises(MalformedResponse):
        LogprobsReader(1).read(response(logprobs=("BYTES", [1], [raw])))


@pytest.mark.parametrize("raw", [b"null", b"[]"])
def test_a_message_may_bring_no_tokens(raw: bytes) -> None:
    assert LogprobsReader(0).read(response(final=True, logprobs=("BYTES", [1], [raw]))).end is EngineEnd.UNKNOWN


@pytest.mark.parametrize("word", [b" ", b"\n"])
def test_a_bad_word_of_white_space_alone_is_refused(word: bytes) -> None:
    with pytest.raises(InvalidRequest, match="white space") as caught:
        called(sampling={"bad_words": (tuple(b"no"), tuple(word))})
    assert caught.value.param == "bad_words"
