"""Which engine hears a window, with engines that do as a test says and a clock that moves when somebody waits."""

import asyncio
from collections.abc import Callable, Set

import pytest

from conch_contracts.messages.message import changed
from conch_contracts.messages.transcription import SpeechTarget
from conch_contracts.names import EngineAddress
from conch_kit.triton.errors import EngineError, EngineFull, EngineLost, EngineTimeout, EngineUnavailable
from conch_speech_worker.engine.file_engine import LOOK_AGAIN_S, FileEngine, HeldEngine
from conch_speech_worker.transcript.segments import HeardWindow
from testkit.builders.transcriptions import transcribe_request
from testkit.clock import FakeClock
from testkit.models.tone_speech import silence

PATIENCE_S = 30.0
DRAINS, FULL, LOST = EngineUnavailable("Server is stopping"), EngineFull("full"), EngineLost("broke")


def target(name: str) -> SpeechTarget:
    return changed(transcribe_request().target, grpc=EngineAddress(name))


class World:
    """Engines by name, each with what it answers next; one without a script hears."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.ready: list[str] = []
        self.scripts: dict[str, list[EngineError | None]] = {}
        self.forbidden: set[str] = set()
        self.asked: list[str] = []
        self.times: list[float] = []
        self.waits: list[float] = []
        self.at: dict[int, Callable[[], None]] = {}
        """What happens in the wait of this number."""

    async def another(self, before: SpeechTarget, without: Set[EngineAddress]) -> SpeechTarget | None:
        return next((target(name) for name in self.ready if name not in without), None)

    async def calls_of(self, chosen: SpeechTarget) -> "Calls":
        if chosen.grpc in self.forbidden:
            raise EngineUnavailable("not dialled")
        return Calls(self, chosen.grpc)

    async def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.waits.append(seconds)
        self.at.get(len(self.waits), lambda: None)()
        await asyncio.sleep(0)

    def engine(self, timeout_s: float = 600.0) -> FileEngine:
        first = HeldEngine(target("old"), Calls(self, "old"))
        return FileEngine(
            first,
            self.calls_of,
            self,
            timeout_s=timeout_s,
            patience_s=PATIENCE_S,
            clock=self.clock,
            sleep=self.sleep,
        )


class Calls:
    """One engine."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name

    async def hear(self, samples, prompt, timeout_s) -> HeardWindow:
        self._world.asked.append(self._name)
        self._world.times.append(timeout_s)
        await asyncio.sleep(0)
        script = self._world.scripts.get(self._name)
        failure = script.pop(0) if script else None
        if failure is not None:
            raise failure
        return HeardWindow((), (), 0.0, 0.0, None, None)


async def hear(engine: FileEngine) -> HeardWindow:
    return await engine.hear(silence(1), (1,))


@pytest.mark.parametrize("failure", [DRAINS, FULL, LOST])
async def test_the_next_window_goes_to_an_engine_that_is_ready_now(failure):
    world = World()
    world.ready, world.scripts["old"] = ["old", "new"], [None, failure]
    engine = world.engine()
    for _ in range(3):
        await hear(engine)
    assert world.asked == ["old", "old", "new", "new"]
    assert engine.target.grpc == "new"


@pytest.mark.parametrize("failure", [DRAINS, FULL, LOST])
async def test_until_a_window_is_heard_the_gateway_has_the_choice(failure):
    world = World()
    world.ready, world.scripts["old"] = ["old", "new"], [failure]
    with pytest.raises(type(failure)):
        await hear(world.engine())
    assert world.asked == ["old"]


async def test_what_fails_otherwise_is_asked_of_nobody_else():
    world = World()
    world.ready, world.scripts["old"] = ["old", "new"], [None, EngineTimeout("silent", first=False)]
    engine = world.engine()
    await hear(engine)
    with pytest.raises(EngineTimeout):
        await hear(engine)
    assert world.asked == ["old", "old"]


async def test_a_window_waits_for_an_engine_that_is_still_to_come():
    world = World()
    world.scripts["old"] = [None, DRAINS]
    world.at[10] = lambda: world.ready.append("new")
    engine = world.engine()
    await hear(engine)
    await hear(engine)
    assert world.asked == ["old", "old", "new"]
    assert world.waits == [LOOK_AGAIN_S] * 10


@pytest.mark.parametrize(("timeout_s", "waited_s"), [(600.0, PATIENCE_S), (4.0, 4.0)])
async def test_it_waits_no_longer_than_an_engine_may_be_silent_and_the_file_may_take(timeout_s, waited_s):
    world = World()
    world.scripts["old"] = [None, DRAINS]
    engine = world.engine(timeout_s)
    await hear(engine)
    with pytest.raises(EngineUnavailable, match="stopping"):
        await hear(engine)
    assert sum(world.waits) == waited_s


async def test_an_engine_that_breaks_down_where_there_is_no_other_is_told_at_once():
    world = World()
    world.ready, world.scripts["old"] = ["old"], [None, LOST]
    engine = world.engine()
    await hear(engine)
    with pytest.raises(EngineLost):
        await hear(engine)
    assert world.waits == []


async def test_a_window_that_waits_holds_up_none_whose_engine_broke_down():
    world = World()
    world.scripts["old"] = [None, DRAINS, LOST]
    engine = world.engine()
    await hear(engine)
    waiting, lost = asyncio.create_task(hear(engine)), asyncio.create_task(hear(engine))
    with pytest.raises(EngineLost):
        await lost
    assert not waiting.done()
    waiting.cancel()


async def test_one_engine_may_break_down_over_a_file_and_no_second():
    world = World()
    world.ready = ["old", "new", "third"]
    world.scripts = {"old": [None, LOST], "new": [None, LOST]}
    engine = world.engine()
    await hear(engine)
    await hear(engine)
    with pytest.raises(EngineLost):
        await hear(engine)
    assert world.asked == ["old", "old", "new", "new"]


async def test_a_window_that_three_engines_refuse_goes_to_no_fourth():
    world = World()
    world.ready = ["old", "b", "c", "d"]
    world.scripts = {"old": [None, DRAINS], "b": [DRAINS], "c": [DRAINS]}
    engine = world.engine()
    await hear(engine)
    with pytest.raises(EngineUnavailable):
        await hear(engine)
    assert world.asked == ["old", "old", "b", "c"]


async def test_engines_that_come_and_go_refuse_a_file_as_often_as_there_are_windows():
    world = World()
    world.ready = ["old", *"bcdefg"]
    world.scripts = {name: [None, DRAINS] for name in world.ready}
    engine = world.engine()
    for _ in range(7):
        await hear(engine)
    assert [name for name in world.asked if name != "old"] == list("bbccddeeffg")


async def test_one_that_is_full_is_asked_again_after_a_pause_where_there_is_no_other():
    world = World()
    world.ready, world.scripts["old"] = ["old"], [None, *[FULL] * 5]
    engine = world.engine()
    await hear(engine)
    await hear(engine)
    assert world.asked == ["old"] * 7
    assert world.waits == [LOOK_AGAIN_S] * 5


async def test_an_engine_that_comes_back_where_it_was_is_asked_again_after_each_rest():
    world = World()
    world.ready, world.scripts["old"] = ["old"], [None, *[DRAINS] * 4]
    engine = world.engine()
    await hear(engine)
    await hear(engine)
    assert world.asked == ["old"] * 6
    assert world.waits == [LOOK_AGAIN_S] * 4


async def test_an_engine_that_nobody_names_any_more_is_not_asked_again_before_somebody_does():
    world = World()
    world.scripts["old"] = [None, DRAINS]
    world.at[10] = lambda: world.ready.append("old")
    engine = world.engine()
    await hear(engine)
    await hear(engine)
    assert world.asked == ["old"] * 3
    assert len(world.waits) == 10


async def test_an_engine_that_refused_is_asked_again_once_another_refuses_too():
    world = World()
    world.ready = ["old", "new"]
    world.scripts = {"old": [None, DRAINS], "new": [DRAINS]}
    engine = world.engine()
    await hear(engine)
    await hear(engine)
    assert world.asked == ["old", "old", "new", "old"]


async def test_windows_that_fail_together_go_on_with_one_engine():
    world = World()
    world.ready, world.scripts["old"] = ["old", "new", "third"], [None, LOST, LOST, LOST, LOST]
    engine = world.engine()
    await hear(engine)
    await asyncio.gather(*(hear(engine) for _ in range(4)))
    assert world.asked == ["old"] * 5 + ["new"] * 4


async def test_an_engine_that_may_not_be_dialled_is_passed_over():
    world = World()
    world.ready, world.scripts["old"], world.forbidden = ["old", "b", "new"], [None, DRAINS], {"b"}
    engine = world.engine()
    await hear(engine)
    await hear(engine)
    assert world.asked == ["old", "old", "new"]


async def test_a_window_asked_for_again_has_what_is_left_of_the_files_time():
    world = World()
    world.scripts["old"] = [None, DRAINS]
    world.at[4] = lambda: world.ready.append("new")
    engine = world.engine(timeout_s=100.0)
    await hear(engine)
    await hear(engine)
    assert world.times == [100.0, 100.0, 98.0]
