"""Runs the real llm-worker process and speaks with it as a gateway does."""

import json
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.messages.message import to_json
from conch_contracts.names import GENERATE_PATH
from testkit.processes.worker_process import WorkerProcess


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


class LlmWorker(WorkerProcess):
    """A worker process; a context manager that always ends it."""

    def __init__(self, redis_url: str, folder: Path, **settings: object) -> None:
        super().__init__("conch_llm_worker.main", redis_url, folder, **{"cache_dir": folder / "cache", **settings})

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
        return session.post(self.url + GENERATE_PATH, data=BytesIO(to_json(request)), headers=headers)
