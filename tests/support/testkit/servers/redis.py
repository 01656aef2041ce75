"""A real Redis server for a test: on a free port of 127.0.0.1, with nothing on disk, always cleaned up.

Tests kill, freeze and empty it, so it is never a server that someone else runs.
"""

import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from conch_operator.local import redis_binary
from conch_operator.local.ports import free_ports
from testkit.processes.tied import tied

_START_S = 60.0


class RedisServer:
    """A server that a test may kill, freeze and bring back on the same port; a sync and async context manager."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._folder = tempfile.TemporaryDirectory(prefix="conch-redis-")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_ports(1)[0]
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start it on its port and wait until it answers."""
        command = [str(redis_binary.find()), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "no", "--dir", self._folder.name, *self._arguments]
        with (Path(self._folder.name) / "log").open("ab") as log:
            self._process = subprocess.Popen(tied(command), stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"The Redis server did not start:\n{self.log()}")
            time.sleep(0.01)

    def kill(self) -> None:
        """End it as a crash would; all data is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """Stop its process, so that connections stay open and nothing answers."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._send(signal.SIGCONT)

    def restart(self) -> None:
        """Kill it and bring it back, empty, on the same port."""
        self.kill()
        self.start()

    def command(self, *args: str | bytes) -> bytes:
        """Run one command on a connection of its own and return the raw reply."""
        parts = [part.encode() if isinstance(part, str) else part for part in args]
        request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(request)
            return connection.recv(65536)

    def log(self) -> str:
        """Return what the server has printed."""
        return (Path(self._folder.name) / "log").read_text(errors="replace")

    def close(self) -> None:
        """End it and remove what it left."""
        self.kill()
        self._folder.cleanup()

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _answers(self) -> bool:
        try:
            return self.command("PING") == b"+PONG\r\n"
        except OSError:
            return False
