"""Models in one server that does as it is told: a load that hangs is given up, and holds up no other for longer."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from conch_contracts.names import Digest, EngineAddress, ModelId
from conch_contracts.records import Dialect
from conch_kit.timed_waits import wait_at_most
from conch_kit.triton.errors import EngineTimeout, EngineUnavailable
from conch_operator.engine_pools import loaded_models, pooled_model, shared_server
from conch_operator.engine_pools.loaded_models import LoadedModels
from conch_operator.engine_pools.pooled_model import Loadable
from conch_operator.engine_pools.shared_server import SharedServer
from conch_operator.state import EngineContract, EngineName, EnginePhase
from testkit.waiting import eventually

RUNNING, BLOCKED, STOPPING = EnginePhase.RUNNING, EnginePhase.BLOCKED, EnginePhase.STOPPING


class Process:
    """A server that runs; one that is killed runs again at once."""

    phase = EnginePhase.RUNNING
    incarnation = 1
    pid: int | None = None
    detail = ""

    def restart(self) -> None:
        self.incarnation += 1


class Triton:
    """Loads at once, but for models that hang and one that nobody has thought of."""

    def __init__(self) -> None:
        self.hanging: set[str] = set()
        self.loads: list[str] = []
        self.unloads: list[str] = []
        self.most_at_once = self._now = self.asked = 0
        self.may_unload: asyncio.Semaphore | None = None
        self.given_up = asyncio.Event()
        self.dying: set[str] = set()

    async def repository_index(self, address: EngineAddress) -> object:
        self.asked += 1
        return ()

    async def load_model(self, address: EngineAddress, model: str, *, timeout_s: float) -> None:
        self.loads.append(model)
        _fail_if_odd(model)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            if model in self.dying:
                raise EngineUnavailable("Socket closed")
            if model in self.hanging:
                await wait_at_most(self.given_up, timeout_s)
                raise EngineTimeout(f"no answer within {timeout_s:g} s", first=True)
        finally:
            self._now -= 1

    async def unload_model(self, address: EngineAddress, model: str, *, timeout_s: float) -> None:
        self.unloads.append(model)
        _fail_if_odd(model)
        if self.may_unload is not None:
            await self.may_unload.acquire()
        if model in self.hanging:
            await asyncio.sleep(timeout_s)
            raise EngineTimeout(f"no answer within {timeout_s:g} s", first=True)


def _fail_if_odd(model: str) -> None:
    if model == "odd":
        raise ZeroDivisionError("nobody has thought of that")


def loadable(name: str, longest_load_s: float = 60.0, triton_model: str = "") -> Loadable:
    contract = EngineContract(triton_model or name, Dialect.ENCODER, 1)
    files = {f"{contract.triton_model}/config.pbtxt": name}
    return Loadable(EngineName(name), ModelId(f"ns/{name}"), "s", contract, Digest("d" * 64), longest_load_s, files)


class Scene:
    def __init__(self, folder: Path) -> None:
        self.process, self.triton, self.folder = Process(), Triton(), folder
        server = SharedServer(self.process, lambda: EngineAddress("127.0.0.1:1"), folder, self.triton)
        self.models = LoadedModels(server, lambda: None)

    def phases(self) -> dict[str, EnginePhase]:
        self.models.forget_gone()
        return {engine.name: engine.phase for engine in self.models.seen}

    async def are(self, **phases: EnginePhase) -> None:
        await eventually(lambda: self.phases() == phases, f"{phases}", timeout_s=30)


async def settle(steps: int = 20) -> None:
    """Let the event loop take some steps."""
    for _ in range(steps):
        await asyncio.sleep(0)


class Measured:
    """Has a server's models measured all the time, and counts how often they were."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stubs: Mapping[str, tuple[int, ...]]) -> None:
        self._stubs, self._times = stubs, 0
        monkeypatch.setattr(loaded_models, "_MEASURE_S", 0.0)
        monkeypatch.setattr(shared_server, "stubs_of", self._stubs_of)

    def _stubs_of(self, server: int, repository: Path) -> Mapping[str, tuple[int, ...]]:
        self._times += 1
        return self._stubs

    async def again(self) -> None:
        """Wait until a measurement that has begun from now on is over, and what follows from it is done."""
        before = self._times
        await eventually(lambda: self._times >= before + 3, "three more measurements", timeout_s=30)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    found = Scene(tmp_path)
    yield found
    await found.models.end()


async def test_a_model_that_is_there_is_not_loaded_again(scene: Scene) -> None:
    for _ in range(2):
        scene.models.load(loadable("one"))
        await scene.are(one=RUNNING)
    assert scene.triton.loads == ["one"]
    assert (scene.folder / "one" / "config.pbtxt").read_text() == "one"


async def test_a_server_that_has_grown_is_started_anew_after_a_while(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measured(monkeypatch, stubs={})
    monkeypatch.setattr(shared_server, "own_memory_of", lambda pid: shared_server.MOST_OWN_BYTES + (pid == 2))
    scene.process.pid = 1
    scene.models.load(loadable("one"))
    await scene.are(one=RUNNING)
    for pid, least_run_s in ((2, shared_server.LEAST_RUN_S), (1, 0.0)):
        scene.process.pid = pid
        monkeypatch.setattr(shared_server, "LEAST_RUN_S", least_run_s)
        await measured.again()
        assert scene.process.incarnation == 1  # it has not run for long, or is not large
    scene.process.pid = 2
    await eventually(lambda: scene.process.incarnation > 1, "another run")
    monkeypatch.undo()
    await eventually(lambda: len(scene.triton.loads) >= 2, "another load")
    await scene.are(one=RUNNING)


async def test_a_model_comes_when_nothing_is_left_of_what_had_its_name(scene: Scene) -> None:
    may_unload = scene.triton.may_unload = asyncio.Semaphore(0)
    scene.models.load(loadable("first", triton_model="one"))
    await scene.are(first=RUNNING)
    scene.models.stop(EngineName("first"))
    scene.models.load(loadable("second", triton_model="one"))
    scene.models.load(loadable("given-up", triton_model="one"))
    scene.models.stop(EngineName("given-up"))
    scene.models.load(loadable("other"))
    await scene.are(first=STOPPING, second=EnginePhase.STARTING, other=RUNNING)
    assert scene.triton.loads == ["one", "other"]
    assert (scene.folder / "one" / "config.pbtxt").read_text() == "first"
    may_unload.release()
    await eventually(lambda: scene.phases().get("second") is RUNNING, "the second one")
    assert (scene.folder / "one" / "config.pbtxt").read_text() == "second"


async def test_loads_that_hang_fail_in_time_and_the_others_come_after_them(scene: Scene) -> None:
    names = [f"hangs-{index}" for index in range(loaded_models.LOADS_AT_ONCE)]
    scene.triton.hanging = set(names)
    for name in names:
        scene.models.load(loadable(name, 0.3))
    scene.models.load(loadable("good"))
    await eventually(lambda: len(scene.triton.loads) == len(names), "all loads that go on at once")
    assert scene.phases()["good"] is EnginePhase.STARTING
    await scene.are(**dict.fromkeys(names, BLOCKED), good=RUNNING)
    assert scene.triton.most_at_once == loaded_models.LOADS_AT_ONCE
    fault = next(engine.fault for engine in scene.models.seen if engine.name == names[0])
    assert fault is not None
    assert fault.message == f"Triton could not load {names[0]}: no answer within 0.3 s"


@pytest.fixture
async def full_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Give a scene in which two models wait for the turn that another, which hangs, has."""
    monkeypatch.setattr(loaded_models, "LOADS_AT_ONCE", 1)
    found = Scene(tmp_path)
    found.triton.hanging = {"hangs"}
    for name in ("hangs", "given-up", "good"):
        found.models.load(loadable(name))
    await eventually(lambda: found.triton.asked == 3, "a server that answers all of them")
    await settle()
    yield found
    await found.models.end()


async def test_a_model_that_is_let_go_before_its_turn_is_gone_at_once(full_scene: Scene) -> None:
    full_scene.models.stop(EngineName("given-up"))
    await full_scene.are(hangs=EnginePhase.STARTING, good=EnginePhase.STARTING)
    full_scene.triton.given_up.set()
    await full_scene.are(hangs=BLOCKED, good=RUNNING)
    assert (full_scene.triton.loads, full_scene.triton.unloads) == (["hangs", "good"], [])


@pytest.mark.parametrize("steps", range(8))
async def test_a_model_that_is_let_go_about_its_turn_leaves_it_to_the_next(full_scene: Scene, steps: int) -> None:
    full_scene.triton.given_up.set()
    await settle(steps)
    full_scene.models.stop(EngineName("given-up"))
    await full_scene.are(hangs=BLOCKED, good=RUNNING)
    assert full_scene.triton.unloads == full_scene.triton.loads[1:-1]


async def test_a_server_that_does_not_let_go_of_a_model_is_ended_and_has_the_others_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_server, "stubs_of", lambda server, repository: {"hangs": (17,)})
    scene.process.pid = 1
    scene.triton.hanging = {"hangs"}
    scene.models.load(loadable("good"))
    scene.models.load(loadable("hangs", 0.2))
    await scene.are(good=RUNNING, hangs=BLOCKED)
    scene.models.stop(EngineName("hangs"))
    await scene.are(good=RUNNING)
    await eventually(lambda: scene.triton.loads.count("good") == 2, "the other one again", timeout_s=30)
    assert scene.process.incarnation == 2
    await scene.are(good=RUNNING)


async def test_a_load_that_the_end_of_the_server_breaks_off_is_no_failure(scene: Scene) -> None:
    scene.triton.dying = {"one"}
    scene.models.load(loadable("one"))
    await eventually(lambda: scene.triton.loads == ["one"], "the first load")
    await settle()
    assert scene.phases() == {"one": EnginePhase.STARTING}  # the end of the process is not seen yet
    scene.triton.dying = set()
    scene.process.restart()
    await scene.are(one=RUNNING)
    assert scene.triton.loads == ["one", "one"]


async def test_a_load_that_a_server_breaks_off_which_lives_on_has_failed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooled_model, "END_SEEN_S", 0.05)
    scene.triton.dying = {"one"}
    scene.models.load(loadable("one"))
    await scene.are(one=BLOCKED)
    fault = next(engine.fault for engine in scene.models.seen)
    assert fault is not None
    assert fault.message == "Triton could not load one: Socket closed"


async def test_a_model_that_fails_by_a_fault_of_the_code_is_alone_in_it(scene: Scene) -> None:
    scene.models.load(loadable("good"))
    scene.models.load(loadable("odd"))
    await scene.are(good=RUNNING, odd=BLOCKED)
    fault = next(engine.fault for engine in scene.models.seen if engine.name == "odd")
    assert fault is not None
    assert "a fault of Conch: ZeroDivisionError: nobody has thought of that" in fault.message
    scene.models.stop(EngineName("odd"))  # and when it is unloaded
    await eventually(lambda: scene.process.incarnation == 2, "another run of the server")
    await scene.are(good=RUNNING)


async def test_a_model_whose_files_the_disk_does_not_take_is_alone_in_that_and_leaves_none(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text = Path.write_text

    def full(file: Path, content: str, encoding: str | None = None) -> int:
        if file.parent.name != "large":
            return write_text(file, content, encoding)
        write_text(file, content[:1], encoding)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_text", full)
        scene.models.load(loadable("large"))
        scene.models.load(loadable("good"))
        await scene.are(large=BLOCKED, good=RUNNING)
    fault = next(engine.fault for engine in scene.models.seen if engine.name == "large")
    assert fault is not None
    assert fault.message == f"Its files cannot be written into {scene.folder}: No space left on device."
    assert scene.triton.loads == ["good"], "Triton is not shown the half of them"
    scene.models.stop(EngineName("large"))
    await scene.are(good=RUNNING)
    assert not (scene.folder / "large").exists()
    scene.models.load(loadable("large"))
    await scene.are(large=RUNNING, good=RUNNING)


async def test_a_size_is_taken_over_when_it_has_changed_by_more_than_a_little(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = [1000]
    measured = Measured(monkeypatch, stubs={"one": (17,)})
    monkeypatch.setattr(shared_server, "memory_of", lambda stubs: size[0] if 17 in stubs else None)
    scene.process.pid = 1
    scene.models.load(loadable("one"))
    await eventually(lambda: scene.models.seen[0].memory_bytes == 1000, "a first size")
    sizes = []
    for size[0] in (1040, 1060, 1020, 900):
        await measured.again()
        sizes.append(scene.models.seen[0].memory_bytes)
    assert sizes == [1000, 1060, 1060, 900]


async def test_all_models_are_measured_in_one_look(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"model-{index}" for index in range(20)]
    size, changed_at_looks = [1000], []

    def looked(server: int, repository: Path) -> Mapping[str, tuple[int, ...]]:
        changed_at_looks.append(sum(engine.memory_bytes == 2000 for engine in scene.models.seen))
        return {name: (index,) for index, name in enumerate(names)}

    monkeypatch.setattr(loaded_models, "_MEASURE_S", 0.0)
    monkeypatch.setattr(shared_server, "stubs_of", looked)
    monkeypatch.setattr(shared_server, "memory_of", lambda stubs: size[0])
    scene.process.pid = 1
    for name in names:
        scene.models.load(loadable(name))
    await scene.are(**dict.fromkeys(names, RUNNING))
    size[0] = 2000
    await eventually(lambda: changed_at_looks[-1] == len(names), "the new size of all", timeout_s=30)
    assert set(changed_at_looks) == {0, len(names)}


async def test_a_look_that_fails_by_a_fault_of_the_code_is_not_the_last(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measured(monkeypatch, stubs={"one": (17,)})
    found: list[int] = []
    monkeypatch.setattr(shared_server, "memory_of", lambda stubs: 1000)
    scene.process.pid = 1
    scene.models.load(loadable("one"))
    await scene.are(one=RUNNING)
    monkeypatch.setattr(shared_server, "memory_of", lambda stubs: found[0])  # raises IndexError
    await measured.again()
    assert scene.phases() == {"one": RUNNING}
    found.append(2000)
    await eventually(lambda: scene.models.seen[0].memory_bytes == 2000, "the next size", timeout_s=30)
