"""How much memory requests may take that wait."""

import pytest

from conch_gateway.placement.waiting_room import WaitingRoom
from conch_kit.errors import RateLimited


def test_what_waits_has_a_bound_and_leaves_its_room_to_others() -> None:
    room = WaitingRoom(10, "start")
    with room.taken(6):
        with pytest.raises(RateLimited, match="for engines that start"), room.taken(5):
            pass
        with room.taken(4):
            pass
    with room.taken(10):
        pass
