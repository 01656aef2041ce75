import grpc
import pytest

from conch_kit.triton.errors import EngineFull, EngineLost, EngineRejected, EngineUnavailable, from_message
from conch_kit.triton.stream import translate


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("[StatusCode.UNAVAILABLE] Exceeds maximum queue size", EngineFull),
        ("Maximum queue size of 64 reached, please try again later.", EngineFull),
        ("Request timeout expired", EngineFull),
        ("Request for unknown model: 'm' is not found", EngineUnavailable),
        ("Server is stopping, scheduler for model has stopped accepting new inference requests", EngineUnavailable),
        ("CUDA out of memory", EngineRejected),
    ],
)
def test_a_message_says_whether_anything_was_run(message: str, kind: type[Exception]) -> None:
    assert type(from_message(message, started=False)) is kind
    assert type(from_message(message, started=True)) is (EngineRejected if kind is EngineRejected else EngineLost)


@pytest.mark.parametrize(
    ("message", "kind"),
    [("Exceeds maximum queue size", EngineFull), ("failed to connect to all addresses", EngineUnavailable)],
)
def test_an_engine_that_is_full_is_not_called_away(message: str, kind: type[Exception]) -> None:
    """Triton refuses a call that is answered whole by its status."""
    assert type(translate(grpc.StatusCode.UNAVAILABLE, message, started=False)) is kind
