"""Pure: which models of one pool come in now, and which have to go for them.

Who is in stays until its room is needed. Those that somebody waits for come in their turn, the one first that is waited
for longest; all requests that wait for a model come in with it. For its sake goes who has had nothing to do for a
while, the one first that was used longest ago. Where all are busy a waiter is put off, for `max_wait` at most; then one
of them goes that has had its time. Who goes is still in until its requests have ended, so room is promised before it is
there, and nobody else gets it meanwhile.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from conch_contracts.names import ModelId


class Place(StrEnum):
    """Where a model is."""

    OUT = "out"
    LOADING = "loading"
    READY = "ready"
    LEAVING = "leaving"
    """It still takes its room."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much a pool holds, and how its models take turns."""

    memory_bytes: int
    max_wait_s: float
    min_resident_s: float
    max_models: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One model of a pool, as far as it matters for who is in."""

    model: ModelId
    size_bytes: int
    place: Place
    pinned: bool = False
    waits_s: float | None = None
    """How long somebody has waited for it to come in; None: nobody does."""
    may_force: bool = True
    """Whether one that is busy may have to go for it; else it comes when there is room."""
    ready_for_s: float = 0.0
    """How long it has been in and ready."""
    idle_s: float = 0.0
    """How long it has had nothing to do; 0 while it has."""
    asked_for: bool = True
    """Whether anybody has asked for it since it is in; if not, it stays for nobody's sake."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to happen now."""

    enter: tuple[ModelId, ...] = ()
    leave: tuple[ModelId, ...] = ()


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left of a room; less than nothing where more is in, or was promised."""

    memory_bytes: int
    models: float

    def with_in(self, *sizes: int) -> "_Left":
        return _Left(self.memory_bytes - sum(sizes), self.models - len(sizes))

    def without(self, gone: Iterable[Member]) -> "_Left":
        sizes = [member.size_bytes for member in gone]
        return _Left(self.memory_bytes + sum(sizes), self.models + len(sizes))

    def holds(self, size_bytes: int) -> bool:
        return size_bytes <= self.memory_bytes and self.models >= 1

    @property
    def overfull(self) -> bool:
        return self.memory_bytes < 0 or self.models < 0


def decide(members: Sequence[Member], room: Room) -> Changes:
    """Return who comes in and who has to go; those that do not fit at all are not among the members."""
    inside = [member for member in members if member.place is not Place.OUT]
    staying = [member for member in inside if member.place is not Place.LEAVING]
    now, later = _left(inside, room), _left(staying, room)
    # Models may have turned out larger than was thought, and a pool may have been made smaller.
    leave = _least_used(staying, lambda one: _had_its_time(one, room), lambda gone: not later.without(gone).overfull)
    later = later.without(leave)
    enter: list[Member] = []
    for waiter in _in_turn(members):
        size = waiter.size_bytes
        gone = _gone_for(waiter, [one for one in staying if one not in leave], later, room)
        if later.without(gone).holds(size):
            leave += gone
            later = later.without(gone).with_in(size)
            if now.holds(size):
                now = now.with_in(size)
                enter.append(waiter)
        elif waiter.may_force:
            break  # the next ones would take the room for which it waits
    return Changes(tuple(one.model for one in enter), tuple(one.model for one in leave))


def fits_at_all(size_bytes: int, room: Room, pinned_bytes: Iterable[int]) -> bool:
    """Return whether a model has room beside those others that are pinned."""
    return _Left(room.memory_bytes, _most(room)).with_in(*pinned_bytes).holds(size_bytes)


def _left(inside: Iterable[Member], room: Room) -> _Left:
    return _Left(room.memory_bytes, _most(room)).with_in(*(member.size_bytes for member in inside))


def _most(room: Room) -> float:
    return inf if room.max_models is None else room.max_models


def _in_turn(members: Iterable[Member]) -> list[Member]:
    waiting = [member for member in members if member.place is Place.OUT and member.waits_s is not None]
    return sorted(waiting, key=lambda one: (not one.pinned, not one.may_force, -(one.waits_s or 0.0), one.model))


def _had_its_time(member: Member, room: Room) -> bool:
    ready = member.place is Place.READY and not member.pinned
    return ready and (not member.asked_for or member.ready_for_s >= room.min_resident_s)


def _goes_for(waiter: Member, member: Member, room: Room) -> bool:
    """Return whether a model has to go for another one."""
    idle = not member.asked_for or member.idle_s >= room.min_resident_s
    forced = waiter.may_force and (waiter.pinned or (waiter.waits_s or 0.0) >= room.max_wait_s)
    return (idle or forced) and _had_its_time(member, room)


def _gone_for(waiter: Member, staying: Sequence[Member], later: _Left, room: Room) -> list[Member]:
    return _least_used(
        staying,
        lambda one: _goes_for(waiter, one, room),
        lambda gone: later.without(gone).holds(waiter.size_bytes),
    )


def _least_used(
    members: Iterable[Member], may_go: Callable[[Member], bool], enough: Callable[[Sequence[Member]], bool]
) -> list[Member]:
    """Return the least used of those that may go until it is enough, and none of them in vain."""
    gone: list[Member] = []
    for member in sorted(
        filter(may_go, members), key=lambda one: (one.asked_for, -one.idle_s, -one.ready_for_s, one.model)
    ):
        if enough(gone):
            break
        gone.append(member)
    for member in gone[::-1]:
        rest = [one for one in gone if one is not member]
        if enough(rest):
            gone = rest
    return gone
