"""Which of an engine's errors the client can do something about."""

import pytest

from conch_llm_worker.engine.refusal_messages import ParameterNames, refusal_of

NAMES = ParameterNames("messages", "guided_json")
FETCHING = (
    "Executor failed process requestId 7 due to the following error: Encountered an error when fetching new request: "
)
RUNNING = (
    "Executor failed process requestId 7 due to the following error: Encountered an error in forwardAsync function: "
)
CHECKED = "[TensorRT-LLM][ERROR] Assertion failed: "
TOO_LONG = "context_length_exceeded"

REFUSED = [
    ("Error generating stream: The provided JSON schema contains features not supported by xgrammar.", "guided_json"),
    ("Error generating stream: Failed to transform regex into a grammar: /src/regex.cc:7: no", "guided_json"),
    ("Error generating stream: Invalid grammar specification: x", "guided_json"),
    ("Error generating stream: Invalid structural tag specification.", "guided_json"),
    ("Error generating stream: Grammar error: x", "guided_json"),
    (RUNNING + "[12:05:04] /project/cpp/regex_converter.cc:73: The parenthesis is not closed.", "guided_json"),
    (RUNNING + "[12:05:04] /b/xgrammar-src/cpp/json_schema_converter.cc:902: Unsupported type", "guided_json"),
    (RUNNING + "EBNF parser error at line 1, column 10: Rule is not defined", "guided_json"),
    (RUNNING + CHECKED + "Requested beam width 4 is larger than configured max beam width 2", "use_beam_search"),
]
OTHERS = [
    (
        FETCHING + CHECKED + "Request is specified with GuidedDecodingParams, but GuidedDecoder is not setup.",
        ("guided_json", "unsupported_parameter"),
    ),
    (FETCHING + "Prompt length (70) exceeds maximum input length (64). Set log level", ("messages", TOO_LONG)),
    (
        "Error generating stream: The decoder prompt (length 70) is longer than the maximum model length of 64. Make",
        ("messages", TOO_LONG),
    ),
    (
        "The sum of prompt length (70.0), query length (0) should not exceed max_num_tokens (64)",
        ("messages", TOO_LONG),
    ),
    (
        "[request id: r] unexpected inference input 'image_pixels' for model 'm'",
        ("messages", "unsupported_parameter"),
    ),
    (
        "[request id: r] expected 2 inputs but got 6 inputs for model 'm'. Got input(s) ['image_hashes','image_shapes',"
        "'image_spans','image_pixels','parameters','input_ids'], but missing required input(s) ]. Please provide all",
        ("messages", "unsupported_parameter"),
    ),
    (
        FETCHING + CHECKED + "Request sequence length is potentially greater than max input length.",
        ("max_tokens", TOO_LONG),
    ),
]


@pytest.mark.parametrize(("said", "meant"), [*((said, (param, "invalid_value")) for said, param in REFUSED), *OTHERS])
def test_a_refusal_names_what_the_client_can_change(said: str, meant: tuple[str, str]) -> None:
    error = refusal_of(said, NAMES)
    assert error is not None
    assert (error.status, (error.param, error.code)) == (400, meant)
    assert not any(word in error.message for word in ("TensorRT", ".cc", "Executor", "xgrammar"))


@pytest.mark.parametrize("said", [said for said, param in REFUSED if param == "guided_json"])
def test_a_request_without_a_grammar_cannot_change_it(said: str) -> None:
    assert refusal_of(said, ParameterNames("messages")) is None


@pytest.mark.parametrize("said", ["CUDA error in apply_grammar_bitmask", "The engine broke.", CHECKED + "mStreaming"])
def test_everything_else_is_the_engines_fault(said: str) -> None:
    assert refusal_of(said, NAMES) is None


@pytest.mark.parametrize(
    "said",
    [
        "Prompt length (70) exceeds maximum input length (64).",
        "The decoder prompt (length 70) is longer than the maximum model length of 64.",
    ],
)
def test_the_counts_of_a_prompt_that_is_too_long_are_told(said: str) -> None:
    error = refusal_of(said, NAMES)
    assert error is not None
    assert "70 tokens" in error.message
    assert "at most 64" in error.message
