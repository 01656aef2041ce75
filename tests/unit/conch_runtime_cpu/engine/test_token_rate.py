from conch_runtime_cpu.engine.token_rate import TokenRateLimit


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_cap_every_decoding_may_run() -> None:
    rate = TokenRateLimit(0, _Clock())
    assert [rate.take() for _ in range(3)] == [True, True, True]
    assert rate.wait_s() == 0


def test_decodings_keep_the_beat() -> None:
    clock = _Clock()
    rate = TokenRateLimit(10, clock)
    taken = []
    for _ in range(1000):
        taken.append(rate.take())
        clock.now += 0.001
    assert sum(taken) == 10


def test_a_long_pause_is_not_made_up_for() -> None:
    clock = _Clock()
    rate = TokenRateLimit(10, clock)
    assert rate.take()
    clock.now += 60
    assert [rate.take(), rate.take()] == [True, False]
    assert 0.04 < rate.wait_s() <= 0.1


def test_what_is_due_is_not_waited_for() -> None:
    clock = _Clock()
    rate = TokenRateLimit(10, clock)
    assert rate.take()
    clock.now += 60
    assert rate.wait_s() == 0
