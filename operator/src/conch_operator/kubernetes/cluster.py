"""The `Cluster` port on Kubernetes: pods with engines of their own, and models in the pods of EnginePools."""

from collections.abc import Sequence

from conch_contracts.names import Digest
from conch_operator.kubernetes.engines import KubernetesEngines
from conch_operator.kubernetes.pools.pooled_engines import PooledEngines
from conch_operator.kubernetes.sources import AgentSources
from conch_operator.reconcile.plan import Acted, Plan
from conch_operator.state import ClusterEngine, EngineName


class KubernetesCluster:
    """Gives each part of a plan to whom it is for."""

    def __init__(self, engines: KubernetesEngines, pooled: PooledEngines, sources: AgentSources) -> None:
        self._engines = engines
        self._pooled = pooled
        self._sources = sources

    async def engines(self) -> Sequence[ClusterEngine]:
        """Return the engines of all pods, as they were last read."""
        return (*await self._engines.engines(), *self._pooled.engines())

    async def act(self, steps: Plan) -> Acted:
        """Take a plan's steps."""
        alone, pooled = await self._engines.act(steps), await self._pooled.act(steps)
        return Acted({**alone.rejected, **pooled.rejected}, {**alone.specs, **pooled.specs}, alone.unapplied)

    async def mark_serving(self, names: frozenset[EngineName]) -> None:
        """Open the readiness gate of pods that requests reach; the pod of a pool has none."""
        await self._engines.mark_serving(names)

    def tokenizer_of(self, name: EngineName) -> Digest | None:
        """Return the tokenizer of the folder that an engine was started with; None where nobody knows."""
        return self._sources.tokenizer_of(name) or self._pooled.tokenizer_of(name)
