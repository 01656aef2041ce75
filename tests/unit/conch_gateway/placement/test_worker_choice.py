from contextlib import suppress

import pytest

from conch_contracts.names import WorkerUrl
from conch_contracts.records import Heartbeat
from conch_gateway.placement.worker_choice import PASSED_OVER_S, WorkerBalancer, choose


@pytest.mark.parametrize(
    ("loads", "start", "index"), [([1, 0, 0], 0, 1), ([1, 0, 0], 2, 2), ([0, 0, 0], 1, 1), ([2, 1, 3], 2, 1)]
)
def test_the_least_load_is_chosen_and_ties_take_turns(loads, start, index):
    assert choose(loads, start=start) == index


def test_a_lease_is_returned_on_every_exit():
    balancer = WorkerBalancer()
    with suppress(ZeroDivisionError), balancer.lease("a"):
        assert balancer.counts["a"] == 1
        raise ZeroDivisionError
    assert not balancer.counts


def test_draining_and_tried_processes_are_passed_over():
    urls = [WorkerUrl(f"http://{name}:1") for name in "abc"]
    pool = [Heartbeat(url=url, sequence=1, draining=url == urls[0]) for url in urls]
    assert WorkerBalancer().pick(pool, without=frozenset({urls[1]})) == urls[2]
    assert WorkerBalancer().pick(pool[:1]) is None


def test_a_process_that_took_no_connection_is_passed_over_for_a_while():
    now = [100.0]
    balancer = WorkerBalancer(clock=lambda: now[0])
    dead, other = (WorkerUrl(f"http://{name}:1") for name in "ab")
    pool = [Heartbeat(url=dead, sequence=1), Heartbeat(url=other, sequence=1, in_flight=9)]
    assert balancer.pick(pool) == dead
    balancer.pass_over(dead)
    assert {balancer.pick(pool) for _ in range(4)} == {other}
    assert balancer.pick(pool, without=frozenset({other})) == dead
    assert balancer.pick(pool[:1]) == dead
    now[0] += PASSED_OVER_S
    assert balancer.pick(pool) == dead
