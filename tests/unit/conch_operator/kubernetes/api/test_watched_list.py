"""How a watch that ends goes on, by a source that ends it as often as the test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from conch_operator.kubernetes.api.backoff import Backoff
from conch_operator.kubernetes.api.client import ApiError
from conch_operator.kubernetes.api.kinds import DEPLOYMENT, Object
from conch_operator.kubernetes.api.object_selection import Event, Listed, ObjectSelection
from conch_operator.kubernetes.api.watched_list import WatchedList
from testkit.waiting import eventually

ENDS = 20


def item(version: int) -> Object:
    return {"metadata": {"namespace": "ns", "name": f"n-{version}", "resourceVersion": str(version)}}


class Ending:
    """Ends each watch at once, but for the last one; those that `tell` do so of one object first."""

    def __init__(self, *, tells: bool) -> None:
        self.tells = tells
        self.opened = 0

    async def list_selected(self, selection: ObjectSelection) -> Listed:
        return Listed([], "0")

    @asynccontextmanager
    async def watch(
        self, selection: ObjectSelection, since: str, silent_s: float
    ) -> AsyncIterator[AsyncIterator[Event]]:
        self.opened += 1
        yield self.events(int(since))

    async def events(self, since: int) -> AsyncIterator[Event]:
        if self.opened > ENDS:
            await asyncio.Event().wait()
        yield Event("ADDED", item(since + 1)) if self.tells else Event("BOOKMARK", item(since))


@asynccontextmanager
async def kept(source: Ending, pause_s: float = 0.0) -> AsyncIterator[tuple[WatchedList, list[int]]]:
    """Give a list that is kept, and after how many failures it has paused each time."""
    pauses: list[int] = []

    class Noted(Backoff):
        def pause_s(self, failures: int) -> float:
            pauses.append(failures)
            return pause_s

    found = WatchedList(source, ObjectSelection(DEPLOYMENT, None), lambda: None, 60, Noted())
    keeping = asyncio.create_task(found.run())
    yield found, pauses
    keeping.cancel()
    with suppress(asyncio.CancelledError):
        await keeping


async def test_a_watch_that_has_told_of_something_is_opened_again_at_once_however_soon_it_ends() -> None:
    source = Ending(tells=True)
    async with kept(source) as (found, pauses):
        await eventually(lambda: source.opened > ENDS, "the last watch")
        assert len(await found.read()) == ENDS
        assert pauses == []


async def test_a_watch_that_ends_at_once_and_tells_of_nothing_is_opened_again_more_and_more_seldom() -> None:
    source = Ending(tells=False)
    async with kept(source) as (_, pauses):
        await eventually(lambda: source.opened > ENDS, "the last watch")
        assert pauses == [*range(1, ENDS + 1)]


async def test_what_is_there_is_not_known_while_watches_end_at_once_and_tell_of_nothing() -> None:
    async with kept(Ending(tells=False), pause_s=3600.0) as (found, pauses):
        await eventually(lambda: pauses, "a pause")
        with pytest.raises(ApiError, match="ended as soon as it was opened"):
            await found.read()
