"""Runs the real speech-worker process and speaks with it as a gateway does."""

import io
import json
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from conch_contracts.messages.transcription import TranscribeRequest, head_of
from conch_contracts.names import TRANSCRIBE_PATH
from testkit.processes.worker_process import WorkerProcess


@dataclass(slots=True)
class Transcript:
    """An answer of the worker, taken apart."""

    status: int
    headers: dict[str, str]
    body: bytes
    frames: list[str] = field(default_factory=list)

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The JSON of every data frame."""
        return [json.loads(frame[6:]) for frame in self.frames if frame.startswith("data: {")]

    @property
    def usage(self) -> Any:
        """The usage, from the header or from the last comment."""
        if "x-conch-usage" in self.headers:
            return json.loads(self.headers["x-conch-usage"])
        return json.loads(self.frames[-1].removeprefix(": usage "))


class SpeechWorker(WorkerProcess):
    """A worker process; a context manager that always ends it."""

    def __init__(self, redis_url: str, folder: Path, **settings: object) -> None:
        super().__init__("conch_speech_worker.main", redis_url, folder, **{"cache_dir": folder / "cache", **settings})

    async def ask(self, session: aiohttp.ClientSession, request: TranscribeRequest, file: bytes) -> Transcript:
        """Send one request with its file and read the whole answer."""
        async with self.open(session, request, file) as answer:
            body = await answer.read()
        headers = {name.lower(): value for name, value in answer.headers.items()}
        streamed = headers["content-type"] == "text/event-stream"
        return Transcript(answer.status, headers, body, body.decode().split("\n\n")[:-1] if streamed else [])

    def open(
        self, session: aiohttp.ClientSession, request: TranscribeRequest, file: bytes
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Send one request with its file; leaving the context early hangs up."""
        return session.post(self.url + TRANSCRIBE_PATH, data=io.BytesIO(head_of(request) + file))

    def fork_server(self) -> psutil.Process:
        """Return the process that forks those that decode."""
        (found,) = (each for each in psutil.Process(self.pid).children() if "forkserver" in " ".join(each.cmdline()))
        return found

    def decoding_children(self) -> list[psutil.Process]:
        """Return the processes that decode a file, each the child of the one that forks them."""
        found = []
        for process in psutil.Process(self.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_ZOMBIE and process.ppid() != self.pid:
                    found.append(process)
        return found
