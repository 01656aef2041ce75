"""Which models of a pool are in, decision by decision and in simulated minutes."""

import random
from dataclasses import dataclass, field, replace

import pytest

from conch_contracts.names import ModelId
from conch_operator.engine_pools.residency import Changes, Member, Place, Room, decide, fits_at_all

ROOM = Room(memory_bytes=200, max_wait_s=2.0, min_resident_s=5.0)


def inside(name: str, size: int = 100, idle_s: float = 0.0, ready_for_s: float = 60.0, **more: bool) -> Member:
    model = ModelId(name)
    return Member(model, size, Place.READY, ready_for_s=ready_for_s, idle_s=idle_s, **more)


def waiting(name: str, waits_s: float = 0.0, size: int = 100, **more: bool) -> Member:
    return Member(ModelId(name), size, Place.OUT, waits_s=waits_s, **more)


def leaving(name: str, size: int = 100) -> Member:
    return Member(ModelId(name), size, Place.LEAVING)


def loading(name: str, size: int = 100) -> Member:
    return Member(ModelId(name), size, Place.LOADING)


@pytest.mark.parametrize(
    ("members", "enter", "leave"),
    [
        ([waiting("a"), inside("b")], "a", ""),  # there is room
        ([Member(ModelId("a"), 100, Place.OUT)], "", ""),  # nobody waits for it
        ([waiting("a"), inside("b"), inside("c")], "", ""),  # all are busy
        ([waiting("a", 2.0), inside("b"), inside("c")], "", "b"),  # it has waited long enough
        ([waiting("a"), inside("b", idle_s=5), inside("c", idle_s=9)], "", "c"),  # used longest ago
        ([waiting("a"), inside("b", idle_s=4), inside("c", idle_s=4)], "", ""),  # idle for a moment only
        ([waiting("a", 9), inside("b", ready_for_s=4.9), loading("c")], "", ""),  # each has its time
        ([waiting("a"), inside("b", ready_for_s=1, asked_for=False), inside("c")], "", "b"),  # nobody's
        ([waiting("a", 9), inside("b", idle_s=99, pinned=True), inside("c")], "", "c"),
        ([waiting("a", pinned=True), inside("b"), inside("c")], "", "b"),  # what is pinned waits for nobody
        ([waiting("a"), leaving("b"), inside("c")], "", ""),  # room that is promised is not there yet
        ([waiting("a"), waiting("d"), leaving("b"), inside("c", idle_s=9)], "", "c"),
        ([waiting("a", 9), waiting("d", 1), inside("b"), inside("c")], "", "b"),  # one after the other
        ([waiting("a", 9, may_force=False), inside("b"), inside("c")], "", ""),
        ([waiting("a", 9, may_force=False), waiting("d", 2), inside("b"), inside("c")], "", "b"),
        ([waiting("a", 1, size=150), waiting("d", 0), inside("b")], "", ""),  # the next one takes no room of its
        ([waiting("a", 9, size=200), inside("b"), inside("c", idle_s=1)], "", "bc"),
        ([waiting("a", 9, size=110), inside("b", 10, idle_s=9), inside("c", 120)], "", "c"),  # none goes in vain
        ([inside("a", 150), inside("b", 100, idle_s=1)], "", "b"),  # they have turned out larger
        ([inside("a", 150, pinned=True), inside("b", 100, ready_for_s=1)], "", ""),
    ],
)
def test_who_comes_in_and_who_goes(members: list[Member], enter: str, leave: str) -> None:
    found = decide(members, ROOM)
    assert (set(found.enter), set(found.leave)) == (set(enter), set(leave))


def test_a_pool_may_bound_how_many_are_in() -> None:
    room = replace(ROOM, memory_bytes=10_000, max_models=2)
    assert decide([waiting("a"), inside("b")], room) == Changes(enter=(ModelId("a"),))
    assert decide([waiting("a", 2), inside("b"), inside("c")], room) == Changes(leave=(ModelId("b"),))
    assert not fits_at_all(1, room, [1, 1])


@pytest.mark.parametrize(("size", "pinned", "fits"), [(200, [], True), (201, [], False), (100, [101], False)])
def test_a_model_that_no_room_is_left_for_is_known(size: int, pinned: list[int], fits: bool) -> None:
    assert fits_at_all(size, ROOM, pinned) is fits


@dataclass
class _Simulated:
    size: int
    place: Place = Place.OUT
    until_s: float = 0.0
    ready_at_s: float = 0.0
    used_at_s: float = 0.0
    queue: list[float] = field(default_factory=list)


@dataclass
class Pool:
    """Models that are loaded in 2 s and leave in 1 s, and serve what they are asked at once while they are in."""

    room: Room
    models: dict[str, _Simulated]
    now_s: float = 0.0
    waited_s: list[float] = field(default_factory=list)
    loads: int = 0
    stays_s: list[float] = field(default_factory=list)

    def lives(self, seconds: float, arrivals: list[tuple[float, str]]) -> None:
        end_s, coming = self.now_s + seconds, sorted(arrivals, reverse=True)
        while self.now_s < end_s:
            self.now_s += 0.1
            while coming and coming[-1][0] <= self.now_s:
                at_s, name = coming.pop()
                self.models[name].queue.append(at_s)
            self._settle()
            changes = decide([self._member(name, one) for name, one in self.models.items()], self.room)
            for name in changes.enter:
                one = self.models[name]
                one.place, one.until_s, self.loads = Place.LOADING, self.now_s + 2, self.loads + 1
            for name in changes.leave:
                one = self.models[name]
                self.stays_s.append(self.now_s - one.ready_at_s)
                one.place, one.until_s = Place.LEAVING, self.now_s + 1
            taken = sum(one.size for one in self.models.values() if one.place is not Place.OUT)
            assert taken <= self.room.memory_bytes

    def _settle(self) -> None:
        for one in self.models.values():
            if one.place is Place.LOADING and one.until_s <= self.now_s:
                one.place, one.ready_at_s = Place.READY, self.now_s
            elif one.place is Place.LEAVING and one.until_s <= self.now_s:
                one.place = Place.OUT
            if one.place is Place.READY and one.queue:
                self.waited_s += [self.now_s - at_s for at_s in one.queue]
                one.queue, one.used_at_s = [], self.now_s

    def _member(self, name: str, one: _Simulated) -> Member:
        return Member(
            ModelId(name),
            one.size,
            one.place,
            waits_s=self.now_s - one.queue[0] if one.queue and one.place is Place.OUT else None,
            ready_for_s=self.now_s - one.ready_at_s,
            idle_s=self.now_s - one.used_at_s,
        )


def test_two_models_in_the_room_of_one_take_turns_and_all_that_wait_come_in_together() -> None:
    pool = Pool(Room(100, 2.0, 5.0), {"a": _Simulated(100), "b": _Simulated(100)})
    pool.lives(120, [(second / 4, "ab"[second % 2]) for second in range(400)])
    assert len(pool.waited_s) == 400
    assert min(pool.stays_s) >= 5.0
    assert pool.loads <= 120 / (5 + 1 + 2) + 1
    assert max(pool.waited_s) <= 5 + 2 * (1 + 2) + 0.5  # its time, and a change to the other and back


def test_twenty_models_in_the_room_of_five_serve_all_that_is_asked_of_them() -> None:
    chance = random.Random(7)
    names = [f"m{index}" for index in range(20)]
    pool = Pool(Room(500, 2.0, 5.0), {name: _Simulated(100) for name in names})
    popular = [1 / rank for rank in range(1, 21)]
    pool.lives(640, [(float(at), chance.choices(names, popular)[0]) for at in range(600)])
    assert len(pool.waited_s) == 600
    assert min(pool.stays_s) >= 5.0
    assert sum(wait <= 0.2 for wait in pool.waited_s) / 600 >= 0.35  # four in ten find their model loaded
    assert max(pool.waited_s) <= 10


def test_models_that_are_asked_seldom_cost_no_swap_of_those_that_are_busy_before_the_longest_wait() -> None:
    pool = Pool(Room(100, 30.0, 5.0), {"busy": _Simulated(100), "seldom": _Simulated(100)})
    pool.lives(60, [*((tick / 2, "busy") for tick in range(120)), (20.0, "seldom")])
    waits = [one for one in pool.waited_s if one > 10]
    assert max(waits) >= 30.0
    assert pool.loads <= 3


def test_what_is_used_all_the_time_stays() -> None:
    pool = Pool(Room(200, 2.0, 5.0), {name: _Simulated(100) for name in ("busy", "x", "y", "z")})
    others = [(5.0 + 12 * index, "xyz"[index % 3]) for index in range(20)]
    pool.lives(250, [*((tick / 5, "busy") for tick in range(1250)), *others])
    assert pool.loads == 1 + 20  # the busy one once
