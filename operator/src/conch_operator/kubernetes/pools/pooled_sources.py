"""The `Sources` port for models in EnginePools: the agent in a pool's pod reads all their folders, each once."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest, ModelId
from conch_operator.agent.pool_messages import FolderQuestion
from conch_operator.kubernetes.pods.agent_client import AT_ONCE, Agents, AgentUnavailable
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from conch_operator.kubernetes.pools.pool_pods import PoolPod, PoolPods
from conch_operator.kubernetes.sources import ASK_AGAIN_S, AgentSources, Answer, answer_of
from conch_operator.model_folder.reader import needs_of
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.reconcile.reconciler import SourceUnavailable
from conch_operator.resources.pool_objects import pooled_folder
from conch_operator.routes.picture_profile import blindness
from conch_operator.state import DesiredModel, Fault, SourceFacts, SourceFault

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """What an agent has said about a model's folder."""

    asked: FolderQuestion
    pod: str
    answer: Answer
    at_s: float
    silent: bool = False
    """Whether the pod has not answered: then the answer is what is known all the same."""

    @property
    def is_final(self) -> bool:
        """Return whether it need not be asked again."""
        return isinstance(self.answer, SourceFacts) and not self.silent


class PooledSources:
    """Asks the agents of pools, and all others for models with engines of their own."""

    def __init__(
        self,
        pods: PoolPods,
        agents: Agents,
        others: AgentSources,
        misplaced: Callable[[DesiredModel], Fault | None],
        clock: Callable[[], float] = time.monotonic,
        background: Background = AWAITED,
    ) -> None:
        self._pods = pods
        self._agents = agents
        self._others = others
        self._misplaced = misplaced
        self._clock = clock
        self._questions: CallsInFlight[ModelId, _Known] = CallsInFlight(background, AT_ONCE)
        self._known: dict[ModelId, _Known] = {}

    async def read_all(self, models: Sequence[DesiredModel]) -> Mapping[ModelId, Answer]:
        """Return what the folders of these models say; one that no agent has read yet is left out.

        So is one that cannot be in the pool that it names.
        """
        alone = [model for model in models if model.deployment.spec.placement is None]
        placed = {model.id: model for model in models if model.deployment.spec.placement is not None}
        asked = {model_id: _question(model) for model_id, model in placed.items() if self._misplaced(model) is None}
        calls = {}
        for model_id, question in asked.items():
            pool = placed[model_id].deployment.pool_id
            pod = None if pool is None else self._pods.current(pool)
            if pod is None or not pod.live or pod.agent is None or not _mounts(pod, placed[model_id]):
                continue
            if self._is_due(model_id, question, pod.uid):
                calls[model_id] = partial(self._ask, model_id, pod.agent, pod.uid, question)
        said = await self._questions.run(calls)
        self._known |= said
        self._known = {model_id: known for model_id, known in self._known.items() if asked.get(model_id) == known.asked}
        found = {model_id: _suited(placed[model_id], known.answer) for model_id, known in self._known.items()}
        return {**await self._others.read_all(alone), **found}

    async def bundle(self, facts: SourceFacts) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle from any agent that has it; raises SourceUnavailable."""
        causes: list[str] = []
        for known in [*self._known.values()]:
            if not isinstance(known.answer, SourceFacts) or known.answer.digest != facts.digest:
                continue
            agent = self._agent_in(known.pod)
            if agent is not None:
                try:
                    return await self._agents.folder_bundle(agent, known.asked)
                except AgentUnavailable as error:
                    causes.append(str(error))
        try:
            return await self._others.bundle(facts)
        except SourceUnavailable as error:
            raise SourceUnavailable(causes[-1] if causes else str(error)) from error

    def _agent_in(self, uid: str) -> AgentAddress | None:
        pods = (self._pods.current(pool) for pool in self._pods.pools)
        return next((pod.agent for pod in pods if pod is not None and pod.uid == uid), None)

    def _is_due(self, model: ModelId, question: FolderQuestion, pod: str) -> bool:
        known = self._known.get(model)
        if known is None or known.asked != question or known.pod != pod:
            return True
        return not known.is_final and self._clock() - known.at_s >= ASK_AGAIN_S

    async def _ask(self, model: ModelId, agent: AgentAddress, pod: str, question: FolderQuestion) -> _Known:
        try:
            report = await self._agents.folder(agent, question)
        except AgentUnavailable as error:
            log.warning("The agent of an EnginePool does not answer.", extra={"model": model, "error": str(error)})
            return _Known(question, pod, self._facts(model, question) or _silence(error), self._clock(), silent=True)
        return _Known(question, pod, answer_of(report), self._clock())

    def _facts(self, model: ModelId, question: FolderQuestion) -> SourceFacts | None:
        """Return what is known of a folder from a pod before."""
        known = self._known.get(model)
        return known.answer if known and known.asked == question and isinstance(known.answer, SourceFacts) else None


def _silence(cause: AgentUnavailable) -> SourceFault:
    said = (
        f"The model's folder has not been read: {str(cause).rstrip('.')}. It is asked again; if this stays, see the log"
    )
    return SourceFault(Reason.WAITING, f"{said} of the container agent in the pod of its EnginePool.")


def _mounts(pod: PoolPod, model: DesiredModel) -> bool:
    """Return whether a pod can have a model's folder: one from before the claim was named cannot."""
    claim = model.deployment.spec.source.pvc
    return claim is None or claim.claim_name in pod.claims


def _question(model: DesiredModel) -> FolderQuestion:
    needs = needs_of(model.deployment.spec)
    return FolderQuestion(
        folder=pooled_folder(model.deployment), weights=needs.weights, config=needs.config, onnx=needs.onnx
    )


def _suited(model: DesiredModel, answer: Answer) -> Answer:
    return answer if not isinstance(answer, SourceFacts) else blindness(model, answer) or answer
