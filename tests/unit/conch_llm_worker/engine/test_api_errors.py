import pytest

from conch_kit.triton.errors import (
    EngineError,
    EngineFull,
    EngineLost,
    EngineRejected,
    EngineTimeout,
    EngineUnavailable,
    MalformedResponse,
    RequestOverdue,
)
from conch_llm_worker.engine.api_errors import service_error
from conch_llm_worker.engine.refusal_messages import ParameterNames

BEFORE = [
    (EngineUnavailable("connect failed"), 503, "model_not_ready", True),
    (EngineLost("reset"), 502, "upstream_lost", True),
    (EngineTimeout("silent", first=True), 504, "timeout", False),
    (EngineTimeout("silent", first=False), 504, "timeout", False),
    (RequestOverdue("time over", first=False), 504, "timeout", False),
    (EngineRejected("INVALID: top_k: is too large"), 400, "invalid_value", False),
    (EngineFull("Request timeout expired"), 503, "overloaded", True),
    (EngineRejected("CUDA out of memory"), 502, "upstream_error", False),
    (MalformedResponse("no output"), 502, "upstream_error", False),
]


def test_a_full_engine_is_told_from_one_that_is_away() -> None:
    assert "full" in service_error(EngineFull("Request timeout expired"), begun=False).message
    assert "full" not in service_error(EngineUnavailable("down"), begun=False).message


@pytest.mark.parametrize(("failure", "status", "code", "retryable"), BEFORE)
def test_a_fault_before_the_first_byte_is_a_status(
    failure: EngineError, status: int, code: str | None, retryable: bool
) -> None:
    error = service_error(failure, begun=False)
    assert (error.status, error.code, error.retryable) == (status, code, retryable)


AFTER = [(failure, {400: code, 504: "timeout"}.get(status, "upstream_lost")) for failure, status, code, _ in BEFORE]


@pytest.mark.parametrize(("failure", "code"), AFTER)
def test_a_fault_in_the_middle_is_never_retryable(failure: EngineError, code: str) -> None:
    error = service_error(failure, begun=True)
    assert (error.code, error.retryable) == (code, False)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_the_end_of_the_requests_time_is_not_told_as_a_silent_engine(begun: bool, first: bool) -> None:
    message = service_error(RequestOverdue("time over", first=first), begun=begun).message
    assert message == "The answer was not complete in the request's time."
    assert "did not send" in service_error(EngineTimeout("silent", first=first), begun=begun).message


def test_clients_read_the_engines_words_only_where_they_are_meant_for_them() -> None:
    failed = service_error(EngineRejected("CUDA out of memory"), begun=False)
    assert failed.message == "The model's engine failed to answer the request; its log tells why."


@pytest.mark.parametrize(
    ("said", "asked_as", "param"),
    [
        ("top_k: it is too large", None, "top_k"),
        ("grammar: it is too large", "guided_regex", "guided_regex"),
        ("grammar: it is too large", "response_format.json_schema.schema", "response_format.json_schema.schema"),
        ("grammar: it is too large", None, "grammar"),
    ],
)
@pytest.mark.parametrize("begun", [False, True])
def test_a_parameter_that_the_engine_refuses_has_the_clients_name(
    said: str, asked_as: str | None, param: str, begun: bool
) -> None:
    error = service_error(EngineRejected(f"INVALID: {said}"), begun=begun, names=ParameterNames(grammar=asked_as))
    assert (error.param, error.code) == (param, "invalid_value")
    assert error.message == f"Invalid value for '{param}': it is too large."


@pytest.mark.parametrize("name", ["image_spans", "image_pixels"])
def test_a_picture_that_does_not_fit_is_a_fault_of_the_prompt(name: str) -> None:
    refused = EngineRejected(f"INVALID: {name}: picture 0 must have 4 ids; found 3")
    error = service_error(refused, begun=False, names=ParameterNames("messages"))
    assert (error.status, error.param, error.code) == (400, "messages", "invalid_value")


def test_an_engines_own_refusal_is_the_clients_to_change_unless_the_answer_has_begun() -> None:
    refused = EngineRejected("Encountered an error: Regex parsing error at position 1: x")
    assert service_error(refused, begun=False, names=ParameterNames(grammar="guided_regex")).status == 400
    assert service_error(refused, begun=True, names=ParameterNames(grammar="guided_regex")).code == "upstream_lost"
    assert service_error(refused, begun=False).status == 502
