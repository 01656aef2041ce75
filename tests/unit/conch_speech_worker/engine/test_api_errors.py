import pytest

from conch_kit.triton.errors import (
    EngineLost,
    EngineRejected,
    EngineTimeout,
    EngineUnavailable,
    MalformedResponse,
    RequestOverdue,
)
from conch_speech_worker.engine.api_errors import service_error


@pytest.mark.parametrize(
    ("error", "begun", "status", "retryable"),
    [
        (EngineUnavailable("away"), False, 503, True),
        (EngineLost("gone"), False, 502, True),
        (EngineLost("gone"), True, 502, False),
        (EngineRejected("CUDA out of memory"), False, 502, False),
        (EngineTimeout("silent", first=True), False, 504, False),
        (RequestOverdue("over", first=False), False, 504, False),
        (MalformedResponse("nonsense"), False, 502, False),
        (EngineRejected("INVALID: temperatures: each must be at least 0"), False, 400, False),
        (EngineRejected("INVALID: pcm: too long"), True, 502, False),
    ],
)
def test_what_befell_an_engine_has_one_status(error, begun, status, retryable):
    found = service_error(error, begun=begun)
    assert (found.status, found.retryable) == (status, retryable)
    assert "CUDA" not in found.message


def test_a_refusal_names_what_the_client_calls_it():
    found = service_error(EngineRejected("INVALID: temperatures: each must be at least 0"), begun=False)
    assert (found.param, found.message) == ("temperature", "Invalid value for 'temperature': each must be at least 0.")
