"""The models in the servers of EnginePools, as engines: a round says what is to be loaded, the pod's agent does it.

What is in a server its agent knows, so an operator that has just begun finds it there. A pod that is replaced loses all
of it; the round sees that the models lack an engine, and has them loaded into the new one.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest, EngineAddress, PoolId
from conch_operator.agent.graph_cache import CACHE
from conch_operator.agent.pool_messages import PoolOrder, PoolReport
from conch_operator.engine_pools.pooled_model import Loadable
from conch_operator.kubernetes.pods.agent_client import AT_ONCE, Agents, AgentUnavailable
from conch_operator.kubernetes.pools.pool_objects_kept import KeptPoolObjects
from conch_operator.kubernetes.pools.pool_pods import PoolPod, PoolPods
from conch_operator.kubernetes.pools.wanted_pools import WantedPools
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.reconcile.placement_faults import pool_fault, spec_fault
from conch_operator.reconcile.plan import Acted, Plan
from conch_operator.reconcile.recipe_files import repository_files
from conch_operator.state import ClusterEngine, DesiredModel, EngineComponent, EngineName, EnginePhase, Fault

log = logging.getLogger(__name__)

_EARLIER = 1000
"""The loads of a newer pod count above those of an older one, up to 999 each."""
_ON_ITS_WAY = Fault(Reason.ROLLING_OUT, "The pod that the pool asks for is being started; one before it may serve.")


@dataclass(frozen=True, slots=True)
class _Told:
    """What an agent was told last, and of which of its runs."""

    agent: str
    wanted: frozenset[EngineName]


class PooledEngines:
    """Has models loaded and unloaded."""

    def __init__(
        self, kept: KeptPoolObjects, pods: PoolPods, agents: Agents, background: Background = AWAITED, *, fence: int
    ) -> None:
        """Order in the name of the operator that has this fence."""
        self._fence = fence
        self._numbers = count(1)
        self._kept = kept
        self._pods = pods
        self._agents = agents
        self._wanted = WantedPools()
        self._starting: dict[EngineName, tuple[PoolId, Loadable]] = {}
        """What is to be loaded and no agent has told of yet."""
        self._stopping: set[EngineName] = set()
        self._told: dict[str, _Told] = {}
        self._ordering: CallsInFlight[str, PoolReport | None] = CallsInFlight(background, AT_ONCE)
        self._releasing: CallsInFlight[str, bool] = CallsInFlight(background, AT_ONCE)
        self._faults: Mapping[PoolId, Fault] = {}
        self._refused: Mapping[PoolId, Fault] = {}
        """Why objects of pools cannot be made."""

    async def observe(self, wanted: WantedPools) -> None:
        """Read what is there; raises ApiError when it is not known completely."""
        self._wanted = wanted
        await self._pods.observe(await self._kept.observe())
        there = {engine.name for engine in self._loaded()}
        self._starting = {
            name: (pool, loadable)
            for name, (pool, loadable) in self._starting.items()
            if name not in there and pool in wanted.pools
        }
        self._stopping &= there
        serving = {pod.uid for pool in self._pods.pools if (pod := self._pods.current(pool)) is not None}
        self._told = {uid: told for uid, told in self._told.items() if uid in serving}

    def engines(self) -> tuple[ClusterEngine, ...]:
        """Return the engines of all pools, as they were last read."""
        awaited = (_awaited(loadable, pool) for pool, loadable in self._starting.values())
        return (*self._loaded(), *awaited, *self._to_be_taken_over())

    def tokenizer_of(self, name: EngineName) -> Digest | None:
        """Return the tokenizer of the folder that a model was loaded from."""
        if name in self._starting:
            return self._starting[name][1].tokenizer
        for pool in self._pods.pools:
            for pod in filter(None, (self._pods.current(pool), *self._pods.others(pool))):
                tokenizers = {} if pod.report is None else pod.report.tokenizers
                if (found := tokenizers.get(name) or tokenizers.get(_plain(name))) is not None:
                    return found
        return None

    def fault_of(self, pool: PoolId) -> Fault | None:
        """Return why a pool's server does not run or cannot be told anything; None while it does, or only starts."""
        return self._faults.get(pool)

    async def act(self, steps: Plan) -> Acted:
        """Make the objects of every pool, and have loaded and unloaded what the plan names."""
        self._refused = await self._kept.make(self._wanted.pools, self._pods.staying)
        self._faults = {pool: fault for pool in self._wanted.pools if (fault := self._fault(pool)) is not None}
        for component in steps.start:
            self._start(component)
        stop = frozenset(steps.stop)
        self._stopping |= stop & {engine.name for engine in self._loaded()}
        self._starting = {name: entry for name, entry in self._starting.items() if name not in stop}
        await self._order(frozenset(steps.restart))
        await self._release(stop)
        rejected = {}
        for model in steps.models:
            pool = model.deployment.pool_id
            if pool is not None and (fault := self.misplaced(model) or self._faults.get(pool)) is not None:
                rejected[model.id] = fault
        return Acted(rejected, steps.specs)

    def _start(self, component: EngineComponent) -> None:
        pool = component.recipe.pool
        if pool is None or pool not in self._wanted.pools:
            return
        loadable = Loadable(
            name=component.name,
            model=component.model,
            spec_hash=component.spec_hash,
            contract=component.contract,
            tokenizer=component.tokenizer,
            longest_load_s=self._wanted.pools[pool].spec.max_load,
            files=repository_files(component.recipe, f"{CACHE}/{component.recipe.triton_model}"),
        )
        self._starting[component.name] = (pool, loadable)

    async def _order(self, restart: frozenset[EngineName]) -> None:
        """Tell each agent whose server is to have something else than it was told last."""
        calls = {}
        for pool in self._wanted.pools:
            pod = self._pods.current(pool)
            if pod is None or pod.agent is None or pod.report is None:
                continue
            there = {engine.name for engine in pod.report.models}
            load = tuple(loadable for wanted_in, loadable in self._starting.values() if wanted_in == pool)
            keep = there - self._stopping
            anew = tuple(sorted(restart & there))
            told = _Told(pod.report.agent, frozenset(keep | {loadable.name for loadable in load}))
            if anew or self._told.get(pod.uid) != told:
                order = PoolOrder(
                    fence=self._fence, number=next(self._numbers), keep=tuple(sorted(keep)), load=load, restart=anew
                )
                calls[pod.uid] = partial(self._tell, pod, order, told)
        said = await self._ordering.run(calls)
        for uid, report in said.items():
            if report is not None:
                self._pods.heard(uid, report)

    async def _tell(self, pod: PoolPod, order: PoolOrder, told: _Told) -> PoolReport | None:
        assert pod.agent is not None
        try:
            report = await self._agents.order(pod.agent, order)
        except AgentUnavailable as error:
            log.warning("The agent of an EnginePool was not told.", extra={"pod": pod.name, "error": str(error)})
            return None
        self._told[pod.uid] = told
        return report

    async def _release(self, stop: frozenset[EngineName]) -> None:
        """Let pods end whose models no gateway uses any more, or that have none."""
        calls = {}
        for pool in self._pods.pools:
            for pod in self._pods.others(pool):
                names = {engine.name for engine in _of_pod(pod, pool)}
                if pod.leaving and pod.agent is not None and names <= stop:
                    calls[pod.uid] = partial(self._let_go, pod)
        for uid, done in (await self._releasing.run(calls)).items():
            if done:
                self._pods.release(uid)

    async def _let_go(self, pod: PoolPod) -> bool:
        assert pod.agent is not None
        try:
            await self._agents.release(pod.agent)
        except AgentUnavailable as error:
            log.warning("The agent of an EnginePool was not told.", extra={"pod": pod.name, "error": str(error)})
            return False
        return True

    def misplaced(self, model: DesiredModel) -> Fault | None:
        """Return why a model cannot be in the pool that it names; None for one that names none."""
        pool = model.deployment.pool_id
        if pool is None:
            return None
        found = self._wanted.pools.get(pool)
        if found is None and pool in self._wanted.unreadable:
            return self._unreadable(pool)
        return spec_fault(model.deployment) or pool_fault(model.deployment, pool, found.spec if found else None)

    def _fault(self, pool: PoolId) -> Fault | None:
        pod = self._pods.current(pool)
        if pod is not None and pod.live and not pod.silent:
            return None
        fault = (None if pod is None else pod.fault) or self._refused.get(pool)
        name, lacks = pool.partition("/")[2], "takes no orders" if pod is not None and pod.live else "has no server"
        return None if fault is None else Fault(fault.reason, f"The EnginePool {name} {lacks}: {fault.message}")

    def unapplied(self, pool: PoolId) -> Fault | None:
        """Return why what serves a pool is not what it asks for; None where it is."""
        if pool in self._wanted.unreadable:
            fault = self._unreadable(pool)
            return replace(fault, message=f"{fault.message} What serves it goes on as it is.")
        if pool in self._refused:
            return self._refused[pool]
        planned, current = self._kept.template(pool), self._pods.current(pool)
        if current is not None and current.template == planned and (current.live or current.restarts):
            return None
        coming = [pod for pod in (current, *self._pods.coming(pool)) if pod is not None and pod.template == planned]
        return next((pod.fault for pod in coming if pod.fault is not None), _ON_ITS_WAY)

    def _unreadable(self, pool: PoolId) -> Fault:
        cause = self._wanted.unreadable[pool].rstrip(".")
        return Fault(Reason.SPEC_INVALID, f"The EnginePool {pool.partition('/')[2]} breaks a rule: {cause}.")

    def _loaded(self) -> Iterator[ClusterEngine]:
        """Yield what is in the servers that serve."""
        for pool in self._pods.pools:
            pod = self._pods.current(pool)
            for engine in () if pod is None else _of_pod(pod, pool, plain=True):
                yield replace(engine, phase=EnginePhase.STOPPING) if engine.name in self._stopping else engine

    def _to_be_taken_over(self) -> Iterator[ClusterEngine]:
        """Yield what serves in pods that are replaced."""
        for pool in self._pods.pools:
            for pod in self._pods.others(pool):
                yield from _of_pod(pod, pool)


def _of_pod(pod: PoolPod, pool: PoolId, *, plain: bool = False) -> Iterator[ClusterEngine]:
    """Yield the models in a pod; those of one that does not serve the pool any more have names of their own."""
    for engine in () if pod.report is None else pod.report.models:
        seen = replace(
            engine, grpc=pod.grpc, pool=pool, incarnation=pod.created * _EARLIER + min(engine.incarnation, _EARLIER - 1)
        )
        if plain:
            yield seen if pod.live else replace(seen, phase=_without_server(engine.phase))
        elif engine.phase is EnginePhase.RUNNING:
            yield replace(seen, name=EngineName(f"{engine.name}@{pod.name}"), phase=EnginePhase.LEAVING)


def _without_server(phase: EnginePhase) -> EnginePhase:
    return EnginePhase.EXITED if phase is EnginePhase.RUNNING else phase


def _plain(name: EngineName) -> EngineName:
    return EngineName(name.partition("@")[0])


def _awaited(loadable: Loadable, pool: PoolId) -> ClusterEngine:
    return ClusterEngine(
        name=loadable.name,
        model=loadable.model,
        spec_hash=loadable.spec_hash,
        contract=loadable.contract,
        phase=EnginePhase.STARTING,
        grpc=EngineAddress(""),
        pool=pool,
    )
