import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
from prometheus_client import CollectorRegistry

from conch_contracts.messages.tokenizer_frames import Operation, ReplyKind
from conch_contracts.names import Digest
from conch_kit import frames
from conch_kit.errors import InvalidRequest, Unavailable
from conch_kit.frames import Frame, FrameReader
from conch_kit.tracing import tracer
from conch_tokenizer.children.connection import ChildConnection
from conch_tokenizer.children.limits import TimeLimits
from conch_tokenizer.children.pool import Bundle, ChildPool, ChildPoolSettings
from conch_tokenizer.children.service_orders import LoadOrder
from conch_tokenizer.errors import BundleMissing, BundleUnreadable, ChildFailed, ChildHung, ChildLost, WorkStage
from conch_tokenizer.metrics import TokenizerMetrics
from testkit.waiting import eventually

BUNDLE = Bundle(Digest("0" * 64), Path("/folder"))
Answer = Frame | None
"""None: the child dies."""


class FakeChild(asyncio.Transport):
    """The far end of a connection: answers each request as the script says, or waits for `say`."""

    def __init__(self, connection: ChildConnection, script: Callable[[Frame], Answer] | None) -> None:
        super().__init__()
        self.connection = connection
        self.requests: list[Frame] = []
        self.arrived: asyncio.Queue[Frame] = asyncio.Queue()
        self._script = script
        self._reader = FrameReader()
        connection.connection_made(self)
        self.say(Frame(ReplyKind.READY, b"1"))

    def say(self, frame: Frame) -> None:
        self.connection.data_received(frames.pack(frame.kind, frame.payload))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        for request in self._reader.feed(bytes(data)):
            self.requests.append(request)
            self.arrived.put_nowait(request)
            if self._script is None:
                continue
            answer = self._script(request)
            act = self.abort if answer is None else lambda answer=answer: self.say(answer)
            asyncio.get_running_loop().call_soon(act)

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)


class FakeSource:
    """Spawns fake children; the n-th follows the n-th script, the last script serves all later ones."""

    def __init__(self, *scripts: Callable[[Frame], Answer] | None) -> None:
        self._scripts = scripts
        self.children: list[FakeChild] = []

    async def spawn(self, row: int) -> ChildConnection:
        connection = ChildConnection(len(self.children), lambda: None, row=row)
        script = self._scripts[min(len(self.children), len(self._scripts) - 1)]
        self.children.append(FakeChild(connection, script))
        return connection

    async def restart(self) -> None:
        raise AssertionError("every fake child is ready at once")


def echo(request: Frame) -> Answer:
    return Frame(ReplyKind.DONE, request.payload)


def dies(_: Frame) -> Answer:
    return None


@asynccontextmanager
async def pool_of(source: FakeSource, size: int = 1, **changes: float) -> AsyncIterator[ChildPool]:
    settings = ChildPoolSettings(
        size=size,
        first_row=1,
        models_in_memory=2,
        queue_wait_s=changes.get("queue_wait_s", 60),
        queue_max=int(changes.get("queue_max", 10)),
        limits=TimeLimits(template_s=60, encode_s=60, load_s=60),
        respawn_delay_s=changes.get("respawn_delay_s", 0),
    )
    async with ChildPool(source, settings, TokenizerMetrics(CollectorRegistry()), tracer("test", None)) as pool:
        await pool.wait_ready()
        yield pool


async def test_a_request_is_answered_by_a_child() -> None:
    async with pool_of(FakeSource(echo)) as pool:
        assert await pool.run(Operation.PREPARE, b"[1]") == b"[1]"
        assert pool.alive == 1


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (
            Frame(ReplyKind.REFUSED, orjson.dumps({"error": {"message": "m", "param": "p", "code": "c"}})),
            InvalidRequest,
        ),
        (Frame(ReplyKind.MISSING, BUNDLE.digest.encode()), BundleMissing),
        (Frame(ReplyKind.UNREADABLE, b"why"), BundleUnreadable),
        (Frame(ReplyKind.FAILED, b""), ChildFailed),
    ],
)
async def test_each_reply_has_its_error(reply: Frame, error: type[Exception]) -> None:
    async with pool_of(FakeSource(lambda _: reply)) as pool:
        with pytest.raises(error):
            await pool.run(Operation.PREPARE, b"{}")


async def test_a_request_whose_child_dies_is_tried_once_more() -> None:
    source = FakeSource(dies, echo)
    async with pool_of(source) as pool:
        assert await pool.run(Operation.PREPARE, b"[1]") == b"[1]"
        assert len(source.children) == 2


async def test_a_request_that_kills_two_children_is_not_tried_again() -> None:
    source = FakeSource(dies, dies, echo)
    async with pool_of(source) as pool:
        with pytest.raises(ChildLost):
            await pool.run(Operation.PREPARE, b"[1]")
        assert await pool.run(Operation.PREPARE, b"[2]") == b"[2]"


async def test_nothing_is_left_of_children_that_ended_idle() -> None:
    source = FakeSource(echo)
    async with pool_of(source, size=2) as pool:
        await eventually(lambda: pool.alive == 2, "both children")
        for ended in range(3):
            first = source.children[ended].connection
            left = weakref.ref(first)
            first.kill()
            await eventually(lambda wanted=3 + ended: len(source.children) == wanted, "the next one")
            assert await pool.run(Operation.PREPARE, b"[1]") == b"[1]"
            source.children[ended] = first = None
            gc.collect()
            assert left() is None


async def test_children_on_demand_come_with_the_first_request_and_load_in_their_own_way() -> None:
    source = FakeSource(dies, echo)
    settings = ChildPoolSettings(
        size=1,
        first_row=1,
        models_in_memory=2,
        queue_wait_s=60,
        queue_max=10,
        limits=TimeLimits(template_s=60, encode_s=60, load_s=60),
        load=Operation.LOAD_FOR_GRAMMARS,
        on_demand=True,
        tries_again=False,
    )
    async with ChildPool(source, settings, TokenizerMetrics(CollectorRegistry()), tracer("test", None)) as pool:
        await asyncio.sleep(0)
        assert source.children == []
        with pytest.raises(ChildLost):
            await pool.run(Operation.CHECK_GRAMMAR, b"[1]")
        assert await pool.run(Operation.CHECK_GRAMMAR, b"[2]", BUNDLE) == b"[2]"
    kinds = [frame.kind for child in source.children[:2] for frame in child.requests]
    assert kinds == [Operation.CHECK_GRAMMAR, Operation.LOAD_FOR_GRAMMARS, Operation.CHECK_GRAMMAR]


async def test_a_new_child_loads_what_the_last_one_had_loaded() -> None:
    source = FakeSource(dies, echo)
    async with pool_of(source) as pool:
        await pool.run(Operation.PREPARE, b"[1]", BUNDLE)
    load = Frame(Operation.LOAD, LoadOrder(BUNDLE.digest, BUNDLE.folder).pack())
    assert source.children[1].requests[0] == load


async def test_a_new_child_loads_no_more_than_what_is_kept_in_memory() -> None:
    source = FakeSource(echo)
    bundles = [Bundle(Digest(f"{number}" * 64), Path("/folder")) for number in range(3)]
    async with pool_of(source) as pool:
        for bundle in bundles:
            await pool.run(Operation.PREPARE, b"{}", bundle)
        source.children[0].connection.kill()
        await pool.run(Operation.PREPARE, b"{}")
        loaded = [frame.payload for frame in source.children[1].requests if frame.kind == Operation.LOAD]
        assert loaded == [LoadOrder(bundle.digest, bundle.folder).pack() for bundle in bundles[1:]]


async def test_children_that_never_get_ready_are_looked_for_in_a_new_source(monkeypatch: pytest.MonkeyPatch) -> None:
    restarted = asyncio.Event()
    killed: list[int] = []

    class Mute(FakeSource):
        """Its children say nothing until it has been made anew."""

        async def spawn(self, row: int) -> ChildConnection:
            return await super().spawn(row) if restarted.is_set() else ChildConnection(99, lambda: killed.append(99))

        async def restart(self) -> None:
            restarted.set()

    monkeypatch.setattr("conch_tokenizer.children.pool._START_TIMEOUT_S", 0.01)
    async with pool_of(Mute(echo)) as pool:
        assert await pool.run(Operation.PREPARE, b"[1]") == b"[1]"
    assert restarted.is_set()
    assert killed == [99]


@pytest.mark.parametrize(("stage", "again"), [(WorkStage.UNREAD, True), (WorkStage.BEGUN, False)])
async def test_a_request_that_its_child_never_looked_at_is_tried_once_more(stage: WorkStage, again: bool) -> None:
    async with pool_of(FakeSource(echo)) as pool:
        running = pool.run_after(ChildHung(1, stage), Operation.PREPARE, b"[1]")
        if again:
            assert await running == b"[1]"
        else:
            with pytest.raises(ChildHung):
                await running


async def test_an_idle_child_with_lanes_is_asked_for_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched:
        """Lanes that only hear of children."""

        def started(self, child: ChildConnection) -> None:
            """Hear of one."""

        def ended(self, child: ChildConnection) -> None:
            """Hear of its end."""

    monkeypatch.setattr("conch_tokenizer.children.pool._PING_S", 0.01)
    source = FakeSource(echo)
    settings = ChildPoolSettings(
        size=1, first_row=1, models_in_memory=2, queue_wait_s=60, queue_max=10, limits=TimeLimits(60, 60, 60)
    )
    metrics, spans = TokenizerMetrics(CollectorRegistry()), tracer("test", None)
    async with ChildPool(source, settings, metrics, spans, Watched()) as pool:
        await pool.wait_ready()
        asked = source.children[0].requests
        await eventually(lambda: [frame.kind for frame in asked[:2]] == [Operation.PING] * 2, "two questions")


async def test_no_child_outlives_its_pool() -> None:
    killed: list[int] = []

    class Counted(FakeSource):
        """Notes who is killed."""

        async def spawn(self, row: int) -> ChildConnection:
            connection = ChildConnection(row, lambda: killed.append(row), row=row)
            self.children.append(FakeChild(connection, echo))
            return connection

    async with pool_of(Counted(echo), size=2) as pool:
        await eventually(lambda: pool.alive == 2, "both children")
    assert sorted(killed) == [1, 2]


async def test_a_child_that_has_ended_counts_no_more_and_starts_that_fail_do_not_follow_at_once() -> None:
    class Broken(FakeSource):
        """Gives one child."""

        tries = 0

        async def spawn(self, row: int) -> ChildConnection:
            self.tries += 1
            if self.tries > 1:
                raise OSError("broken")
            return await super().spawn(row)

    source = Broken(echo)
    async with pool_of(source, respawn_delay_s=60) as pool:
        assert pool.alive == 1
        source.children[0].connection.kill()
        await eventually(lambda: source.tries == 2, "another start")
        for _ in range(100):
            await asyncio.sleep(0)
        assert (pool.alive, source.tries) == (0, 2)


async def test_a_bundle_that_kills_children_is_not_loaded_again() -> None:
    source = FakeSource(echo, lambda request: None if request.kind == Operation.LOAD else echo(request), echo)
    async with pool_of(source) as pool:
        await pool.run(Operation.PREPARE, b"[1]", BUNDLE)
        source.children[0].connection.kill()
        assert await pool.run(Operation.PREPARE, b"[2]") == b"[2]"
    assert [request.kind for request in source.children[2].requests] == [Operation.PREPARE]


async def test_requests_wait_for_a_child_in_turn() -> None:
    source = FakeSource(None)
    async with pool_of(source) as pool, asyncio.TaskGroup() as group:
        tasks = [group.create_task(pool.run(Operation.PREPARE, str(number).encode())) for number in range(3)]
        (child,) = source.children
        for task in tasks:
            child.say(Frame(ReplyKind.DONE, (await child.arrived.get()).payload))
            await task
        assert [task.result() for task in tasks] == [b"0", b"1", b"2"]


async def test_a_request_that_waited_too_long_is_refused_as_overload() -> None:
    async with pool_of(FakeSource(None), queue_wait_s=0) as pool:
        busy = asyncio.create_task(pool.run(Operation.PREPARE, b"{}"))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="overloaded") as caught:
            await pool.run(Operation.PREPARE, b"{}")
        assert caught.value.retryable
        busy.cancel()


async def test_who_has_waited_too_long_leaves_room_for_the_next() -> None:
    async with pool_of(FakeSource(None), queue_wait_s=0, queue_max=1) as pool:
        busy = asyncio.create_task(pool.run(Operation.PREPARE, b"{}"))
        await asyncio.sleep(0)
        for _ in range(3):
            with pytest.raises(Unavailable, match="overloaded"):
                await pool.run(Operation.PREPARE, b"{}")
        busy.cancel()


async def test_a_full_queue_refuses_at_once() -> None:
    async with pool_of(FakeSource(None), queue_max=1) as pool:
        tasks = [asyncio.create_task(pool.run(Operation.PREPARE, b"{}")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="too many requests"):
            await pool.run(Operation.PREPARE, b"{}")
        for task in tasks:
            task.cancel()


async def test_a_request_cancelled_in_the_queue_leaves_its_turn_to_the_next() -> None:
    source = FakeSource(None)
    async with pool_of(source) as pool:
        first, second, third = (asyncio.create_task(pool.run(Operation.PREPARE, b"%d" % n)) for n in range(3))
        (child,) = source.children
        child.say(Frame(ReplyKind.DONE, (await child.arrived.get()).payload))
        second.cancel()
        await first
        child.say(Frame(ReplyKind.DONE, (await child.arrived.get()).payload))
        assert await third == b"2"


async def test_a_bundle_is_loaded_in_the_very_child_that_lacks_it() -> None:
    source = FakeSource(None)
    async with pool_of(source, size=2) as pool, asyncio.TaskGroup() as group:
        await eventually(lambda: pool.alive == 2, "both children")
        first, second = source.children
        running = [group.create_task(pool.run(Operation.PREPARE, b"{}")) for _ in range(2)]
        await first.arrived.get()
        await second.arrived.get()
        loading = group.create_task(pool.load(second.connection, BUNDLE))
        await asyncio.sleep(0)
        first.say(Frame(ReplyKind.DONE, b"{}"))
        second.say(Frame(ReplyKind.DONE, b"{}"))
        assert (await second.arrived.get()).kind == Operation.LOAD
        second.say(Frame(ReplyKind.DONE, b""))
        await loading
        assert [await task for task in running] == [b"{}"] * 2
        again = [group.create_task(pool.run(Operation.PREPARE, b"[]")) for _ in range(2)]  # it was given back
        await first.arrived.get()
        await second.arrived.get()
        for each in (first, second):
            each.say(Frame(ReplyKind.DONE, b"{}"))
        assert [await task for task in again] == [b"{}"] * 2
        assert [request.kind for request in first.requests] == [Operation.PREPARE] * 2
