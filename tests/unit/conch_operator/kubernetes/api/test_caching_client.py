"""Lists that watches keep, on a server that ends, cuts, forgets and hides what a real one may."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from conch_operator.kubernetes.api import client
from conch_operator.kubernetes.api.backoff import Attempts
from conch_operator.kubernetes.api.caching_client import CachingApi
from conch_operator.kubernetes.api.client import ApiError
from conch_operator.kubernetes.api.kinds import DEPLOYMENT, Object
from conch_operator.kubernetes.api.object_selection import Listed, ObjectSelection
from testkit.kubernetes.watched_server import WatchedServer, event_line, watched_server
from testkit.waiting import eventually

MADE = {"metadata": {"name": "a", "namespace": "ns", "annotations": {"said": "by us"}}}


class Reading:
    """A client of a server with one object, `a`, and how often it was told that something has changed."""

    def __init__(self, server: WatchedServer, api: CachingApi) -> None:
        self.server = server
        self.api = api
        self.changes = 0
        api.subscribe(self.note_change)

    def note_change(self) -> None:
        self.changes += 1

    async def items(self) -> dict[str, Object]:
        found = await self.api.list_watched(DEPLOYMENT, "ns", labels="kept=yes,kept")
        return {item["metadata"]["name"]: item for item in found}

    async def said(self) -> dict[str, str]:
        return {name: item["metadata"]["annotations"]["said"] for name, item in (await self.items()).items()}

    async def until(self, **expected: str) -> None:
        while (found := await self.known()) != expected:
            await self.change_after(self.changes, f"{expected} instead of {found}")

    async def until_unknown(self) -> None:
        for _ in range(3000):
            if await self.known() is None:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("reads do not fail")

    async def read_on(self) -> None:
        for _ in range(3000):
            await self.items()
            await asyncio.sleep(0.01)

    async def known(self) -> dict[str, str] | None:
        """Return what is said, None while nothing is known."""
        try:
            return await self.said()
        except ApiError:
            return None

    async def change_after(self, changes: int, what: str) -> None:
        await eventually(lambda: self.changes > changes, what)

    async def watched(self, count: int = 1) -> None:
        await eventually(lambda: len(self.server.watches) == count, f"{count} watches")


@asynccontextmanager
async def reading(folder: Path, patch: pytest.MonkeyPatch, silent_s: float = 60) -> AsyncIterator[Reading]:
    async with watched_server(folder, patch) as server, CachingApi(lambda: True, Attempts(), silent_s) as api:
        found = Reading(server, api)
        server.put("a")
        assert await found.said() == {"a": ""}
        await found.watched()
        yield found


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reading]:
    async with reading(tmp_path, monkeypatch) as found:
        yield found


async def test_everything_is_listed_once_and_then_told(world: Reading) -> None:
    world.server.put("b", "new")
    await world.until(a="", b="new")
    world.server.put("a", "changed")
    await world.until(a="changed", b="new")
    world.server.remove("b")
    await world.until(a="changed")
    assert world.server.lists() == 1
    _, watch_query = world.server.asked
    assert watch_query == {
        "labelSelector": "kept=yes,kept",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "101",
        "timeoutSeconds": "48",
    }
    assert "managedFields" not in (await world.items())["a"]["metadata"]


async def test_objects_that_come_or_change_are_told_of_to_who_asked_for_theirs(world: Reading) -> None:
    seen: list[str] = []
    world.api.on_seen(DEPLOYMENT, "kept=yes,kept", lambda item: seen.append(item["metadata"]["name"]))
    world.api.on_seen(DEPLOYMENT, "other", lambda item: seen.append("other"))
    world.server.put("b", "new")
    await world.until(a="", b="new")
    world.server.put("a", "changed")
    await world.until(a="changed", b="new")
    world.server.remove("b")
    await world.until(a="changed")
    assert seen == ["b", "a"]


async def test_metadata_alone_is_asked_for_and_kept_where_that_is_enough(world: Reading) -> None:
    (found,) = await world.api.list_watched(DEPLOYMENT, "ns", metadata_only=True)
    assert found.keys() == {"metadata"}
    await world.watched(2)
    assert [said.split(";")[1] for said in world.server.accepted[2:]] == [
        "as=PartialObjectMetadataList",
        "as=PartialObjectMetadata",
    ]


async def test_a_list_is_read_page_by_page_and_begun_anew_where_a_page_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    async with watched_server(tmp_path, monkeypatch) as server, CachingApi(lambda: True, Attempts(), 60) as api:
        world = Reading(server, api)
        for name in "abcde":
            server.put(name)
        server.expires_pages = 1
        with pytest.raises(ApiError, match="too old"):
            await world.items()
        await world.until(a="", b="", c="", d="", e="")
        pages = [query.get("continue") for query in server.asked if "limit" in query]
        assert pages == [None, "105/2", None, "105/2", "105/4"]


@pytest.mark.parametrize("as_if_complete", [False, True])
async def test_a_watch_that_is_cut_in_the_middle_of_an_event_goes_on_from_the_last_whole_one(
    world: Reading, as_if_complete: bool
) -> None:
    world.server.put("b")
    await world.until(a="", b="")
    world.server.cut(as_if_complete=as_if_complete)
    world.server.remove("a")
    world.server.put("b", "meanwhile")
    await world.until(b="meanwhile")
    assert world.server.lists() == 1
    assert world.server.asked[-1]["resourceVersion"] == "102"


@pytest.mark.parametrize("line", [b"<html>\n", b"{}\n", b"[]\n"])
async def test_a_watch_that_says_what_is_no_event_is_made_again(world: Reading, line: bytes) -> None:
    world.server.watches[0].put_nowait(line)
    await eventually(lambda: sum("watch" in query for query in world.server.asked) > 1, "another watch")
    world.server.put("b")
    await world.until(a="", b="")


async def test_a_bookmark_is_where_the_next_watch_goes_on(world: Reading) -> None:
    changes = world.changes
    world.server.version = 500
    world.server.bookmark()
    world.server.put("b")
    await world.until(a="", b="")
    assert world.changes == changes + 1, "a bookmark is no change"
    world.server.version = 900
    world.server.bookmark()
    world.server.cut()
    await eventually(lambda: world.server.asked[-1].get("resourceVersion") == "900", "the next watch")


async def test_what_a_watch_cannot_tell_any_more_is_listed(world: Reading) -> None:
    world.server.put("b")
    await world.until(a="", b="")
    world.server.quiet = True
    world.server.remove("a")
    world.server.expire()
    await world.until(b="")
    assert world.server.lists() == 2


async def test_a_deletion_that_was_forgotten_while_the_watch_was_away_is_noticed(world: Reading) -> None:
    world.server.quiet = True
    world.server.put("b")
    world.server.remove("a")
    world.server.forget_history()
    world.server.cut()
    await world.until(b="")
    assert world.server.lists() == 2


async def test_a_watch_that_says_nothing_is_not_trusted_and_its_late_events_count_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reading(tmp_path, monkeypatch, silent_s=0.3) as world:
        server = world.server
        (silent,) = server.watches
        server.watches.clear()
        server.put("a", "unheard")
        await world.until(a="unheard")
        assert server.lists() >= 2
        late = server.items["a"] | {"metadata": server.items["a"]["metadata"] | {"annotations": {"said": "late"}}}
        silent.put_nowait(event_line("MODIFIED", late))
        server.put("b")
        await world.until(a="unheard", b="")


async def test_what_we_write_is_read_at_once_and_nothing_older_replaces_it(world: Reading) -> None:
    world.server.quiet = True
    world.server.put("a", "by somebody, before us")
    await world.api.apply(DEPLOYMENT, MADE)
    assert await world.said() == {"a": "by us"}
    changes = world.changes
    world.server.tell_next()
    await world.change_after(changes, "the event of before")
    assert await world.said() == {"a": "by us"}
    world.server.speak()
    world.server.put("a", "by somebody, after us")
    await world.until(a="by somebody, after us")


async def test_what_is_not_understood_ends_the_process_and_not_the_watch_alone(world: Reading) -> None:
    strange = world.server.items["a"] | {"metadata": world.server.items["a"]["metadata"] | {"resourceVersion": "x"}}
    world.server.watches[0].put_nowait(event_line("MODIFIED", strange))
    with pytest.raises(ValueError, match="invalid literal"):
        await world.read_on()


class Strange(CachingApi):
    """A client of a server whose lists have no version that anybody understands."""

    async def list_selected(self, selection: ObjectSelection) -> Listed:
        return Listed([], "x")


async def test_what_is_not_understood_at_first_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched_server(tmp_path, monkeypatch), Strange(lambda: True, Attempts(), 60) as api:
        with pytest.raises(ValueError, match="invalid literal"):
            await asyncio.wait_for(api.list_watched(DEPLOYMENT, "ns"), 30)


async def test_our_own_writes_are_no_news(world: Reading) -> None:
    world.server.quiet = True
    await world.api.apply(DEPLOYMENT, MADE)
    changes = world.changes
    world.server.speak()
    world.server.put("b")
    await world.until(a="by us", b="")
    assert world.changes == changes + 1


async def test_what_has_gone_does_not_come_back_with_a_late_answer(world: Reading) -> None:
    answer = world.server.put("b", "written by us")
    world.server.remove("b")
    world.server.put("c")
    await world.until(a="", c="")
    world.api._wrote(answer)
    assert await world.said() == {"a": "", "c": ""}


async def test_what_we_delete_is_gone_at_once(world: Reading) -> None:
    world.server.quiet = True
    await world.api.delete(DEPLOYMENT, (await world.items())["a"])
    assert await world.said() == {}


async def test_what_we_write_is_in_no_list_that_it_does_not_belong_to(world: Reading) -> None:
    world.server.quiet = True
    world.api._wrote(world.server.put("other", kept="no"))
    kept = world.server.put("kept")
    world.api._wrote(kept | {"metadata": kept["metadata"] | {"name": "elsewhere", "namespace": "other"}})
    world.api._wrote(kept)
    assert await world.said() == {"a": "", "kept": ""}


async def test_nothing_is_known_while_the_server_is_away_and_the_watch_goes_on_after_that(world: Reading) -> None:
    known_again: list[None] = []
    world.api.on_known_again(lambda: known_again.append(None))
    world.server.away = True
    world.server.cut()
    await eventually(lambda: not world.server.watches, "the end of the watch")
    await world.until_unknown()
    with pytest.raises(ApiError, match="does not answer"):
        await world.items()
    assert known_again == []
    world.server.put("b")
    world.server.away = False
    await world.until(a="", b="")
    assert world.server.lists() == 1
    assert known_again == [None]
