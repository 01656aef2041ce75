"""Settings of one speech-worker process, read once from CONCH_* variables."""

from pathlib import Path

from pydantic import Field

from conch_contracts.names import SERVICE_PORT
from conch_kit.service.worker import WorkerSettings
from conch_kit.settings import Port


class SpeechWorkerSettings(WorkerSettings):
    """What the speech-worker can be told, beside what every worker can."""

    port: Port = SERVICE_PORT
    max_message_bytes: int = Field(default=1024 * 1024, ge=1)
    """Longest message that goes before a file."""
    max_file_bytes: int = Field(default=512 * 1024 * 1024, ge=1)
    """Longest file; the gateway has a lower bound of its own."""
    cache_dir: Path | None = None
    """Where unpacked tokenizer bundles are kept; None: a temporary folder."""
    max_vocabularies: int = Field(default=8, ge=1)
    """Tokenizers in memory at a time."""
    child_memory_bytes: int = Field(default=512 * 1024 * 1024, ge=64 * 1024 * 1024)
    """Address space that decoding one file may take, on top of what a child has when it begins."""
    child_cpu_s: int = Field(default=60, ge=1)
    """Processor time that decoding one file may take; an hour of mp3 takes about two seconds."""
    child_silence_s: float = Field(default=20.0, gt=0)
    """How long decoding may bring nothing, before the file counts as broken, or as held up where it does not work."""
