"""A disk that is full: no half of a graph is left, and what was made of models that are not in makes room."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conch_contracts.cpu_runtime import Quantization
from conch_operator.agent import graph_cache, pool_agent
from conch_operator.agent.graph_cache import CACHE, GraphCache
from conch_operator.agent.pod_server import PodServer
from conch_operator.agent.settings import AgentSettings
from conch_runtime_cpu.graphs.conversion import converted_decoder
from conch_runtime_cpu.graphs.decoder_architecture import read_decoder_architecture
from testkit.models.random_model import RandomModel, write_folder
from testkit.processes.played_server import play_server
from testkit.waiting import eventually

KIB = 1024
DISK = 1024 * KIB
"""A graph of the model takes 111 KiB."""
LEFT = 64 * KIB
NOBODY = 2**22 + 1
"""The number of a process that no kernel gives."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid():
        pytest.skip("Only root can mount a disk. Run this as root.")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


async def test_a_full_disk_leaves_no_half_of_a_graph_and_what_is_not_in_makes_room(disk: Path, tmp_path: Path) -> None:
    folder, graphs = write_folder(tmp_path / "model", RandomModel()), disk / CACHE.lstrip("/")

    def convert(name: str) -> None:
        converted_decoder(folder, read_decoder_architecture(folder), Quantization.NONE, graphs / name)

    for name in ("out", "in"):
        convert(name)
    stat = os.statvfs(disk)
    (disk / "of-others").write_bytes(bytes(stat.f_bavail * stat.f_frsize - LEFT))
    with pytest.raises(OSError, match="No space left on device"):
        convert("next")
    assert list((graphs / "next").iterdir()) == []

    inside: Any = SimpleNamespace(seen=[SimpleNamespace(contract=SimpleNamespace(triton_model="in"))])
    server: Any = SimpleNamespace(root=disk)
    await GraphCache(server, inside).trim()
    assert sorted(left.name for left in graphs.iterdir() if any(left.iterdir())) == ["in"]
    convert("next")
    assert any((graphs / "next").iterdir())


async def test_the_agent_of_a_pool_makes_room(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, processes = disk / CACHE.lstrip("/") / "out" / "graph", tmp_path / "proc"
    processes.mkdir()
    made.parent.mkdir(parents=True)
    made.write_bytes(bytes(DISK - LEFT))

    async def until_there_is_room(*_: object) -> None:
        play_server(processes, NOBODY, root=disk)
        await eventually(lambda: shutil.disk_usage(disk).free > LEFT, "room on the disk")

    monkeypatch.setattr(pool_agent, "PodServer", partial(PodServer, processes=processes))
    monkeypatch.setattr(pool_agent, "serve_until_told", until_there_is_room)
    monkeypatch.setattr(graph_cache, "_LOOK_S", 0.01)
    await pool_agent.run_pool_agent(AgentSettings(token_sha256="0" * 64))
