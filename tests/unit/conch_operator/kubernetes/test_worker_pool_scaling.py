import itertools
import random

import pytest

from conch_operator.kubernetes.worker_pool_scaling import WorkerBounds, WorkerScaler

BOUNDS = WorkerBounds(least=1, most=4, requests_per_worker=10)
STEP_S = 2


class Pool:
    """One pool that is looked at every 2 s."""

    def __init__(self, replicas: int = 1) -> None:
        self.now = 0.0
        self.scaler = WorkerScaler(replicas, self.now)
        self.history: list[tuple[float, int]] = [(0.0, replicas)]

    def under(self, requests: int, seconds: float, bounds: WorkerBounds = BOUNDS) -> int:
        for _ in range(int(seconds / STEP_S)):
            self.now += STEP_S
            self.history.append((self.now, self.scaler.decide(requests, bounds, self.now)))
        return self.scaler.replicas

    def reversals(self) -> list[float]:
        found, direction = [], 0
        for (_, before), (at_s, after) in zip(self.history, self.history[1:], strict=False):
            turn = (after > before) - (after < before)
            if turn and direction and turn != direction:
                found.append(at_s)
            direction = turn or direction
        return found


@pytest.mark.parametrize(
    ("requests", "replicas"), [(0, 1), (1, 1), (10, 1), (11, 2), (20, 2), (39, 4), (40, 4), (10_000, 4)]
)
def test_a_pool_grows_within_its_bounds_in_a_minute(requests: int, replicas: int) -> None:
    assert Pool().under(requests, 60) == replicas


def test_a_spike_brings_no_worker() -> None:
    pool = Pool()
    for _ in range(20):
        assert pool.under(40, 4) == 1
        assert pool.under(5, 4) == 1


def test_workers_go_after_five_minutes_with_less() -> None:
    pool = Pool()
    assert pool.under(40, 60) == 4
    assert pool.under(15, 290) == 4
    assert pool.under(15, 20) == 2
    assert pool.under(0, 310) == 1


def test_what_was_there_before_the_operator_stays_at_first() -> None:
    pool = Pool(replicas=3)
    assert pool.under(0, 290) == 3
    assert pool.under(0, 20) == 1


def test_new_bounds_are_obeyed_at_once() -> None:
    pool = Pool()
    assert pool.under(0, STEP_S, WorkerBounds(2, 4, 10)) == 2
    assert pool.under(40, 60) == 4
    assert pool.under(40, STEP_S, WorkerBounds(1, 3, 10)) == 3


@pytest.mark.parametrize("seed", range(20))
def test_the_direction_changes_at_most_once_in_five_minutes(seed: int) -> None:
    chance, pool = random.Random(seed), Pool()
    for _ in range(400):
        pool.under(chance.choice([0, 5, 15, 25, 40, 80]), chance.choice([2, 10, 30, 120, 400]))
    turns = pool.reversals()
    assert turns, "the load is such that it must turn now and then"
    assert min((b - a for a, b in itertools.pairwise(turns)), default=300) >= 300
