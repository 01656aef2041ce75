from types import SimpleNamespace
from typing import Any

import pytest

from conch_llm_worker.bodies.best_of import best


def asked(n: int, candidates: int, beams: int | None = None) -> Any:
    return SimpleNamespace(n=n, candidates=candidates, sampling=SimpleNamespace(beams=beams))


def choices(*logprobs: float) -> list[Any]:
    return [SimpleNamespace(index=index, mean_logprob=value) for index, value in enumerate(logprobs)]


@pytest.mark.parametrize(
    ("request_", "logprobs", "kept"),
    [
        (asked(1, 3), (-3.0, -1.0, -2.0), [1]),
        (asked(2, 3), (-3.0, -1.0, -2.0), [1, 2]),
        (asked(1, 2), (-3.0, -1.0, -1.0, -2.0), [1, 2]),
        (asked(3, 3), (-3.0, -1.0, -2.0), [0, 1, 2]),
        (asked(2, 3, beams=3), (-3.0, -1.0, -2.0), [0, 1]),
    ],
    ids=["the best", "the best two", "the best of each prompt", "all, as they were made", "as a search has them"],
)
def test_the_likeliest_come_back_where_more_were_made(
    request_: Any, logprobs: tuple[float, ...], kept: list[int]
) -> None:
    assert [choice.index for choice in best(request_, choices(*logprobs))] == kept
