"""Runs the real `conch up` as a user would and tells where it answers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from conch_operator.local.ports import free_ports
from testkit.gateway.process import PATIENT
from testkit.processes.tied import tied

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "tiny-chat.yaml"
EXAMPLES = tuple(
    ROOT / "examples" / f"{name}.yaml"
    for name in ("tiny-chat", "minilm", "tiny-reranker", "tiny-classifier", "tiny-whisper", "tiny-vlm")
)
"""One model of every kind, and one that sees."""


def example_text() -> str:
    """Return the example with its folder's whole path, so that it can be written anywhere."""
    relative = "path: tiny-chat"
    text = EXAMPLE.read_text()
    assert relative in text
    return text.replace(relative, f"path: {EXAMPLE.parent / 'tiny-chat'}")


def free_port() -> int:
    """Return a port on 127.0.0.1 that nothing listens on at this moment."""
    return free_ports(1)[0]


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0, interval_s: float = 0.05) -> float:
    """Poll a condition until it holds and return the seconds that took; fail by name at the deadline."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > timeout_s:
            raise AssertionError(f"Not seen within {timeout_s:g} s: {what}")
        time.sleep(interval_s)
    return time.monotonic() - started


class ConchUp:
    """A running `conch up` with its output kept; a context manager that always stops it, as the end of pytest does."""

    def __init__(
        self, state: Path, *files: Path, arguments: tuple[str, ...] = (), settings: Mapping[str, str] | None = None
    ) -> None:
        """Take variables for the environment as `settings`; the services get them too."""
        self.state = state
        self._settings = {**PATIENT, **(settings or {})}
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        self._log = state.parent / f"{state.name}.log"
        self._command = [sys.executable, "-m", "conch_operator.cli", "up", "--host", "127.0.0.1"]
        self._command += ["--port", str(self.port), "--state-dir", str(state), *arguments]
        for file in files or (EXAMPLE,):
            self._command += ["-f", str(file)]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the command; does not wait."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}  # noqa: TID251
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                tied(self._command),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment | self._settings,
            )

    def wait_ready(self, timeout_s: float = 240.0) -> None:
        """Wait until the gateway lists at least one model; fail with the end of the output otherwise."""
        wait_until(lambda: self._ended() or bool(self.models()), f"a ready Conch.\n{self.output()[-3000:]}", timeout_s)
        if self._ended():
            raise AssertionError(f"conch up ended early:\n{self.output()[-3000:]}")
        wait_until(self._all_ready, f"every model Ready.\n{self.output()[-3000:]}", timeout_s)

    def models(self) -> list[str]:
        """Return the ids that /v1/models lists; nothing while the gateway does not answer."""
        try:
            with urlopen(f"{self.base_url}/models", timeout=30) as answer:
                return [model["id"] for model in json.load(answer)["data"]]
        except (URLError, ConnectionError, TimeoutError):
            return []

    def output(self) -> str:
        """Return all that the command has printed."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def processes(self) -> list[psutil.Process]:
        """Return every process below the command, grandchildren too."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True)

    def named(self, *names: str) -> list[psutil.Process]:
        """Return the processes below the command that live and have one of these names."""
        found = []
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                if process.name() in names:
                    found.append(process)
        return found

    def process(self, marker: str) -> psutil.Process:
        """Return the first process that lives and whose command line holds the marker."""
        found = self._find(marker)
        if found is None:
            raise AssertionError(f"No process below conch up has {marker!r} in its command line.")
        return found

    def runs(self, marker: str) -> bool:
        """Return whether a process lives whose command line holds the marker."""
        return self._find(marker) is not None

    def _find(self, marker: str) -> psutil.Process | None:
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                if marker in " ".join(process.cmdline()):
                    return process
        return None

    def stop(self, sent: signal.Signals = signal.SIGINT) -> int:
        """Stop the command as Ctrl-C does and return its exit status; nothing of it survives."""
        assert self._process is not None
        below = self.processes() if self._process.poll() is None else []
        if self._process.poll() is None:
            self._process.send_signal(sent)
        try:
            return self._process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            for process in psutil.wait_procs(below, timeout=30)[1]:
                process.kill()

    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _all_ready(self) -> bool:
        status = subprocess.run(
            [sys.executable, "-m", "conch_operator.cli", "status", "--state-dir", str(self.state), "-o", "json"],
            capture_output=True,
            check=False,
        )
        return status.returncode == 0
