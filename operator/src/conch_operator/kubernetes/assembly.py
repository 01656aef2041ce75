"""Puts together what the holder of the Lease works with, by what the chart tells it about its release."""

from dataclasses import dataclass
from functools import partial

from conch_kit.bundles.store import BundleStore
from conch_kit.redis.client import RedisClient
from conch_kit.registry.name_reservations import NameReservations
from conch_kit.registry.writer import RegistryWriter
from conch_kit.triton.checked_addresses import CheckedAddresses
from conch_kit.triton.client import TritonClient
from conch_kit.triton.http_client import TritonHttp
from conch_operator.engine_pools.residents import Residents
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.cluster import KubernetesCluster
from conch_operator.kubernetes.engines import KubernetesEngines
from conch_operator.kubernetes.leader_loop import LeaderRound
from conch_operator.kubernetes.pods.agent_client import Agents
from conch_operator.kubernetes.pools.pool_objects_kept import KeptPoolObjects
from conch_operator.kubernetes.pools.pool_pods import PoolPods
from conch_operator.kubernetes.pools.pool_status_writer import PoolStatusWriter
from conch_operator.kubernetes.pools.pooled_engines import PooledEngines
from conch_operator.kubernetes.pools.pooled_sources import PooledSources
from conch_operator.kubernetes.sources import AgentSources
from conch_operator.kubernetes.status_writer import StatusWriter
from conch_operator.kubernetes.worker_pools import WorkerPools
from conch_operator.metrics import OperatorMetrics
from conch_operator.probe.prober import Prober
from conch_operator.probe.triton_request import TritonProbeClient
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.reconcile.plan import plan_workloads
from conch_operator.reconcile.reconciler import Ports, Reconciler, RegistryView
from conch_operator.routes.known_routes import KnownRoutes
from conch_operator.scaling.autoscaler import Autoscaler
from conch_operator.scaling.demand import DemandBook
from conch_operator.settings import ReleaseFile

WITHDRAWAL_S = 8.0
"""How long to wait for gateways that do not report what they have applied; they do every 2 s."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a leader has open, and gives back when it stops."""

    api: KubernetesApi
    instance: str
    """The name of this operator's pod, which Events tell."""
    agents: Agents
    redis: RedisClient
    registry: RegistryView
    prober: Prober
    background: Background
    demand: DemandBook
    metrics: OperatorMetrics


def probe_client(release: ReleaseFile, triton: TritonClient, http: TritonHttp) -> TritonProbeClient:
    """Return what asks engines; it dials no address of a model's author that the release does not allow."""
    return TritonProbeClient(triton, http, addresses=CheckedAddresses(release.engines.addresses))


def namespaces_of(release: ReleaseFile) -> tuple[str | None, ...]:
    """Return where models are looked for; None is everywhere."""
    return release.watch_namespaces or (None,)


@dataclass(frozen=True, slots=True)
class LeaderPorts:
    """What a round reads from and acts on, and those of its parts that others need too."""

    ports: Ports
    engines: KubernetesEngines
    sources: AgentSources
    autoscaler: Autoscaler
    residents: Residents
    pooled: PooledEngines
    pool_pods: PoolPods


def ports_of(release: ReleaseFile, opened: Opened, fence: int) -> LeaderPorts:
    """Return what a round reads from and acts on; `fence` goes with all that it writes."""
    background, api, agents, namespaces = opened.background, opened.api, opened.agents, namespaces_of(release)
    engines = KubernetesEngines(
        api, agents, release.engines, namespaces, background=background, instance=opened.instance
    )
    sources = AgentSources(api, agents, background=background)
    kept = KeptPoolObjects(
        api, agents.tokens, release.engines, namespaces, background=background, instance=opened.instance
    )
    pool_pods = PoolPods(api, agents, namespaces, background=background)
    pooled = PooledEngines(kept, pool_pods, agents, background, fence=fence)
    cluster = KubernetesCluster(engines, pooled, sources)
    autoscaler = Autoscaler(
        opened.demand,
        background.changed,
        opened.metrics.scaling,
        engines.wake,
        node_wait_s=release.engines.node_wait_seconds,
    )
    residents = Residents(opened.demand, background.changed, opened.metrics.pools)
    ports = Ports(
        sources=PooledSources(pool_pods, agents, sources, pooled.misplaced, background=background),
        cluster=cluster,
        plan=partial(plan_workloads, known=KnownRoutes()),
        publisher=RegistryWriter(opened.redis, fence=fence),
        reader=opened.registry,
        bundles=BundleStore(opened.redis),
        prober=opened.prober,
        tokenizer_of=cluster.tokenizer_of,
        reservations=NameReservations(opened.redis),
        scaling=(autoscaler, residents),
    )
    return LeaderPorts(ports, engines, sources, autoscaler, residents, pooled, pool_pods)


def leader_round(release: ReleaseFile, opened: Opened, fence: int) -> LeaderRound:
    """Return a leader's round."""
    made = ports_of(release, opened, fence)
    return LeaderRound(
        api=opened.api,
        engines=made.engines,
        sources=made.sources,
        worker_pools=WorkerPools(opened.api, release, background=opened.background, instance=opened.instance),
        reconciler=Reconciler(made.ports, longest_withdrawal_s=WITHDRAWAL_S, background=opened.background),
        status_writer=StatusWriter(opened.api, opened.instance, opened.background),
        registry=opened.registry,
        autoscaler=made.autoscaler,
        residents=made.residents,
        pooled=made.pooled,
        pool_statuses=PoolStatusWriter(opened.api, made.pooled, made.pool_pods, opened.background),
        namespaces=namespaces_of(release),
        namespaced_names=release.namespaced_names,
    )
