import pytest

from conch_kit.service.engine_failures import stream_failure
from conch_kit.triton.errors import EngineFull, EngineUnavailable


@pytest.mark.parametrize(
    ("error", "code"), [(EngineUnavailable("refused"), "model_not_ready"), (EngineFull("queue"), "overloaded")]
)
def test_an_engine_that_is_away_is_not_called_overloaded(error: EngineUnavailable, code: str) -> None:
    failure = stream_failure(error, begun=False)
    assert (failure.status, failure.code, failure.retryable) == (503, code, True)
