import pytest

from conch_operator.kubernetes.api.backoff import FORGET_S, Attempts, Backoff


@pytest.mark.parametrize(
    ("failures", "least_s", "most_s"),
    [(1, 0.5, 1.0), (2, 1.0, 2.0), (3, 2.0, 4.0), (5, 8.0, 16.0), (6, 15.0, 30.0), (100, 15.0, 30.0)],
)
def test_pauses_double_up_to_a_limit_and_lie_in_their_upper_half(failures: int, least_s: float, most_s: float) -> None:
    assert Backoff(chance=lambda: 0.0).pause_s(failures) == least_s
    assert Backoff(chance=lambda: 1.0).pause_s(failures) == most_s


def test_two_who_fail_together_do_not_come_back_together() -> None:
    assert len({Backoff().pause_s(3) for _ in range(20)}) > 15


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_failed_is_not_tried_before_its_time() -> None:
    clock = Clock()
    attempts = Attempts(Backoff(chance=lambda: 1.0), clock)
    error = ValueError("no")
    assert attempts.obstacle("a") is None
    tried_at = []
    for now in range(100):
        clock.now = now
        if attempts.obstacle("a") is None:
            tried_at.append(now)
            attempts.failed("a", error)
    assert tried_at == [0, 1, 3, 7, 15, 31, 61, 91]
    assert attempts.obstacle("a") is error
    assert attempts.obstacle("b") is None


def test_success_and_a_long_while_begin_anew() -> None:
    clock = Clock()
    attempts = Attempts(Backoff(chance=lambda: 1.0), clock)
    for now in (0, 1, 3):
        clock.now = now
        attempts.failed("a", ValueError())
    attempts.succeeded("a")
    assert attempts.obstacle("a") is None
    attempts.failed("a", ValueError())
    clock.now += 1.0
    assert attempts.obstacle("a") is None
    attempts.failed("a", ValueError())
    clock.now += FORGET_S + 2.0
    attempts.failed("a", ValueError())
    clock.now += 1.0
    assert attempts.obstacle("a") is None
