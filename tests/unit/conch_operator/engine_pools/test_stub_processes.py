"""Processes of a server's models, as a folder like /proc shows them."""

import os
import subprocess
import sys
from pathlib import Path

from conch_operator.engine_pools.stub_processes import memory_of, own_memory_of, stubs_of

FOLDER = Path("/state/repositories/pool/one")


def process(proc: Path, number: int, parent: int, *command: str, name: str = "stub") -> None:
    folder = proc / str(number)
    folder.mkdir()
    (folder / "stat").write_text(f"{number} ({name}) S {parent} {number} 0")
    (folder / "cmdline").write_bytes(b"\0".join(part.encode() for part in (*command, "")))


def test_those_of_one_model_of_one_server_are_found(tmp_path: Path) -> None:
    process(tmp_path, 10, 7, "stub", f"{FOLDER}/1/model.py")
    process(tmp_path, 11, 7, "stub", f"{FOLDER}-other/1/model.py")
    process(tmp_path, 12, 8, "stub", f"{FOLDER}/1/model.py")
    process(tmp_path, 13, 7, name="it) ends")  # nothing is left of it but its number
    process(tmp_path, 14, 7, "stub", f"{FOLDER}/1/model.py", name="a) S 8 (b")
    (tmp_path / "15").mkdir()  # it has ended while it was looked at
    (tmp_path / "uptime").write_text("1")
    assert sorted(stubs_of(7, FOLDER, tmp_path)) == [10, 14]


def test_a_process_that_runs_has_a_size_and_one_that_has_ended_has_none() -> None:
    size = memory_of(os.getpid())
    assert size is not None
    assert 1024**2 < size < 10 * 1024**3
    own = own_memory_of(os.getpid())
    assert own is not None
    assert 1024**2 < own < size
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert (memory_of(ended.pid), own_memory_of(ended.pid)) == (None, None)
