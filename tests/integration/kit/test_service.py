"""The life of a real process: it binds, tells where it is, drains at a signal, and ends with the right status."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from testkit.processes.conch_up import wait_until

PROGRAM = """
import asyncio, os, sys
from conch_kit import logs, metrics
from conch_kit.http.admin import Health
from conch_kit.http.asgi import read_body
from conch_kit.http.internal_app import internal_app
from conch_kit.service.entry import run
from conch_kit.service.serve import serve
from conch_kit.settings import ServiceSettings, load

async def stream(scope, receive, send):
    await read_body(receive, 100)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    last = b"end\\n"
    try:
        await send({"type": "http.response.body", "body": b"begun\\n", "more_body": True})
        while not os.path.exists(os.environ["END"]):
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        await asyncio.sleep(0.2)  # lets go of what it holds
        last = b"cut\\n"
    await send({"type": "http.response.body", "body": last})

async def main(settings):
    health = Health(lambda: True, lambda: None)
    app = internal_app({"/stream": stream}, None)
    async with asyncio.TaskGroup():  # as around services with tasks of their own
        await serve(app, settings, health=health, metrics=metrics.registry())

settings = load(ServiceSettings, os.environ)
logs.configure(settings.log_level, stream=sys.stderr)
sys.exit(run(main(settings)))
"""


class Process:
    """The program above, running."""

    def __init__(self, folder: Path, *, port: int = 0, drain_s: float = 60) -> None:
        self.may_end = folder / "end"
        self.ready_file = folder / "ready.json"
        settings = {
            "CONCH_REDIS_URL": "redis://unused",
            "CONCH_HOST": "127.0.0.1",
            "CONCH_PORT": str(port),
            "CONCH_ADMIN_HOST": "127.0.0.1",
            "CONCH_ADMIN_PORT": "0",
            "CONCH_DRAIN_S": str(drain_s),
            "CONCH_READY_FILE": str(self.ready_file),
            "END": str(self.may_end),
        }
        environ = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}  # noqa: TID251
        self.popen = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environ | settings, stderr=subprocess.PIPE)

    def where(self) -> dict[str, str]:
        wait_until(self.ready_file.exists, "the ready file")
        found: dict[str, str] = json.loads(self.ready_file.read_text())
        return found

    def end(self) -> tuple[int, str]:
        errors = self.popen.communicate(timeout=60)[1].decode()
        return self.popen.returncode, errors


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Process]]:
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.popen.kill()
        process.popen.communicate()


def _status(url: str) -> tuple[int, bytes]:
    try:
        with urlopen(url, timeout=30) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def test_a_signal_drains_and_requests_in_flight_finish(tmp_path: Path, started: list[Process]) -> None:
    process = Process(tmp_path)
    started.append(process)
    where = process.where()
    assert _status(f"{where['admin_url']}/readyz") == (200, b"ok\n")
    with urlopen(Request(f"{where['url']}/stream", method="POST"), timeout=30) as answer:
        assert answer.readline() == b"begun\n"
        process.popen.send_signal(signal.SIGTERM)
        wait_until(lambda: _status(f"{where['admin_url']}/readyz") == (503, b"draining\n"), "not ready while draining")
        process.may_end.touch()
        assert answer.read() == b"end\n"
    assert process.end()[0] == 0
    assert not process.ready_file.exists()


@pytest.mark.parametrize(("drain_s", "signals"), [(1, 1), (60, 2)])
def test_a_drain_ends_at_its_limit_and_at_a_second_signal_and_requests_may_say_so(
    tmp_path: Path, started: list[Process], drain_s: float, signals: int
) -> None:
    process = Process(tmp_path, drain_s=drain_s)
    started.append(process)
    where = process.where()
    with urlopen(Request(f"{where['url']}/stream", method="POST"), timeout=30) as answer:
        assert answer.readline() == b"begun\n"
        process.popen.send_signal(signal.SIGINT)
        for _ in range(signals - 1):
            wait_until(lambda: b"draining" in _status(f"{where['admin_url']}/readyz")[1], "draining")
            process.popen.send_signal(signal.SIGINT)
        assert answer.read() == b"cut\n"
        status, errors = process.end()
    assert status == 0
    assert "Traceback" not in errors


def test_a_port_in_use_is_one_sentence_and_status_1(tmp_path: Path, started: list[Process]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = Process(tmp_path, port=port)
        started.append(process)
        status, errors = process.end()
    assert status == 1
    (line,) = errors.splitlines()
    assert json.loads(line)["message"] == f"Cannot listen on 127.0.0.1:{port}: another process uses this port."
