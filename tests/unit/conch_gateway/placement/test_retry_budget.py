from conch_gateway.placement.retry_budget import REQUESTS_PER_RETRY, RESERVE, RetryBudget


def test_a_reserve_is_there_at_once_and_then_a_share_of_the_requests():
    granted = []
    budget = RetryBudget(lambda: granted.append(1))
    assert [budget.spend() for _ in range(RESERVE + 1)] == [True] * RESERVE + [False]
    for _ in range(10 * REQUESTS_PER_RETRY):
        budget.earn()
    assert sum(budget.spend() for _ in range(50)) == 10
    assert len(granted) == RESERVE + 10


def test_no_more_than_the_reserve_is_saved_up():
    budget = RetryBudget(lambda: None)
    for _ in range(10_000):
        budget.earn()
    assert sum(budget.spend() for _ in range(1_000)) == RESERVE
