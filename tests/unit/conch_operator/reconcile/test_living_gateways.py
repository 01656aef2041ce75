from conch_contracts.records import GatewayBeat
from conch_operator.reconcile.living_gateways import GATEWAY_EXPIRY_S, LivingGateways


def beat(name: str, sequence: int) -> GatewayBeat:
    return GatewayBeat(id=name, sequence=sequence, revision=1)


def ids(living: LivingGateways, now_s: float, *beats: GatewayBeat) -> list[str]:
    return [found.id for found in living.look(beats, now_s)]


def test_a_gateway_lives_while_its_sequence_moves() -> None:
    living = LivingGateways()
    assert ids(living, 0.0, beat("a", 1), beat("b", 1)) == ["a", "b"]
    assert ids(living, 5.0, beat("a", 2), beat("b", 1)) == ["a", "b"]
    assert ids(living, GATEWAY_EXPIRY_S, beat("a", 2), beat("b", 1)) == ["a"]
    assert ids(living, GATEWAY_EXPIRY_S + 1, beat("a", 2), beat("b", 2)) == ["a", "b"]


def test_one_that_left_and_comes_again_is_new() -> None:
    living = LivingGateways()
    ids(living, 0.0, beat("a", 1))
    ids(living, 1.0)
    assert ids(living, 60.0, beat("a", 1)) == ["a"]
