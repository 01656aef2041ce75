"""Runs the real `conch-tokenizer` for a test, and always ends it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from conch_contracts import names
from conch_contracts.names import Digest
from testkit.processes.tied import tied

_START_S = 120.0
_BUSY_S = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, headers and a JSON body."""

    status: int
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunningTokenizer:
    """A tokenizer process that serves."""

    url: str
    admin_url: str
    pid: int
    digest: Digest
    log: Path

    def post(self, path: str, message: dict[str, Any]) -> Answer:
        body = json.dumps({"digest": self.digest, **message}).encode()
        return self.post_bytes(path, body)

    def post_bytes(self, path: str, body: bytes) -> Answer:
        try:
            with urlopen(Request(self.url + path, body), timeout=60) as response:
                return Answer(response.status, dict(response.headers), json.load(response))
        except HTTPError as exc:
            with exc:
                return Answer(exc.code, dict(exc.headers), json.load(exc))

    def prepare(self, **message: Any) -> Answer:
        return self.post(names.PREPARE_PATH, {"add_special_tokens": False, **message})

    def chat(self, content: str, **fields: Any) -> Answer:
        return self.prepare(chat={"messages": [{"role": "user", "content": content}], **fields})

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(self.admin_url + path, timeout=30) as response:
                return response.status, response.read().decode()
        except HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()

    def children(self) -> list[int]:
        """Return the process ids of the zygote's children."""
        zygotes = _children_of(self.pid)
        return [child for zygote in zygotes for child in _children_of(zygote)]

    def zygote(self) -> int:
        (zygote,) = _children_of(self.pid)
        return zygote


@contextmanager
def run_tokenizer(redis_url: str, digest: Digest, folder: Path, **settings: str) -> Iterator[RunningTokenizer]:
    """Start `conch-tokenizer` and end it with SIGTERM."""
    ready, log = folder / "ready.json", folder / "tokenizer.log"
    variables = {
        "CONCH_REDIS_URL": redis_url,
        "CONCH_HOST": "127.0.0.1",
        "CONCH_PORT": "0",
        "CONCH_ADMIN_HOST": "127.0.0.1",
        "CONCH_ADMIN_PORT": "0",
        "CONCH_READY_FILE": str(ready),
        "CONCH_CACHE_DIR": str(folder / "cache"),
        **settings,
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}  # noqa: TID251
    command = [str(Path(sys.executable).with_name("conch-tokenizer"))]
    with log.open("wb") as output:
        process = subprocess.Popen(tied(command), env={**inherited, **variables}, stderr=output)
    try:
        wait_for(ready.exists, _START_S, lambda: log.read_text())
        found = json.loads(ready.read_text())
        yield RunningTokenizer(found["url"], found["admin_url"], found["pid"], digest, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(condition: Any, timeout_s: float, explain: Any = lambda: "") -> None:
    """Wait until a condition holds; fail with an explanation when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.01)


def answers_beside(tokenizer: RunningTokenizer, work: Sequence[Callable[[], object]]) -> int:
    """Do all the work at once; return how often the tokenizer said meanwhile that it is ready."""
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    answers = 0
    while any(thread.is_alive() for thread in threads):
        assert tokenizer.get("/readyz")[0] == 200
        answers += 1
        time.sleep(0.01)
    return answers


def busy_child(children: set[int]) -> int:
    """Wait until one of the children burns CPU, and return it."""
    before = {child: _cpu_ticks(child) for child in children}
    found: list[int] = []

    def busy() -> bool:
        found.extend(child for child in children if _cpu_ticks(child) > before[child] + 3)
        return bool(found)

    wait_for(busy, _BUSY_S)
    return found[0]


def runs(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if runs(int(child))]


def _cpu_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11]) if runs(pid) else 0
