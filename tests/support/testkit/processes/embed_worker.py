"""Runs the real embed-worker process and speaks with it as a gateway does."""

from pathlib import Path

from conch_contracts.messages.encoding import EncodeRequest
from conch_contracts.messages.message import to_json
from conch_contracts.names import ENCODE_PATH
from testkit.http.json_post import Answered, post
from testkit.processes.worker_process import WorkerProcess


class EmbedWorker(WorkerProcess):
    """A worker process; a context manager that always ends it."""

    def __init__(self, redis_url: str, folder: Path, **settings: object) -> None:
        super().__init__("conch_embed_worker.main", redis_url, folder, **settings)

    def ask(self, request: EncodeRequest) -> Answered:
        """Send one request and return the whole answer."""
        return post(self.url + ENCODE_PATH, None, raw=to_json(request))
