"""The tokenizer's settings, read once from `CONCH_*` variables by `main`."""

from pathlib import Path

from pydantic import Field

from conch_contracts.names import SERVICE_PORT
from conch_kit.settings import Port, ServiceSettings
from conch_tokenizer.children.limits import ChildLimits, TimeLimits


class TokenizerSettings(ServiceSettings):
    """Settings of one tokenizer process."""

    port: Port = SERVICE_PORT
    """Port of the service; 0 means any free one."""
    cache_dir: Path | None = None
    """Folder for unpacked tokenizer bundles; kept over restarts and safe to share between processes.

    Default: a private temporary folder that goes with the process, because whoever can write there chooses the
    tokenizers. It needs as much space as the tokenizers of all models.
    """
    children: int = Field(default=2, ge=1, le=64)
    """Processes that render and encode small requests. Default 2: one long prompt must not hold up all others.

    Large requests have processes of their own, one less than these but at least one, and grammars have one: those start
    when they are first wanted. With the default there are up to four.
    """
    child_memory_bytes: int = Field(default=2 * 1024**3, ge=256 * 1024**2)
    """Address space of one child, in bytes. Default 2 GiB: a large vocabulary takes about 200 MB."""
    models_in_memory: int = Field(default=8, ge=1)
    """Tokenizers that one child keeps loaded; the least recently used goes first. Default 8."""
    template_timeout_s: float = Field(default=2.0, gt=0)
    """Time for reading a request and rendering its chat template, in seconds. Default 2."""
    encode_timeout_s: float = Field(default=5.0, gt=0)
    """Time for encoding a long text, in seconds, and for each picture. Default 5: the largest take about two."""
    load_timeout_s: float = Field(default=30.0, gt=0)
    """Time for loading one tokenizer from disk, in seconds. Default 30."""
    grammar_cpu_s: float = Field(default=1.5, gt=0)
    """Processor time for checking one grammar, in seconds. Default 1.5, so that the answer is there within two."""
    grammar_memory_bytes: int = Field(default=256 * 1024**2, ge=64 * 1024**2)
    """Memory for checking one grammar, in bytes. Default 256 MiB."""
    grammar_timeout_s: float = Field(default=4.0, gt=0)
    """Time for checking one grammar on a busy machine, in seconds; beyond it the service is overloaded. Default 4.

    The first check for a tokenizer reads that as well.
    """
    queue_wait_s: float = Field(default=5.0, gt=0)
    """How long a request may wait for a child before it is refused as overload, in seconds. Default 5."""
    queue_max: int = Field(default=512, ge=1)
    """Requests that may wait for a child at once; one more is refused. Default 512."""
    max_text_bytes: int = Field(default=4 * 1024**2, ge=1024)
    """UTF-8 bytes of text in one request, rendered. Default 4 MiB: about a million tokens, over any context."""
    max_body_bytes: int = Field(default=32 * 1024**2, ge=1024)
    """Bytes of one request body. Default 32 MiB: the largest text with every character escaped."""

    def child_limits(self) -> ChildLimits:
        """Return what a child may use."""
        return ChildLimits(
            memory_bytes=self.child_memory_bytes,
            max_text_bytes=self.max_text_bytes,
            models_in_memory=self.models_in_memory,
            grammar_memory_bytes=self.grammar_memory_bytes,
            grammar_cpu_s=self.grammar_cpu_s,
        )

    def time_limits(self) -> TimeLimits:
        """Return how long a child may take."""
        return TimeLimits(
            template_s=self.template_timeout_s, encode_s=self.encode_timeout_s, load_s=self.load_timeout_s
        )
