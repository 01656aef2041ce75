import pytest
from prometheus_client import CollectorRegistry

from conch_contracts.messages.tokenizer_frames import Operation
from conch_kit.errors import InternalError, InvalidRequest, Unavailable
from conch_tokenizer.children.work_board import WorkBoard, board_memory
from conch_tokenizer.http.request_count import RequestCount
from conch_tokenizer.http.request_metrics import RequestMetrics


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (None, "ok"),
        (InvalidRequest("no"), "refused"),
        (Unavailable("full"), "unavailable"),
        (InternalError("broken"), "failed"),
        (RuntimeError("broken"), "failed"),
    ],
)
def test_what_became_of_a_request_is_counted(failure: Exception | None, outcome: str) -> None:
    with board_memory(2) as memory:
        board = WorkBoard(memory)
    registry = CollectorRegistry()
    registry.register(RequestMetrics(board))
    count = RequestCount(board.row(0))

    def work() -> None:
        with count.counted(Operation.CHECK_GRAMMAR):
            assert (board.in_flight(), registry.get_sample_value("conch_tokenizer_in_flight")) == (1, 1)
            if failure is not None:
                raise failure

    if failure is None:
        work()
    else:
        with pytest.raises(type(failure)):
            work()
    labels = {"operation": "check_grammar", "outcome": outcome}
    assert registry.get_sample_value("conch_tokenizer_requests_total", labels) == 1
    assert registry.get_sample_value("conch_tokenizer_request_seconds_count", {"operation": "check_grammar"}) == 1
    assert (board.in_flight(), registry.get_sample_value("conch_tokenizer_in_flight")) == (0, 0)
