import pytest

from conch_contracts.names import WorkerUrl
from conch_contracts.records import Heartbeat
from conch_kit.registry.liveness import PoolLiveness
from testkit.clock import FakeClock


def _beats(**sequences: int) -> dict[WorkerUrl, Heartbeat]:
    return {WorkerUrl(name): Heartbeat(url=WorkerUrl(name), sequence=number) for name, number in sequences.items()}


def _names(alive: tuple[Heartbeat, ...]) -> list[str]:
    return [beat.url for beat in alive]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def pool(clock: FakeClock) -> PoolLiveness:
    return PoolLiveness(clock)


def test_a_process_lives_while_its_number_moves(pool: PoolLiveness, clock: FakeClock) -> None:
    for sequence in range(10):
        assert _names(pool.observe(_beats(a=sequence), emptied=False)) == ["a"]
        clock.advance(5)


def test_a_process_whose_number_stands_is_dropped_after_six_seconds(pool: PoolLiveness, clock: FakeClock) -> None:
    pool.observe(_beats(a=1, b=1), emptied=False)
    clock.advance(6)
    assert _names(pool.observe(_beats(a=1, b=2), emptied=False)) == ["a", "b"]
    clock.advance(0.01)
    assert _names(pool.observe(_beats(a=1, b=2), emptied=False)) == ["b"]
    assert _names(pool.observe(_beats(a=2, b=2), emptied=False)) == ["a", "b"]


def test_a_restarted_process_that_counts_from_one_again_lives(pool: PoolLiveness, clock: FakeClock) -> None:
    pool.observe(_beats(a=500), emptied=False)
    clock.advance(10)
    assert _names(pool.observe(_beats(a=1), emptied=False)) == ["a"]


def test_a_removed_record_is_gone_at_once(pool: PoolLiveness) -> None:
    pool.observe(_beats(a=1, b=1), emptied=False)
    assert _names(pool.observe(_beats(b=2), emptied=False)) == ["b"]


def test_nobody_is_dropped_for_the_loss_of_all_records_until_six_seconds_are_over(
    pool: PoolLiveness, clock: FakeClock
) -> None:
    pool.observe(_beats(a=1, b=1), emptied=False)
    clock.advance(1)
    assert _names(pool.observe({}, emptied=True)) == ["a", "b"]
    clock.advance(1)
    assert _names(pool.observe(_beats(b=2), emptied=False)) == ["a", "b"]
    clock.advance(4.1)
    assert _names(pool.observe(_beats(b=3), emptied=False)) == ["b"]


def test_everybody_who_lived_has_the_full_time_again_after_redis_was_away(pool: PoolLiveness, clock: FakeClock) -> None:
    pool.observe(_beats(a=1, dead=1), emptied=False)
    clock.advance(7)
    pool.observe(_beats(a=2, dead=1), emptied=False)
    clock.advance(3600)
    pool.forgive()
    assert _names(pool.observe(_beats(a=2, dead=1), emptied=False)) == ["a"]
    clock.advance(6.1)
    assert _names(pool.observe(_beats(a=2, dead=1), emptied=False)) == []
