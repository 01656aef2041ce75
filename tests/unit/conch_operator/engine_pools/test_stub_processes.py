"""Processes of a server's models, as a folder like /proc shows them."""

import os
import subprocess
import sys
from pathlib import Path

from conch_operator.engine_pools.stub_processes import memory_of, own_memory_of, stubs_of

REPOSITORY = Path("/state/repositories/pool")


def process(proc: Path, number: int, parent: int, *command: str, name: str = "stub") -> None:
    folder = proc / str(number)
    folder.mkdir()
    (folder / "stat").write_text(f"{number} ({name}) S {parent} {number} 0")
    (folder / "cmdline").write_bytes(b"\0".join(part.encode() for part in (*command, "")))


def test_those_of_one_server_are_found_by_their_models(tmp_path: Path) -> None:
    process(tmp_path, 10, 7, "stub", f"{REPOSITORY}/one/1/model.py", "region", f"{REPOSITORY}/one")
    process(tmp_path, 11, 7, "bash", "-c", f"exec stub {REPOSITORY}/one-other/1/model.py region")
    process(tmp_path, 12, 8, "stub", f"{REPOSITORY}/one/1/model.py")
    process(tmp_path, 13, 7, name="it) ends")  # nothing is left of it but its number
    process(tmp_path, 14, 7, "stub", f"{REPOSITORY}/one/1/model.py", name="a) S 8 (b")
    process(tmp_path, 15, 7, "stub", f"{REPOSITORY}-b/two/1/model.py")
    process(tmp_path, 16, 7, "server", str(REPOSITORY), "/other/1/model.py")
    (tmp_path / "17").mkdir()  # it has ended while it was looked at
    (tmp_path / "uptime").write_text("1")
    found = stubs_of(7, REPOSITORY, tmp_path)
    assert {model: sorted(stubs) for model, stubs in found.items()} == {"one": [10, 14], "one-other": [11]}


def test_a_process_that_runs_has_a_size_and_one_that_has_ended_has_none() -> None:
    size = memory_of([os.getpid()])
    assert size is not None
    assert 1024**2 < size < 10 * 1024**3
    own = own_memory_of(os.getpid())
    assert own is not None
    assert 1024**2 < own < size
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert (memory_of([ended.pid]), own_memory_of(ended.pid)) == (None, None)


def test_the_size_of_a_model_is_that_of_all_its_processes_that_run(tmp_path: Path) -> None:
    for number, kib in ((10, 100), (11, 7)):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "smaps_rollup").write_text(f"Rss: 900 kB\nPss:  {kib} kB\nPss_Anon: 1 kB\n")
    assert memory_of([10, 11, 12], tmp_path) == 107 * 1024
    assert memory_of([], tmp_path) is None
