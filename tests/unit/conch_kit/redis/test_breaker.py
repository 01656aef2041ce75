from conch_kit.redis.breaker import Breaker


def test_three_failures_in_a_row_open_it_and_one_success_closes_it() -> None:
    breaker = Breaker()
    assert [breaker.failure() for _ in range(4)] == [False, False, True, False]
    assert breaker.open
    assert [breaker.success(), breaker.success()] == [True, False]
    assert not breaker.open


def test_failures_with_successes_between_never_open_it() -> None:
    breaker = Breaker()
    for _ in range(10):
        breaker.failure()
        breaker.failure()
        breaker.success()
    assert not breaker.open
