"""Runs the real process of a worker, and ends it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from testkit.processes.conch_up import wait_until
from testkit.processes.tied import tied


class WorkerProcess:
    """A worker process, or another that serves as one does; a context manager that always ends it."""

    def __init__(self, module: str, redis_url: str | None, folder: Path, **settings: object) -> None:
        self.log = folder / "worker.log"
        self._ready = folder / "worker.json"
        self._module = module
        self._settings = {
            "HOST": "127.0.0.1",
            "PORT": 0,
            "ADMIN_HOST": "127.0.0.1",
            "ADMIN_PORT": 0,
            "READY_FILE": self._ready,
        } | {name.upper(): value for name, value in settings.items()}
        if redis_url is not None:
            self._settings["REDIS_URL"] = redis_url
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.admin_url = ""

    def __enter__(self) -> Self:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}  # noqa: TID251
        environ |= {f"CONCH_{name}": str(value) for name, value in self._settings.items()}
        with self.log.open("ab") as log:
            process = self._process = subprocess.Popen(
                tied([sys.executable, "-m", self._module]), env=environ, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            wait_until(lambda: self._ready.exists() or process.poll() is not None, "a serving worker", 120)
            assert process.poll() is None, self.log.read_text()
        except BaseException:
            process.kill()
            raise
        places = json.loads(self._ready.read_text())
        self.url, self.admin_url = places["url"], places["admin_url"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    def runs(self) -> bool:
        """Tell whether it has not ended."""
        assert self._process is not None
        return self._process.poll() is None

    def terminate(self) -> None:
        """Ask it to end, without waiting."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
