"""Programs that are ended with what they have started, by whoever runs them."""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from images import __main__ as build
from images import programs
from images.build_tools import Recipe, find_tool
from images.image_names import Image
from images.programs import Programs, ProgramsClosed, ends_held
from testkit.servers.tokenizer import runs
from testkit.waiting import eventually


def _child(file: Path) -> int:
    """Return the process that a script has written down; 0 before it has."""
    return int(file.read_text() or 0) if file.exists() else 0


@pytest.mark.parametrize("trap", ["rm $made; exit 1", ""])
async def test_what_runs_in_a_thread_ends_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    if not trap:
        monkeypatch.setattr(programs, "GRACE_S", 0.1)
    made, child, found = tmp_path / "made", tmp_path / "child", Programs()
    script = f"made={made}; trap '{trap}' TERM; touch $made; sleep 600 & echo $! >{child}; while :; do wait; done"
    run = asyncio.create_task(asyncio.to_thread(found.run, "sh", "-c", script))
    await eventually(lambda: _child(child), "a program that runs")
    await asyncio.to_thread(found.close)
    with pytest.raises(ProgramsClosed):
        await run
    assert made.exists() == (not trap)
    await eventually(lambda: not runs(_child(child)), "the end of what it has started")


def test_nothing_is_run_after_the_end(tmp_path: Path) -> None:
    found = Programs()
    assert (found.run("echo", "one").stdout, found.run("false").returncode) == (b"one\n", 1)
    found.close()
    with pytest.raises(ProgramsClosed):
        found.run("touch", str(tmp_path / "made"))
    assert not (tmp_path / "made").exists()


@pytest.fixture
def ended_by_sigterm() -> Iterator[None]:
    """Have SIGTERM end this program as it ends the scripts."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("ended_by_sigterm")
def test_images_that_are_built_side_by_side_end_with_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f'case "$*" in *--tag*) echo $$ >{tmp_path}/$$; sleep 600 & wait;; esac'
    (tmp_path / "buildah").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "buildah").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def end_when_two_run() -> None:
        deadline = time.monotonic() + 60
        while len([file for file in tmp_path.glob("[0-9]*") if _child(file)]) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    images = [Image(name, f"conch.test/{name}:1") for name in ("one", "two", "three")]
    ending = threading.Thread(target=end_when_two_run)
    ending.start()
    with pytest.raises(SystemExit):
        build._build_all(find_tool("buildah"), Recipe(tmp_path, "debian:12", "1", "", {}), images)
    ending.join()
    built = [_child(file) for file in tmp_path.glob("[0-9]*")]
    assert len(built) == 2
    assert not any(map(runs, built))


def test_an_end_that_comes_while_a_program_is_started_waits_until_that_is_known() -> None:
    came: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: came.append("end"))
    try:
        with ends_held() as let_in:
            signal.raise_signal(signal.SIGTERM)
            came.append("started")
            let_in()
        assert came == ["started", "end"]
        with ends_held():
            signal.raise_signal(signal.SIGTERM)
            came.append("failed")
        assert came[2:] == ["failed", "end"]
    finally:
        signal.signal(signal.SIGTERM, before)
