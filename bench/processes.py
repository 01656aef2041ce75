"""Processes that the benchmark starts, and that never survive it."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil

from bench.conversations import ROOT

PYTHON = sys.executable
_PATIENCE_S = 15.0


class CannotMeasure(Exception):
    """Something that the measurement needs is missing or broke; the message says what."""


def free_port() -> int:
    """Return a port on 127.0.0.1 that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def running(
    command: Sequence[str],
    log: Path,
    *,
    sent: signal.Signals = signal.SIGTERM,
    piped: bool = False,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command in a session of its own; on the way out it and all that it started are gone.

    It sees this process' environment without any `CONCH_*` variable but those given here.
    """
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE if piped else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if piped else output,
            stderr=output,
            cwd=ROOT,
            env={**_neutral_environment(), **(environment or {})},
            start_new_session=True,
            limit=2**24,
        )
    try:
        yield process
    finally:
        await _stop(process, sent)


async def wait_for_port(port: int, process: asyncio.subprocess.Process, what: str, log: Path) -> None:
    """Wait until something listens; raises CannotMeasure with the end of the log when it never does."""
    for _ in range(200):
        if process.returncode is not None:
            break
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        await asyncio.sleep(0.05)
    raise CannotMeasure(f"{what} does not listen on port {port}: {tail(log)}")


async def until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Return whether the condition held in time."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


def tail(log: Path, size: int = 1500) -> str:
    """Return the end of a log."""
    return log.read_text(errors="replace")[-size:].strip() if log.exists() else "(no output)"


def below(pid: int) -> list[psutil.Process]:
    """Return all descendants of a process."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _neutral_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}  # noqa: TID251


async def _stop(process: asyncio.subprocess.Process, sent: signal.Signals) -> None:
    family = below(process.pid)
    if process.returncode is None:
        process.send_signal(sent)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _PATIENCE_S)
    for survivor in family:
        with suppress(psutil.NoSuchProcess):
            survivor.kill()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
