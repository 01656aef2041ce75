"""The narrow port through which a plan becomes real.

A cluster keeps what it was told to run alive by itself, as a kubelet does: it starts a crashed engine again and reports
that it did. Here it is implemented by processes of this machine; the operator's loop sees no difference.
"""

from collections.abc import Sequence
from typing import Protocol

from conch_operator.state import ClusterEngine, EngineComponent, EngineName


class Cluster(Protocol):
    """Runs engines. Every call is idempotent and returns before its effect is complete."""

    async def engines(self) -> Sequence[ClusterEngine]:
        """Return every engine that was started and has not gone yet: a complete list."""

    async def start(self, component: EngineComponent) -> None:
        """Begin to run an engine, and keep it running."""

    async def restart(self, name: EngineName) -> None:
        """End a broken engine at once and start it again, after a pause that grows while it keeps breaking."""

    async def stop(self, name: EngineName) -> None:
        """Let an engine finish what it has and end it."""
