"""Settings of one llm-worker process, read once from CONCH_* variables."""

from pathlib import Path

from pydantic import Field

from conch_contracts.names import SERVICE_PORT
from conch_kit.service.worker import WorkerSettings
from conch_kit.settings import Port


class LlmWorkerSettings(WorkerSettings):
    """What the llm-worker can be told, beside what every worker can."""

    port: Port = SERVICE_PORT
    cache_dir: Path | None = None
    """Where tokenizer bundles are kept, so that a restart needs no Redis.

    Default: a private temporary folder that goes with the process, because whoever can write there chooses the text.
    """

    max_vocabularies: int = Field(default=32, ge=1)
    """Tokenizers held in memory; the least recently used goes first. One takes up to some 100 MB."""

    max_body_bytes: int = Field(default=64 * 1024 * 1024, ge=1)
    """Longest generate message; a prompt of a million ids takes about 7 MB."""
