"""The pods of EnginePools: which of a pool's serves, and what its agent says is in its server.

A pool has one pod. While that is replaced there are two: the newer one serves from when its server runs, and what the
older one has goes on until it was taken over. An agent is asked all the time, and answers when something has changed.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from math import inf

from conch_contracts.conditions import Reason
from conch_contracts.names import POOL_LABEL, EngineAddress, PoolId
from conch_operator.agent.pool_messages import PoolQuestion, PoolReport
from conch_operator.agent.tokens import AgentOwner
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.api.kinds import POD, Object
from conch_operator.kubernetes.pods.agent_client import Agents, AgentUnavailable
from conch_operator.kubernetes.pods.hold_times import ALONE_S, LONGEST_HOLD_S
from conch_operator.kubernetes.pods.pod_events import PodEvents
from conch_operator.kubernetes.pods.pod_owners import OF_POOLS, PodOwners
from conch_operator.kubernetes.pods.pod_status import (
    AgentAddress,
    agent_host,
    engine_address,
    has_ended,
    pod_fault,
    pod_name,
    pod_template,
)
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.resources.engine_deployment import TRITON
from conch_operator.resources.pool_objects import agent_owner
from conch_operator.state import EngineName, Fault

log = logging.getLogger(__name__)

SILENCE_S = 2.0
"""Until an agent is asked again that did not answer."""
NEWS_S = 10.0
"""How long an agent may wait with its answer until something has changed."""
LONGEST_SILENCE_S = 3 * NEWS_S
"""After which what an agent has said last may be true no more."""
_NO_NEWS_PAUSE_S = 0.1
"""So that one that does not wait with its answer, as it should, takes no time from the others."""
_WHAT_DECIDES = "Lower spec.memory of the EnginePool, or add a node."
_MOST_PODS = 10_000
"""More than there are: each is asked by a call that goes on until there is news."""


@dataclass(frozen=True, slots=True)
class PoolPod:
    """One pod of a pool."""

    name: EngineName
    uid: str
    agent: AgentAddress | None
    """Where its agent answers; None while it does not run."""
    grpc: EngineAddress
    created: int
    """Unix seconds."""
    leaving: bool
    """Whether it is to end."""
    held: bool
    """Whether it serves until we let it end."""
    report: PoolReport | None
    """What its agent said last."""
    fault: Fault | None
    """Why it does not run, or cannot be told what to load."""
    silent: bool = False
    """Whether its agent has answered nothing for so long that its report may be true no more."""
    ready: bool = False
    """Whether the kubelet has found that its server answers."""
    template: str = ""
    """The hash of the template that it was made from."""
    claims: frozenset[str] = frozenset()
    """The PersistentVolumeClaims that it mounts."""

    @property
    def live(self) -> bool:
        """Return whether its server runs."""
        return self.report is not None and self.report.live

    @property
    def restarts(self) -> bool:
        """Return whether its server has ended, or is still to come, and nothing is known to be in the way."""
        return self.report is not None and not self.report.live and self.fault is None

    @property
    def answers(self) -> bool:
        """Return whether its server answers, as far as is known: that it has ended the agent knows first."""
        return self.live and self.ready and not self.silent


class PoolPods:
    """Knows the pods of all pools."""

    def __init__(
        self,
        api: KubernetesApi,
        agents: Agents,
        namespaces: Sequence[str | None],
        clock: Callable[[], float] = time.monotonic,
        background: Background = AWAITED,
    ) -> None:
        self._api = api
        self._agents = agents
        self._namespaces = namespaces
        self._clock = clock
        self._owners = PodOwners(api, namespaces, clock, OF_POOLS)
        self._events = PodEvents(api, clock, background)
        self._asking: CallsInFlight[str, PoolReport | AgentUnavailable] = CallsInFlight(background, _MOST_PODS)
        self._reports: dict[str, PoolReport] = {}
        self._answered_at: dict[str, float] = {}
        """When each agent has answered last, or was first asked."""
        self._leaving_since: dict[str, float] = {}
        self._silent_since: dict[str, float] = {}
        self._released: set[str] = set()
        self._pods: Mapping[PoolId, Sequence[PoolPod]] = {}

    async def observe(self, deployments: Sequence[Object]) -> None:
        """Read which pods there are and what their agents say; raises ApiError when it is not known completely."""
        found: dict[EngineName, Object] = {}
        for namespace in self._namespaces:
            for pod in await self._api.list_watched(POD, namespace, labels=POOL_LABEL):
                found[pod_name(pod)] = pod
        found = await self._owners.only_models(found, deployments)
        found = {name: pod for name, pod in found.items() if not has_ended(pod)}
        faults = await self._events.faults(found)
        now, uids = self._clock(), {pod["metadata"]["uid"] for pod in found.values()}
        leaving = {pod["metadata"]["uid"] for pod in found.values() if "deletionTimestamp" in pod["metadata"]}
        self._leaving_since = {uid: self._leaving_since.get(uid, now) for uid in leaving}
        self._released &= uids
        await self._ask({pod["metadata"]["uid"]: agent for pod in found.values() if (agent := _agent(pod)) is not None})
        self._reports = {uid: report for uid, report in self._reports.items() if uid in uids}
        self._answered_at = {uid: at for uid, at in self._answered_at.items() if uid in uids}
        pods: dict[PoolId, list[PoolPod]] = {}
        for name, pod in found.items():
            pods.setdefault(_pool(pod), []).append(self._read(name, pod, faults.get(name)))
        self._pods = {pool: self._held(group) for pool, group in pods.items()}

    def current(self, pool: PoolId) -> PoolPod | None:
        """Return the pod that serves, or is to."""
        staying = [pod for pod in self._pods.get(pool, ()) if not pod.leaving]
        return max(staying, key=lambda pod: (pod.live, pod.created, pod.name), default=None)

    def others(self, pool: PoolId) -> Sequence[PoolPod]:
        """Return the pods whose models are to be taken over."""
        current = self.current(pool)
        return [
            pod for pod in self._pods.get(pool, ()) if pod != current and pod.live and (pod.held or not pod.leaving)
        ]

    def coming(self, pool: PoolId) -> Sequence[PoolPod]:
        """Return the pods that are to serve and do not yet."""
        current = self.current(pool)
        return [pod for pod in self._pods.get(pool, ()) if pod != current and not pod.leaving and not pod.live]

    @property
    def pools(self) -> Sequence[PoolId]:
        """Return the pools that have pods."""
        return tuple(self._pods)

    def staying(self, pool: PoolId) -> list[str]:
        """Return the template hash of each pod that nobody has begun to end."""
        return [pod.template for pod in self._pods.get(pool, ()) if not pod.leaving]

    def heard(self, uid: str, report: PoolReport) -> None:
        """Take over what an agent has said, unless it has said something newer."""
        self._answered_at[uid] = self._clock()
        known = self._reports.get(uid)
        if known is None or known.agent != report.agent or known.changes <= report.changes:
            self._reports[uid] = report

    def release(self, uid: str) -> None:
        """Note that a pod may end."""
        self._released.add(uid)

    async def _ask(self, agents: Mapping[str, AgentAddress]) -> None:
        now = self._clock()
        self._silent_since = {uid: since for uid, since in self._silent_since.items() if now - since < SILENCE_S}
        due = {uid: agent for uid, agent in agents.items() if uid not in self._silent_since}
        self._answered_at = dict.fromkeys(agents, now) | self._answered_at
        said = await self._asking.run({uid: partial(self._news, uid, agent) for uid, agent in due.items()})
        for uid, answer in said.items():
            if isinstance(answer, AgentUnavailable):
                self._silent_since[uid] = now
                log.info("The agent of an EnginePool does not answer.", extra={"pod": uid, "error": str(answer)})
            elif uid in agents:
                self.heard(uid, answer)

    async def _news(self, uid: str, agent: AgentAddress) -> PoolReport | AgentUnavailable:
        """Return what an agent says as soon as that is news."""
        try:
            while True:
                known = self._reports.get(uid)
                asked = PoolQuestion()
                if known is not None:
                    asked = PoolQuestion(agent=known.agent, changes=known.changes, wait_s=NEWS_S)
                report = await self._agents.pool_report(agent, asked)
                known = self._reports.get(uid)
                if known is None or (report.agent, report.changes) != (known.agent, known.changes):
                    return report
                self._answered_at[uid] = self._clock()
                await asyncio.sleep(_NO_NEWS_PAUSE_S)
        except AgentUnavailable as error:
            return error

    def _read(self, name: EngineName, pod: Object, event_fault: Fault | None) -> PoolPod:
        meta = pod["metadata"]
        uid = meta["uid"]
        silent = self._clock() - self._answered_at.get(uid, inf) >= LONGEST_SILENCE_S
        return PoolPod(
            name=name,
            uid=uid,
            agent=_agent(pod),
            grpc=engine_address(pod),
            created=int(datetime.fromisoformat(meta["creationTimestamp"]).timestamp()),
            leaving=uid in self._leaving_since,
            held=uid in self._leaving_since and uid not in self._released,
            report=None if (report := self._reports.get(uid)) is None else _of_pool(report, _pool(pod)),
            fault=event_fault or pod_fault(pod, _WHAT_DECIDES) or (_silence(name) if silent else None),
            silent=silent,
            ready=any(one["name"] == TRITON and one["ready"] for one in pod["status"].get("containerStatuses", ())),
            template=pod_template(pod),
            claims=_claims(pod),
        )

    def _held(self, pods: Sequence[PoolPod]) -> list[PoolPod]:
        longest_s = LONGEST_HOLD_S if any(not pod.leaving for pod in pods) else ALONE_S
        now = self._clock()
        return [
            replace(pod, held=pod.held and now - self._leaving_since[pod.uid] < longest_s) if pod.leaving else pod
            for pod in pods
        ]


def _pool(pod: Object) -> PoolId:
    return PoolId(f"{pod['metadata']['namespace']}/{pod['metadata']['labels'][POOL_LABEL]}")


def _silence(pod: EngineName) -> Fault:
    said = f"The agent in the pod {pod} has answered nothing for {LONGEST_SILENCE_S:g} s."
    step = "See the log of its container agent; where that does not help, delete the pod to have another one."
    return Fault(Reason.ENGINE_UNREACHABLE, f"{said} {step}")


def _claims(pod: Object) -> frozenset[str]:
    named = (volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod["spec"].get("volumes", ()))
    return frozenset(claim for claim in named if claim is not None)


def _of_pool(report: PoolReport, pool: PoolId) -> PoolReport:
    """Return what an agent may speak of: who can reach into its pod is nobody for other pools and namespaces."""
    namespace = pool.partition("/")[0]
    models = tuple(
        engine
        for engine in report.models
        if engine.model.partition("/")[0] == namespace and engine.name.startswith(f"{pool}/")
    )
    names = {engine.name for engine in models}
    tokenizers = {name: tokenizer for name, tokenizer in report.tokenizers.items() if name in names}
    return report.model_copy(update={"models": models, "tokenizers": tokenizers})


def _agent(pod: Object) -> AgentAddress | None:
    host = agent_host(pod)
    owner: AgentOwner = agent_owner(_pool(pod))
    return None if host is None else AgentAddress(host, owner)
