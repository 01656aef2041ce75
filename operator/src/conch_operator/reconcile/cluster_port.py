"""The narrow port through which a plan becomes real.

A cluster keeps what it was told to run alive by itself, as a kubelet does: it starts a crashed engine again and reports
that it did. It is implemented by processes of this machine (`local`) and by `kubernetes`; the operator's loop sees no
difference.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from conch_contracts.names import ModelId
from conch_operator.reconcile.plan import Plan
from conch_operator.state import ClusterEngine, EngineName, Fault


class Cluster(Protocol):
    """Runs engines. Every call is idempotent and returns before its effect is complete."""

    async def engines(self) -> Sequence[ClusterEngine]:
        """Return every engine that was started and has not gone yet: a complete list."""

    async def act(self, steps: Plan) -> Mapping[ModelId, Fault]:
        """Take a plan's steps; return why those of some models were refused."""

    async def mark_serving(self, names: frozenset[EngineName]) -> None:
        """Learn which engines requests reach now."""
