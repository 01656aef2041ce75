from conch_contracts.records import GatewayBeat
from conch_operator.reconcile.withdrawals import Withdrawals
from conch_operator.state import EngineName

ENGINE = EngineName("tiny-0")


def beat(revision: int, gateway: str = "g") -> GatewayBeat:
    return GatewayBeat(id=gateway, sequence=1, revision=revision)


def test_an_engine_is_gone_when_every_gateway_has_applied_the_revision() -> None:
    ledger = Withdrawals()
    ledger.note([ENGINE], 5, 0.0)
    assert ledger.seen([beat(5), beat(4, "h")], 0.1) == frozenset()
    assert ledger.seen([beat(5), beat(6, "h")], 0.1) == {ENGINE}


def test_without_any_gateway_it_takes_two_seconds() -> None:
    ledger = Withdrawals()
    ledger.note([ENGINE], None, 0.0)
    assert ledger.seen([], 1.9) == frozenset()
    assert ledger.seen([], 2.0) == {ENGINE}


def test_the_first_revision_counts_until_the_engine_is_used_again() -> None:
    ledger = Withdrawals()
    ledger.note([ENGINE], 5, 0.0)
    ledger.note([ENGINE], 9, 1.0)
    assert ledger.seen([beat(5)], 1.0) == {ENGINE}
    ledger.note([], 9, 1.0)
    ledger.note([ENGINE], 10, 1.0)
    assert ledger.seen([beat(9)], 1.0) == frozenset()


def test_a_gateway_that_has_died_is_not_waited_for() -> None:
    ledger = Withdrawals(longest_wait_s=60)
    ledger.note([ENGINE], 5, 0.0)
    for now in (0.0, 2.0, 4.0):
        living = GatewayBeat(id="g", sequence=int(now), revision=5)
        assert ledger.seen([living, beat(4, "dead")], now) == frozenset()
    assert ledger.seen([GatewayBeat(id="g", sequence=6, revision=5), beat(4, "dead")], 6.0) == {ENGINE}
