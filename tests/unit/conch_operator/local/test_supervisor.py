import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conch_operator.local import supervisor as supervisor_module
from conch_operator.local.supervisor import (
    Command,
    CommandFactory,
    LaunchError,
    RestartPolicy,
    SupervisedProcess,
    Supervisor,
)
from conch_operator.state import EnginePhase
from testkit.waiting import eventually

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
OBEDIENT = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
WITH_A_CHILD = "sleep 600 & echo $!; exit 3"
PAUSE_S = 0.01
MANY = 13


def always(log: Path, *arguments: str) -> CommandFactory:
    async def command() -> Command:
        return Command(arguments, {}, log)

    return command


def nothing() -> None:
    """Hear of a start or an end."""


def said(log: Path, text: str = "") -> Callable[[], bool]:
    return lambda: log.is_file() and bool(log.read_text()) and text in log.read_text()


async def test_a_process_that_does_not_end_when_it_is_asked_to_is_killed_after_its_grace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with Supervisor() as supervisor:
        stubborn = always(log, sys.executable, "-c", STUBBORN)
        process = supervisor.supervise("stubborn", stubborn, nothing, RestartPolicy(grace_s=0.1))
        await eventually(said(log, "ready"), "the process")
        process.stop()
        await asyncio.wait_for(process.stopped(), 30)
    assert process.pid is None


async def test_who_is_to_be_killed_gets_no_grace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with Supervisor() as supervisor:
        stubborn = always(log, sys.executable, "-c", STUBBORN)
        process = supervisor.supervise("stubborn", stubborn, nothing, RestartPolicy(grace_s=3600))
        await eventually(said(log, "ready"), "the process")
        process.kill()
        await asyncio.wait_for(process.stopped(), 30)


async def test_what_an_ended_process_has_left_is_killed_and_how_it_ended_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with Supervisor() as supervisor:
        process = supervisor.supervise("parent", always(log, "sh", "-c", WITH_A_CHILD), nothing)
        await eventually(said(log), "the child")
        child = int(log.read_text().split()[0])
        await eventually(lambda: not runs(child), "the end of the child")
        assert (process.first_exit, process.detail) == (3, f"exited with status 3. It said: {child}")
        process.stop()


async def test_one_that_says_nothing_has_not_said_what_another_one_said_before_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("I fell.\n")
    async with Supervisor() as supervisor:
        process = supervisor.supervise("silent", always(log, "sh", "-c", "kill -KILL $$"), nothing)
        await eventually(lambda: process.phase is EnginePhase.EXITED, "its end")
        assert (process.detail, process.cause) == ("was killed by SIGKILL.", "")
        process.kill()


async def test_when_the_supervisor_fails_nothing_is_left_of_what_it_started(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def fails() -> None:
        async with Supervisor() as supervisor:
            supervisor.supervise("parent", always(log, "sh", "-c", "sleep 600 & echo $!; wait"), nothing)
            await eventually(said(log), "the child")
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        await fails()
    assert not runs(int(log.read_text()))


async def test_a_process_that_ends_again_and_again_is_started_after_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_STABLE_AFTER_S", 3600.0)
    pauses = rests_without_waiting(monkeypatch)
    async with Supervisor() as supervisor:
        policy = RestartPolicy(longest_pause_s=1.0)
        process = supervisor.supervise("ends", always(tmp_path / "log", "true"), nothing, policy)
        await eventually(lambda: len(pauses) >= 6, "starts")
        process.kill()
    assert pauses[:6] == [0.2, 0.4, 0.8, 1.0, 1.0, 1.0]


async def test_a_process_that_ran_for_long_is_started_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_STABLE_AFTER_S", 0.0)
    pauses = rests_without_waiting(monkeypatch)
    async with Supervisor() as supervisor:
        policy = RestartPolicy(longest_pause_s=3600)
        process = supervisor.supervise("ends", always(tmp_path / "log", "true"), nothing, policy)
        await eventually(lambda: len(pauses) >= 3, "starts")
        process.kill()
    assert pauses[:3] == [0.2, 0.2, 0.2]


def rests_without_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have processes be started again at once; return the pauses, in seconds, that there would have been."""
    pauses: list[float] = []

    async def rest(_: SupervisedProcess, pause_s: float) -> None:
        pauses.append(pause_s)

    monkeypatch.setattr(SupervisedProcess, "_rest", rest)
    return pauses


async def test_a_command_that_cannot_be_made_says_why_and_is_tried_again(tmp_path: Path) -> None:
    async def failing() -> Command:
        if not fails:
            return Command(("sleep", "600"), {}, tmp_path / "log")
        raise LaunchError(fails.pop())

    fails, phases = ["no port is free"], list[tuple[EnginePhase, str]]()
    async with Supervisor() as supervisor:
        process = supervisor.supervise("late", failing, lambda: phases.append((process.phase, process.detail)))
        await eventually(lambda: process.phase is EnginePhase.RUNNING, "the process")
        process.kill()
    assert phases[0] == (EnginePhase.EXITED, "cannot be started: no port is free")


async def test_a_process_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with Supervisor() as supervisor:
        process = supervisor.supervise("obeys", always(log, "sh", "-c", OBEDIENT), nothing)
        await eventually(said(log), "the process")
        process.stop()
        await asyncio.wait_for(process.stopped(), 30)
    assert log.read_text().split() == ["ready", "asked"]


async def test_a_process_that_ends_again_and_again_leaves_nothing_that_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_FIRST_PAUSE_S", PAUSE_S)
    async with Supervisor() as supervisor:
        command = always(tmp_path / "log", "true")
        process = supervisor.supervise("ends", command, nothing, RestartPolicy(longest_pause_s=PAUSE_S))
        await eventually(lambda: process.incarnation > MANY, "starts")
        assert len(asyncio.all_tasks()) < MANY
        process.kill()


async def test_nothing_waits_for_a_process_that_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with Supervisor() as supervisor:
        asked = supervisor.supervise("asked", always(log, "sleep", "600"), nothing)
        ended = supervisor.supervise("ended", always(tmp_path / "other", "true"), nothing)
        await eventually(lambda: asked.pid is not None and ended.phase is EnginePhase.EXITED, "both")
        asked.stop()
        ended.stop()
    await asyncio.sleep(0)  # the tasks that were cancelled end
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_one_that_waits_for_its_next_start_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "_FIRST_PAUSE_S", 3600.0)
    async with Supervisor() as supervisor:
        process = supervisor.supervise("ends", always(tmp_path / "log", "true"), nothing)
        await eventually(lambda: process.phase is EnginePhase.EXITED, "the end of the process")
        process.stop()
        await asyncio.wait_for(process.stopped(), 30)
    assert process.incarnation == 1


def runs(pid: int) -> bool:
    """Tell whether a process is there that has not ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False
