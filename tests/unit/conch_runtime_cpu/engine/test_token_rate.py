from conch_runtime_cpu.engine.token_rate import Pacer


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_cap_every_decoding_may_run() -> None:
    pacer = Pacer(0, _Clock())
    assert [pacer.take() for _ in range(3)] == [True, True, True]
    assert pacer.wait_s() == 0


def test_decodings_keep_the_beat() -> None:
    clock = _Clock()
    pacer = Pacer(10, clock)
    taken = []
    for _ in range(1000):
        taken.append(pacer.take())
        clock.now += 0.001
    assert sum(taken) == 10


def test_a_long_pause_is_not_made_up_for() -> None:
    clock = _Clock()
    pacer = Pacer(10, clock)
    assert pacer.take()
    clock.now += 60
    assert [pacer.take(), pacer.take()] == [True, False]
    assert 0.04 < pacer.wait_s() <= 0.1
