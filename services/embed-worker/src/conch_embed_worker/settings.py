"""Settings of one embed-worker process, read once from CONCH_* variables."""

from pydantic import Field

from conch_contracts.names import SERVICE_PORT
from conch_kit.service.worker import WorkerSettings
from conch_kit.settings import Port


class EmbedWorkerSettings(WorkerSettings):
    """What the embed-worker can be told, beside what every worker can."""

    port: Port = SERVICE_PORT
    max_body_bytes: int = Field(default=64 * 1024 * 1024, ge=1)
    """Longest encode message; a million ids take about 7 MB."""
    max_batch_tokens: int = Field(default=16_384, ge=1)
    """Tokens of one batch, padding included; a longer text is computed alone. More make an engine's calls longer, and
    with them the wait of a request that comes in between."""
