import asyncio
import copy
import time
from typing import Any

import pytest

from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.api.lease import Leadership, LeaseTimes


class Leases(KubernetesApi):
    """An API server with one Lease, which refuses writes to an older version of it."""

    def __init__(self) -> None:
        super().__init__()
        self.lease: Object | None = None
        self.down = False
        self.hangs = False
        self.created = "2026-01-01T00:00:00Z"

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        self._answer()
        if self.hangs:
            await asyncio.Event().wait()
        return copy.deepcopy(self.lease)

    async def create(self, kind: Kind, made: Object) -> Object:
        self._answer()
        given = {"resourceVersion": "1", "creationTimestamp": self.created}
        self.lease = {**made, "metadata": {**made["metadata"], **given}}
        return self.lease

    async def replace(self, kind: Kind, made: Object) -> Object:
        self._answer()
        assert self.lease is not None
        version = self.lease["metadata"]["resourceVersion"]
        if made["metadata"]["resourceVersion"] != version:
            raise ApiError(409, "the object has been modified")
        self.lease = {**made, "metadata": {**made["metadata"], "resourceVersion": str(int(version) + 1)}}
        return self.lease

    def _answer(self) -> None:
        if self.down:
            raise ApiError(0, "no answer")


class World:
    def __init__(self) -> None:
        self.api = Leases()
        self.now = 0.0

    def operator(self, name: str) -> Leadership:
        return Leadership(self.api, ("conch", "lease"), name, clock=lambda: self.now)

    def spec(self) -> Any:
        assert self.api.lease is not None
        return self.api.lease["spec"]


@pytest.fixture
def world() -> World:
    return World()


async def test_the_first_gets_it_and_the_second_does_not(world: World) -> None:
    first, second = world.operator("a"), world.operator("b")
    assert await first.take_or_renew()
    assert not await second.take_or_renew()
    assert (first.is_held(), second.is_held()) == (True, False)
    assert world.spec()["holderIdentity"] == "a"


async def test_it_is_taken_when_it_was_not_renewed_by_the_clock_of_who_takes_it(world: World) -> None:
    first, second = world.operator("a"), world.operator("b")
    await first.take_or_renew()
    await second.take_or_renew()
    world.now = 14.9
    assert not await second.take_or_renew()
    world.now = 15.0
    assert await second.take_or_renew()
    assert second.transitions == first.transitions + 1


async def test_each_renewal_begins_the_time_anew(world: World) -> None:
    first, second = world.operator("a"), world.operator("b")
    await first.take_or_renew()
    for now in (5.0, 10.0, 15.0, 20.0):
        world.now = now
        assert await first.take_or_renew()
        assert not await second.take_or_renew()
    assert first.transitions == 1


async def test_its_holder_stops_writing_before_anybody_else_may_begin(world: World) -> None:
    first = world.operator("a")
    await first.take_or_renew()
    world.api.down = True
    world.now = 9.9
    assert not await first.take_or_renew()
    assert first.is_held()
    world.now = 10.0
    assert not first.is_held()


async def test_an_attempt_that_hangs_leaves_time_for_another(world: World) -> None:
    first = Leadership(world.api, ("conch", "lease"), "a", LeaseTimes(15, 0.2, 0.1), clock=lambda: world.now)
    await first.take_or_renew()
    world.api.hangs = True
    assert not await asyncio.wait_for(first.take_or_renew(), 30)
    world.api.hangs = False
    assert first.is_held()
    assert await first.take_or_renew()


async def test_a_renewal_counts_from_when_it_was_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = world.operator("a")
    await first.take_or_renew()
    replace = world.api.replace

    async def slow(kind: Kind, made: Object) -> Object:
        world.now += 4  # somebody else may have seen it written at any moment of these
        return await replace(kind, made)

    monkeypatch.setattr(world.api, "replace", slow)
    world.now = 5.0
    assert await first.take_or_renew()
    world.now = 14.9
    assert first.is_held()
    world.now = 15.0
    assert not first.is_held()


async def test_a_lease_that_somebody_else_has_taken_is_not_given_back(world: World) -> None:
    first = world.operator("a")
    await first.take_or_renew()
    world.spec()["holderIdentity"] = "b"
    await first.release()
    assert world.spec()["holderIdentity"] == "b"


async def test_one_that_slept_too_long_finds_it_lost(world: World) -> None:
    first, second = world.operator("a"), world.operator("b")
    await first.take_or_renew()
    await second.take_or_renew()
    world.now = 16.0
    assert await second.take_or_renew()
    assert not first.is_held()
    assert not await first.take_or_renew()


async def test_a_holder_that_starts_again_gets_a_new_fence(world: World) -> None:
    first = world.operator("a")
    await first.take_or_renew()
    again = world.operator("a")
    assert await again.take_or_renew()
    assert again.transitions == 2


async def test_it_is_given_back_at_the_end(world: World) -> None:
    first, second = world.operator("a"), world.operator("b")
    await first.take_or_renew()
    await first.release()
    assert not first.is_held()
    assert await second.take_or_renew()


async def test_a_lease_without_a_spec_is_free(world: World) -> None:
    world.api.lease = {
        "metadata": {
            "name": "lease",
            "namespace": "conch",
            "resourceVersion": "1",
            "creationTimestamp": world.api.created,
        }
    }
    assert await world.operator("a").take_or_renew()


async def test_the_fence_grows_with_every_holder_and_with_a_lease_that_is_made_again(world: World) -> None:
    fences = []
    for name in ("a", "b", "a"):
        operator = world.operator(name)
        await operator.acquire()
        fences.append(operator.fence)
        await operator.release()
    world.api.lease = None  # the release was removed and installed again
    world.api.created = "2026-01-01T00:00:01Z"
    again = world.operator("a")
    await again.acquire()
    assert again.transitions == 1
    fences.append(again.fence)
    assert fences == sorted(set(fences))
    assert fences[-1] < 2**53


async def test_the_fence_of_a_lease_that_is_made_again_is_larger_however_often_the_first_changed_hands(
    world: World,
) -> None:
    first = world.operator("a")
    await first.acquire()
    world.spec()["leaseTransitions"] = 3 * 2**20
    restarted = world.operator("a")
    await restarted.acquire()
    world.api.lease = None
    world.api.created = "2026-01-01T00:00:01Z"
    again = world.operator("a")
    await again.acquire()
    assert first.fence < restarted.fence < again.fence


async def test_who_takes_it_over_gets_it_at_once_and_begins_when_its_holder_must_have_stopped(world: World) -> None:
    first = world.operator("a")
    await first.acquire()
    last = Leadership(world.api, ("conch", "lease"), "b", LeaseTimes(15, 0.02, 0.01), clock=lambda: world.now)
    began = time.monotonic()
    await last.take_over()
    assert time.monotonic() - began >= 0.02
    assert last.is_held()
    assert not await first.take_or_renew()
    assert not first.is_held()


async def test_one_that_does_not_hold_it_gives_nothing_back(world: World) -> None:
    first, second = world.operator("a"), world.operator("b")
    await first.take_or_renew()
    world.spec()["holderIdentity"] = "b"
    await second.release()
    assert world.spec()["holderIdentity"] == "b"


async def test_the_end_waits_for_no_api_server_that_is_away(world: World) -> None:
    first = world.operator("a")
    await first.take_or_renew()
    world.api.down = True
    await first.release()
    assert not first.is_held()


@pytest.mark.parametrize("taken", [True, False])
async def test_holding_ends_when_somebody_else_has_it_or_nobody_answers(world: World, taken: bool) -> None:
    first = Leadership(world.api, ("conch", "lease"), "a", LeaseTimes(15, 0.2, 0.01))
    await first.take_or_renew()
    if taken:
        world.spec()["holderIdentity"] = "b"
    else:
        world.api.down = True
    await asyncio.wait_for(first.hold(), 30)
    assert not first.is_held()


async def test_a_lease_that_has_changed_hands_for_ever_has_no_fence_of_a_later_one(world: World) -> None:
    first, second = world.operator("a"), world.operator("b")
    await first.take_or_renew()
    world.spec()["leaseTransitions"] = 10**15
    first = world.operator("a")
    await first.take_or_renew()
    world.api.lease, world.api.created = None, "2026-01-01T00:00:01Z"
    await second.take_or_renew()
    assert first.fence < second.fence
