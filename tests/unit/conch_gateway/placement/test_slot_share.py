"""How many slots a gateway takes beside others, and what comes of it when several do so at once."""

from collections import Counter
from collections.abc import Iterator

import pytest

from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import GatewayLoad, ModelDemand
from conch_gateway.placement.slot_share import OthersOfModel, others_by_model

A = EngineAddress("a:1")
MODEL = ModelId("local/chat")
SLOTS = 4


def others(taken: int = 0, waiting: int = 0, gateways: int = 1, *, away: bool = False) -> OthersOfModel:
    """Return what others have taken of the engine, and how many wait there."""
    return OthersOfModel(gateways, {A: taken}, taken + waiting, waiting, away)


@pytest.mark.parametrize(
    ("known", "own", "wanted", "mine", "gets"),
    [
        (others(), 0, 1, 1, 1),
        (others(taken=3), 0, 1, 1, 1),
        (others(taken=4), 0, 1, 1, 0),
        (others(taken=2), 2, 1, 3, 0),
        (others(taken=1), 2, 1, 9, 1),  # nobody waits elsewhere, so all that is free may be taken
        (others(taken=2), 0, 3, 3, 0),
        (others(taken=1), 0, 3, 3, 3),
        (others(taken=1, waiting=8), 2, 1, 11, 1),  # 2.2 of 4 are mine
        (others(taken=0, waiting=9), 3, 1, 11, 0),
        (others(taken=0, waiting=10), 2, 1, 10, 0),  # a slot is free, and it belongs to those who wait elsewhere
        (others(taken=0, waiting=10), 0, 4, 10, 2),  # a request with many choices gets what is mine
        (others(taken=0, waiting=40), 0, 1, 1, 1),  # a tenth of a slot is mine, and nobody has taken it
        (others(waiting=5), 0, 1, 0, 0),  # who does not wait yet asks for nothing
        (others(taken=4, gateways=1, away=True), 1, 1, 2, 1),
        (others(taken=4, gateways=1, away=True), 2, 1, 3, 0),
        (others(gateways=9, away=True), 0, 1, 1, 1),  # more gateways than slots: each may have one
        (others(gateways=9, away=True), 1, 1, 2, 0),
        (others(gateways=1, away=True), 0, 4, 4, 2),
    ],
)
def test_a_request_gets_what_is_free_and_due(known: OthersOfModel, own: int, wanted: int, mine: int, gets: int) -> None:
    assert known.room(A, SLOTS, own, wanted, mine) == gets


@pytest.mark.parametrize(
    ("known", "remain", "mine", "left"),
    [
        (others(taken=2), 1, 2, False),
        (others(taken=2, waiting=8), 1, 10, False),  # 2 of 4 are mine
        (others(taken=2, waiting=8), 2, 10, True),
        (others(taken=0, waiting=1), 0, 1, False),
        (others(taken=2, waiting=8, away=True), 2, 10, False),
    ],
)
def test_what_is_given_back_and_only_partly_due_is_left_to_others(
    known: OthersOfModel, remain: int, mine: int, left: bool
) -> None:
    assert known.first_chance(SLOTS, remain, mine) is left


def test_the_demand_of_others_counts_by_model_and_engine() -> None:
    idle = ModelDemand(idle_s=3.0)
    loads = (
        GatewayLoad(id="x", sequence=1, models={MODEL: ModelDemand(in_flight=2, queued=3, taken={A: 2})}),
        GatewayLoad(id="y", sequence=1, models={MODEL: ModelDemand(in_flight=1, taken={A: 1}), ModelId("idle"): idle}),
        GatewayLoad(id="z", sequence=1, models={ModelId("other"): ModelDemand(held=4)}),
    )
    known = others_by_model(loads, away=False)
    assert known[MODEL] == OthersOfModel(3, Counter({A: 3}), 6, 3)
    assert known[ModelId("other")] == OthersOfModel(3, {}, 4, 4)
    assert ModelId("idle") not in known


class _Gateway:
    """A gateway that always has requests waiting, in turns of a beat."""

    def __init__(self, waiting: int) -> None:
        self.own = 0
        self.waiting = waiting
        self.left = 0
        self.served = 0

    def demand(self) -> ModelDemand:
        return ModelDemand(in_flight=self.own, queued=self.waiting, taken={A: self.own})

    def turn(self, known: OthersOfModel, ends: int, slots: int) -> None:
        self.left = max(0, self.left - 1)
        for _ in range(min(ends, self.own)):
            self.own -= 1
            self.served += 1
            if known.first_chance(slots, self.own, self.own + self.waiting):
                self.left = 2
        while not self.left and known.room(A, slots, self.own, 1, self.own + self.waiting):
            self.own += 1


def _beats(gateways: list[_Gateway], slots: int, beats: int) -> Iterator[int]:
    """Yield how many slots are taken after each beat: all hear of each other between two of them."""
    for beat in range(beats):
        loads = [GatewayLoad(id=str(n), sequence=beat, models={MODEL: g.demand()}) for n, g in enumerate(gateways)]
        for number, gateway in enumerate(gateways):
            heard = loads[:number] + loads[number + 1 :]
            # Work takes four beats; each gateway ends some of it in a beat of its own.
            gateway.turn(others_by_model(heard, away=False)[MODEL], int(beat % 4 == number % 4), slots)
        yield sum(gateway.own for gateway in gateways)


@pytest.mark.parametrize("slots", [1, 4, 7])
@pytest.mark.parametrize("waiting", [(10, 10), (10, 10, 10), (30, 10)])
def test_gateways_that_all_have_waiters_keep_to_the_slots_and_to_their_shares(
    slots: int, waiting: tuple[int, ...]
) -> None:
    gateways, beats = [_Gateway(count) for count in waiting], 4000
    taken, held = [], Counter[int]()
    for total in _beats(gateways, slots, beats):
        taken.append(total)
        held.update({number: gateway.own for number, gateway in enumerate(gateways)})
    assert max(taken[4:]) <= slots + len(gateways) - 1  # what the others take within the same beat
    assert sum(taken) / beats <= slots + 0.5
    shares = [slots * count / sum(waiting) for count in waiting]
    assert all(abs(held[number] / beats - share) < 1 for number, share in enumerate(shares)), held
    assert min(gateway.served for gateway in gateways) >= beats / 8, "nobody starves"


def test_a_slot_goes_to_and_fro_between_two_that_wait() -> None:
    gateways = [_Gateway(10), _Gateway(10)]
    list(_beats(gateways, 1, 4000))
    fewer, more = sorted(gateway.served for gateway in gateways)
    assert fewer > 0.8 * more
