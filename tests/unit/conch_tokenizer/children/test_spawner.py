"""The service's side of the zygote, with a program in its place that forks nothing."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conch_tokenizer.children import spawner as spawner_module
from conch_tokenizer.children.limits import ChildLimits
from conch_tokenizer.children.spawner import Spawner
from testkit.waiting import eventually

LIMITS = ChildLimits(memory_bytes=1, max_text_bytes=1, models_in_memory=1, grammar_memory_bytes=1, grammar_cpu_s=1.0)
PROGRAM = """#!/bin/sh
echo $$ >> {pids}
[ $(wc -l < {pids}) -gt {ended} ] || exit 0
exec sleep 600
"""


class Zygotes:
    """Programs that take the zygote's place: the first few end at once, the others do nothing for ever."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "program"
        self._pids = folder / "pids"
        self.ends(0)

    def ends(self, first: int) -> None:
        self.program.write_text(PROGRAM.format(pids=self._pids, ended=first))
        self.program.chmod(0o755)

    @property
    def pids(self) -> list[int]:
        return [int(line) for line in self._pids.read_text().split()] if self._pids.exists() else []

    @property
    def running(self) -> list[int]:
        return [pid for pid in self.pids if Path(f"/proc/{pid}").exists()]

    async def started(self, count: int) -> None:
        await eventually(lambda: len(self.pids) >= count, f"zygote {count}")


@pytest.fixture
def zygotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Zygotes:
    made = Zygotes(tmp_path)
    monkeypatch.setattr(sys, "executable", str(made.program))
    monkeypatch.setattr(spawner_module, "_STOP_TIMEOUT_S", 0.05)
    return made


@pytest.fixture
def board() -> Iterator[int]:
    with open(os.devnull) as nothing:
        yield nothing.fileno()


async def test_a_zygote_that_does_not_end_is_killed(zygotes: Zygotes, board: int) -> None:
    async with Spawner(LIMITS, board, {}):
        await zygotes.started(1)
    assert zygotes.running == []


async def test_a_zygote_that_was_found_dead_is_started_again_once_for_all_who_ask(zygotes: Zygotes, board: int) -> None:
    zygotes.ends(1)
    async with Spawner(LIMITS, board, {}) as spawner:
        await eventually(lambda: spawner._process.returncode is not None, "the end of the first zygote")
        children = await asyncio.gather(*(spawner.spawn(row) for row in range(3)))
        await zygotes.started(2)
        assert [child.row for child in children] == [0, 1, 2]
        assert len(zygotes.pids) == 2
        assert not any(child.lost.is_set() for child in children)
    assert zygotes.running == []


async def test_a_restart_ends_the_zygote_that_does_nothing(
    zygotes: Zygotes, board: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawner_module, "_STOP_TIMEOUT_S", 3600.0)
    async with Spawner(LIMITS, board, {}) as spawner:
        await zygotes.started(1)
        child = await spawner.spawn(0)
        await asyncio.wait_for(spawner.restart(), 30)
        await asyncio.wait_for(child.lost.wait(), 30)
        await zygotes.started(2)
        assert zygotes.running == zygotes.pids[1:]
        monkeypatch.setattr(spawner_module, "_STOP_TIMEOUT_S", 0.05)


async def test_a_child_is_lost_with_its_zygote_and_can_be_killed_all_the_same(zygotes: Zygotes, board: int) -> None:
    async with Spawner(LIMITS, board, {}) as spawner:
        await zygotes.started(1)
        child = await spawner.spawn(0)
        os.kill(zygotes.pids[0], signal.SIGKILL)
        await asyncio.wait_for(child.lost.wait(), 30)
        child.kill()
