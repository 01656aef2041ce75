"""Answers in the background, on fakes: given as queued, kept at the end, stopped, lost with their gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import pytest

from conch_contracts.names import GENERATE_PATH, PREPARE_PATH
from conch_gateway.responses import background, stored_endpoints
from conch_gateway.responses.store import MAX_RECORD_BYTES, ResponseNote, StopOrder
from conch_kit.errors import UpstreamError
from testkit.gateway.fakes import Answered, FakeAnswer, Gateway, answered, gateway, lost
from testkit.gateway.memory_responses import GoesWithTheAnswer, MemoryResponses
from testkit.waiting import eventually

PATH = "/v1/responses"
LOST = "conch_gateway_responses_lost_total"
ASKED = {"model": "tiny-chat", "input": "hi", "background": True, "metadata": {"a": "b"}}
OUTPUT = [{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": []}]
BODY = orjson.dumps({"object": "response", "status": "completed", "background": True, "output": OUTPUT})


class Running:
    """A gateway with one answer in the background whose worker waits for `go_on`."""

    def __init__(self, store: MemoryResponses | None = None, worker: Any = None, **settings: Any) -> None:
        self.store = store or MemoryResponses()
        self.go_on = asyncio.Event()
        script = worker or (lambda _: FakeAnswer(pieces=(self.go_on, BODY)))
        self.gateway: Gateway = gateway({GENERATE_PATH: script}, responses=self.store, **settings)
        self.request: asyncio.Task[Answered] | None = None

    @property
    def record(self) -> Any:
        """The answer as it is kept."""
        (record,) = self.store.records.values()
        return orjson.loads(record)["response"]

    @property
    def path(self) -> str:
        """Where it can be asked for."""
        ((_, response_id),) = self.store.records
        return f"{PATH}/{response_id}"

    async def begin(self) -> None:
        """Ask, and wait until the worker was asked."""
        self.request = asyncio.create_task(self.gateway.client.post(PATH, ASKED))
        await eventually(lambda: self.gateway.upstream.sent(GENERATE_PATH), "the worker's work")

    async def shown(self) -> Any:
        """Return what a client sees that asks for it."""
        return orjson.loads((await self.gateway.client.get(self.path)).body)

    async def end(self) -> Any:
        """Wait for the end of the work and return what the client was given at first."""
        assert self.request is not None
        return orjson.loads((await asyncio.wait_for(self.request, 30)).body)


@asynccontextmanager
async def running(**more: Any) -> AsyncIterator[Running]:
    found = Running(**more)
    await found.begin()
    try:
        yield found
    finally:
        assert found.request is not None
        found.request.cancel()
        with suppress(asyncio.CancelledError):
            await found.request


async def test_an_answer_that_is_kept_is_given_whole_only() -> None:
    async with running() as one:
        refused = await one.gateway.client.get(one.path, query=b"stream=true")
        assert (refused.status, orjson.loads(refused.body)["error"]["param"]) == (400, "stream")


async def test_the_client_has_it_at_once_as_queued_and_then_as_it_ends() -> None:
    async with running() as one:
        first = one.gateway.client.connections[0].pieces
        assert first, "The answer comes before the work ends."
        queued = orjson.loads(first[0])
        assert (queued["status"], queued["output"], queued["background"], queued["store"]) == ("queued", [], True, True)
        assert (queued["metadata"], queued["temperature"]) == ({"a": "b"}, 1.0)
        assert (queued["usage"]["total_tokens"], queued["usage"]["output_tokens"]) == (3, 0)
        await eventually(lambda: "in_progress" in one.store.notes.values(), "a lease that says that it is in progress")
        assert (await one.shown())["status"] == "in_progress"
        one.go_on.set()
        assert await one.end() == queued
        done = await one.shown()
        assert (done["status"], done["output"], done["store"]) == ("completed", OUTPUT, True)


async def test_a_client_that_hangs_up_ends_nothing() -> None:
    async with running() as one:
        one.gateway.client.hang_up()
        one.go_on.set()
        await one.end()
        assert one.record["status"] == "completed"


async def test_a_cancelled_one_ends_its_work_and_stays_as_cancelled() -> None:
    async with running() as one:
        answer = await one.gateway.client.post(f"{one.path}/cancel", b"")
        assert (answer.status, orjson.loads(answer.body)["status"]) == (200, "cancelled")
        await one.end()
        assert (one.record["status"], one.record["output"]) == ("cancelled", [])
        again = await one.gateway.client.post(f"{one.path}/cancel", b"")
        assert (again.status, orjson.loads(again.body)["status"]) == (200, "cancelled")


async def test_a_cancellation_does_not_wait_for_ever_for_a_gateway_that_does_not_hear_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "_BEAT_S", 3600)
    monkeypatch.setattr(stored_endpoints, "STOPS_WITHIN_S", 0.01)
    async with running() as one:
        answer = await asyncio.wait_for(one.gateway.client.post(f"{one.path}/cancel", b""), 30)
        assert (answer.status, orjson.loads(answer.body)["status"]) == (200, "queued")


async def test_one_that_has_ended_is_not_cancelled_any_more() -> None:
    async with running() as one:
        one.go_on.set()
        await one.end()
        answer = await one.gateway.client.post(f"{one.path}/cancel", b"")
        assert orjson.loads(answer.body)["status"] == "completed"


async def test_a_deleted_one_ends_its_work_and_does_not_come_back() -> None:
    async with running() as one:
        assert (await one.gateway.client.call("DELETE", one.path)).status == 200
        await one.end()
        assert one.store.records == {}


async def test_one_that_fails_says_so() -> None:
    one = Running(worker=lambda _: lost())
    one.request = asyncio.create_task(one.gateway.client.post(PATH, ASKED))
    assert (await one.end())["status"] == "queued"
    shown = await one.shown()
    assert (shown["status"], shown["output"], shown["error"]["code"]) == ("failed", [], "server_error")
    assert shown["error"]["message"] == "The worker broke down."


async def test_one_that_meets_a_fault_of_ours_has_failed_and_leaves_it_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = Running(worker=lambda _: 1 // 0)
    one.request = asyncio.create_task(one.gateway.client.post(PATH, ASKED))
    assert (await one.end())["status"] == "queued"
    shown = await one.shown()
    assert (shown["status"], shown["error"]["code"]) == ("failed", "server_error")
    assert shown["error"]["message"] == "The server had an error while processing the request."
    faults = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert faults == [ZeroDivisionError]


async def test_one_that_is_cut_when_the_server_ends_has_failed() -> None:
    async with running() as one:
        assert one.request is not None
        one.request.cancel()
        with suppress(asyncio.CancelledError):
            await one.request
        assert (one.record["status"], one.record["error"]["message"]) == ("failed", "The server is shutting down.")
        assert one.gateway.upstream.open == 0  # nobody works on it any more


async def test_work_that_does_not_end_holds_up_the_end_of_the_server_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stubborn(FakeAnswer):
        async def read(self) -> bytes:
            while not free.is_set():
                with suppress(asyncio.CancelledError):
                    await free.wait()
            return b""

    free = asyncio.Event()
    monkeypatch.setattr(background, "_LAST_WORDS_S", 0.01)
    one = Running(worker=lambda _: Stubborn())
    await one.begin()
    assert one.request is not None
    one.request.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.wait_for(one.request, 30)
    assert one.record["status"] == "failed"
    free.set()
    await eventually(lambda: one.gateway.upstream.open == 0, "the end of the work")


async def test_one_whose_server_was_lost_has_failed() -> None:
    async with running() as one:
        one.store.notes.clear()  # as it is when nobody renews it
        shown = await one.shown()
        assert (shown["status"], shown["error"]["code"]) == ("failed", "server_error")


async def test_a_conversation_does_not_go_on_from_one_that_is_under_way() -> None:
    async with running() as one:
        previous = one.path.rpartition("/")[2]
        answer = await one.gateway.client.post(PATH, {**ASKED, "previous_response_id": previous})
        assert (answer.status, answer.error["param"], answer.error["code"]) == (
            400,
            "previous_response_id",
            "previous_response_not_ready",
        )


@pytest.mark.parametrize("more", [{"store": False}, {"stream": True}])
async def test_what_cannot_be_in_the_background_is_refused(more: dict[str, bool]) -> None:
    one = Running()
    answer = await one.gateway.client.post(PATH, {**ASKED, **more})
    assert (answer.status, answer.error["param"]) == (400, "background")
    assert one.store.records == {}


async def test_a_bad_request_is_refused_at_once() -> None:
    refused = UpstreamError("The tokenizer is lost.")
    one = gateway({PREPARE_PATH: lambda _: FakeAnswer(pieces=(refused,))}, responses=MemoryResponses())
    answer = await one.client.post(PATH, ASKED)
    assert answer.status == 502


async def test_a_conversation_that_cannot_be_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_RECORD_BYTES", 1000)
    one = Running()
    answer = await one.gateway.client.post(PATH, {**ASKED, "input": "x" * 1000})
    assert (answer.status, answer.error["param"], one.store.records) == (400, "background", {})
    assert one.gateway.upstream.sent(GENERATE_PATH) == []


async def test_without_the_store_there_is_no_background() -> None:
    store = MemoryResponses()
    store.away = True
    answer = await Running(store).gateway.client.post(PATH, ASKED)
    assert (answer.status, answer.error["code"]) == (503, "store_unavailable")


async def test_no_more_run_at_once_than_allowed() -> None:
    async with running(background_responses=1) as one:
        answer = await one.gateway.client.post(PATH, ASKED)
        assert (answer.status, answer.error["type"]) == (429, "rate_limit_error")
        one.go_on.set()
        await one.end()
        one.request = asyncio.create_task(one.gateway.client.post(PATH, ASKED))
        assert (await one.end())["status"] == "queued"


async def test_an_answer_that_is_too_large_to_be_kept_has_failed() -> None:
    huge = orjson.dumps({"object": "response", "status": "completed", "output": ["x" * MAX_RECORD_BYTES]})
    one = Running(worker=answered(huge))
    one.request = asyncio.create_task(one.gateway.client.post(PATH, ASKED))
    await one.end()
    assert one.record["status"] == "failed"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass between two looks."""
    monkeypatch.setattr(background, "_BEAT_S", 0.001)


@pytest.mark.usefixtures("quick")
async def test_work_goes_on_while_the_store_is_away() -> None:
    async with running() as one:
        one.store.away, before = True, one.store.asked
        await eventually(lambda: one.store.asked > before + 1, "two words that could not be heard")
        one.store.away = False
        one.go_on.set()
        await one.end()
        assert one.record["status"] == "completed"


@pytest.mark.usefixtures("quick")
async def test_an_answer_is_kept_when_the_store_comes_back() -> None:
    async with running() as one:
        one.store.away = True
        one.go_on.set()
        await eventually(lambda: one.store.refused > 1, "the answer to be refused twice")
        assert one.record["status"] == "queued"
        one.store.away = False
        await one.end()
        assert one.record["status"] == "completed"
        assert one.gateway.registry.get_sample_value(LOST) == 0


async def test_a_store_that_goes_once_it_has_the_answer_breaks_nothing() -> None:
    async with running(store=GoesWithTheAnswer()) as one:
        one.go_on.set()
        await one.end()
        assert one.record["status"] == "completed"
        labels = {"endpoint": "responses", "model": "tiny-chat", "status": "200", "outcome": "ok"}
        assert one.gateway.registry.get_sample_value("conch_gateway_requests_total", labels) == 1


@pytest.mark.usefixtures("quick")
async def test_an_answer_that_the_store_never_takes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_KEEP_FOR_S", 0)
    async with running() as one:
        one.store.away = True
        one.go_on.set()
        await one.end()
        assert one.gateway.registry.get_sample_value(LOST) == 1


@pytest.mark.usefixtures("quick")
async def test_work_that_takes_long_goes_on_to_say_that_it_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "LEASE_S", 0.004)
    async with running() as one:
        before = one.store.told
        await eventually(lambda: one.store.told > before + 3, "the lease to be renewed")
        one.go_on.set()
        await one.end()


@pytest.mark.usefixtures("quick")
async def test_a_lease_that_lasts_is_not_renewed_at_every_look() -> None:
    async with running() as one:
        await eventually(lambda: one.store.asked > 5, "some looks")
        assert one.store.told <= 2  # that it waits, and that it is worked on
        one.go_on.set()
        await one.end()


async def test_one_that_is_cut_while_the_store_is_away_counts_as_lost() -> None:
    async with running() as one:
        one.store.away = True
        assert one.request is not None
        one.request.cancel()
        with suppress(asyncio.CancelledError):
            await one.request
        assert one.gateway.registry.get_sample_value(LOST) == 1


class EndsMeanwhile(MemoryResponses):
    """A store in which an answer ends between the look at it and the look at its lease."""

    async def note(self, owner: str, response_id: str, note: ResponseNote) -> str | None:
        if note is ResponseNote.LEASE:
            ended = {"response": {**orjson.loads(BODY), "id": response_id}, "input": []}
            self.records[owner, response_id] = orjson.dumps(ended)
            return None
        return await super().note(owner, response_id, note)


async def test_an_answer_that_ends_while_it_is_asked_for_is_not_taken_for_lost() -> None:
    async with running(store=EndsMeanwhile()) as one:
        assert (await one.shown())["status"] == "completed"


async def test_a_word_to_stop_that_comes_with_the_end_still_forgets() -> None:
    async with running() as one:
        ((owner, response_id),) = one.store.records
        one.go_on.set()
        one.store.notes[owner, response_id, ResponseNote.STOP] = "delete"
        await one.end()
        assert one.store.records == {}


class StopsTooLate(MemoryResponses):
    """A store that gives a word to stop when the work has ended meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at = False

    async def note(self, owner: str, response_id: str, note: ResponseNote) -> str | None:
        if note is not ResponseNote.STOP:
            return await super().note(owner, response_id, note)
        self.looked_at = True
        work = [task for task in asyncio.all_tasks() if _is_work(task)]
        if work:
            await asyncio.wait(work)
        return StopOrder.CANCEL


def _is_work(task: asyncio.Task[Any]) -> bool:
    return getattr(task.get_coro(), "__qualname__", "") == "GenerationHandler.answer"


async def test_an_answer_that_was_complete_when_it_was_to_stop_is_kept() -> None:
    store = StopsTooLate()
    async with running(store=store) as one:
        await eventually(lambda: store.looked_at, "a look for a word to stop")
        one.go_on.set()
        await one.end()
        assert (one.record["status"], one.record["output"]) == ("completed", OUTPUT)
