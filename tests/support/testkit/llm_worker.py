"""Runs the real llm-worker process and speaks with it as a gateway does."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from conch_contracts.generation import GenerateRequest
from conch_contracts.names import GENERATE_PATH
from testkit.conch import wait_until


@dataclass(slots=True)
class Reply:
    """An answer of the worker, taken apart."""

    status: int
    headers: dict[str, str]
    body: bytes
    frames: list[str] = field(default_factory=list)

    @property
    def json(self) -> Any:
        """The body of an answer that is not streamed."""
        return json.loads(self.body)

    @property
    def payloads(self) -> list[Any]:
        """The JSON of every data frame."""
        return [json.loads(frame[6:]) for frame in self.frames if frame.startswith("data: {")]

    @property
    def usage(self) -> Any:
        """The usage, from the header or from the last comment."""
        if "x-conch-usage" in self.headers:
            return json.loads(self.headers["x-conch-usage"])
        return json.loads(self.frames[-1].removeprefix(": usage "))

    def text(self, index: int = 0) -> str:
        """Return the text of a choice."""
        if not self.frames:
            choice = self.json["choices"][index]
            return str(choice["message"]["content"] if "message" in choice else choice["text"])
        return "".join(
            choice["delta"].get("content", "") if "delta" in choice else choice["text"]
            for payload in self.payloads
            for choice in payload.get("choices", ())
            if choice["index"] == index
        )

    @property
    def finishes(self) -> list[tuple[str, str | int | None]]:
        """Every finish reason with its stop reason, in order of arrival."""
        choices = [c for payload in (self.payloads if self.frames else [self.json]) for c in payload.get("choices", ())]
        return [(c["finish_reason"], c["stop_reason"]) for c in choices if c["finish_reason"] is not None]

    @property
    def error(self) -> Any:
        """The error of a broken stream or of a refused request."""
        found = [p["error"] for p in self.payloads if "error" in p] if self.frames else [self.json["error"]]
        return found[0]


class LlmWorker:
    """A worker process; a context manager that always ends it."""

    def __init__(self, redis_url: str, folder: Path, **settings: object) -> None:
        self.log = folder / "llm-worker.log"
        self._ready = folder / "llm-worker.json"
        self._settings = {
            "REDIS_URL": redis_url,
            "HOST": "127.0.0.1",
            "PORT": 0,
            "ADMIN_HOST": "127.0.0.1",
            "ADMIN_PORT": 0,
            "READY_FILE": self._ready,
            "CACHE_DIR": folder / "cache",
        } | {name.upper(): value for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.admin_url = ""

    def __enter__(self) -> Self:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}  # noqa: TID251
        environ |= {f"CONCH_{name}": str(value) for name, value in self._settings.items()}
        with self.log.open("ab") as log:
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", "conch_llm_worker.main"], env=environ, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            wait_until(lambda: self._ready.exists() or process.poll() is not None, "a serving worker", 20)
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
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    def terminate(self) -> None:
        """Ask it to end, without waiting."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    async def ask(self, session: aiohttp.ClientSession, request: GenerateRequest) -> Reply:
        """Send one request and read the whole answer."""
        async with self.open(session, request) as answer:
            body = await answer.read()
        headers = {name.lower(): value for name, value in answer.headers.items()}
        streamed = headers["content-type"] == "text/event-stream"
        return Reply(answer.status, headers, body, body.decode().split("\n\n")[:-1] if streamed else [])

    def open(self, session: aiohttp.ClientSession, request: GenerateRequest) -> Any:
        """Send one request and return the answer as it comes, to be entered as a context."""
        headers = {"content-type": "application/json", "x-request-id": request.request_id}
        return session.post(self.url + GENERATE_PATH, data=request.model_dump_json(), headers=headers)
