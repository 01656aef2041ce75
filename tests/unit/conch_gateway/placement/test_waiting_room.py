"""How much memory requests may take that wait."""

import pytest

from conch_gateway.placement.waiting_room import WaitingRoom
from conch_kit.errors import RateLimited


def later() -> float:
    return 7.0


def test_what_waits_has_a_bound_and_leaves_its_room_to_others() -> None:
    room = WaitingRoom(10)
    with room.taken(6, "a worker", later):
        with pytest.raises(RateLimited, match="waits here for an engine"), room.taken(5, "an engine", later):
            pass
        with room.taken(4, "an engine", later):
            pass
    with room.taken(10, "an engine", later):
        pass
    with room.taken(5, "an engine", later, part=0.5):
        with pytest.raises(RateLimited) as refused, room.taken(1, "an engine", later, part=0.5):
            pass
        assert refused.value.retry_after_s == 7.0
        with room.taken(5, "an engine", later):
            pass
