"""When clients that were sent away come again."""

import pytest

from conch_gateway.placement.retry_times import spread_s


@pytest.mark.parametrize(
    ("estimate_s", "earliest_s", "latest_s"),
    [(1, 1, 4), (5, 5, 8), (12, 12, 15), (30, 30, 37.5), (50, 50, 60), (59, 59, 60), (60, 48, 60), (900, 48, 60)],
)
def test_nobody_comes_before_the_estimate_or_after_what_clients_obey(
    estimate_s: float, earliest_s: float, latest_s: float
) -> None:
    assert spread_s(estimate_s, lambda: 0.0) == earliest_s
    assert spread_s(estimate_s, lambda: 1.0) == latest_s
    assert earliest_s < spread_s(estimate_s, lambda: 0.5) < latest_s
