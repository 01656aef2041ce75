"""The `Sources` port on Kubernetes: the agent beside an engine reads the folder, and is asked once for each pod."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from conch_contracts.conditions import Reason
from conch_contracts.modeldeployment import ModelDeployment
from conch_contracts.names import SOURCE_ANNOTATION, Digest, ModelId
from conch_operator.agent.messages import SourceReport
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.api.kinds import Object
from conch_operator.kubernetes.chat_templates import ChatTemplates, Template
from conch_operator.kubernetes.pods.agent_client import AT_ONCE, Agents, AgentUnavailable
from conch_operator.kubernetes.pods.pod_status import AgentAddress, agent_address, pod_name
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.reconcile.reconciler import SourceUnavailable
from conch_operator.resources.source_reader import pods_of
from conch_operator.resources.source_volume import source_hash
from conch_operator.routes.picture_profile import blindness
from conch_operator.state import DesiredModel, EngineName, SourceFacts, SourceFault

log = logging.getLogger(__name__)

ASK_AGAIN_S = 5.0
"""Between two questions about a folder that is faulty."""
ASK_FOR_PROGRESS_S = 2.0
"""Between two questions about a folder that is on its way."""
SILENCE_S = 10.0
"""How long an agent that runs may take for its first answer: a busy machine starts it slowly."""
_ON_THE_WAY = (Reason.WAITING, Reason.DOWNLOADING, Reason.TEMPLATE_UNCHECKED)

Answer = SourceFacts | SourceFault


@dataclass(frozen=True, slots=True)
class _Asked:
    answer: Answer
    at_s: float
    agent: AgentAddress | None
    """Where the agent is, if it runs."""


class AgentSources:
    """Asks agents, and remembers what they said."""

    def __init__(
        self,
        api: KubernetesApi,
        agents: Agents,
        clock: Callable[[], float] = time.monotonic,
        background: Background = AWAITED,
    ) -> None:
        self._templates = ChatTemplates(api, background)
        self._questions: CallsInFlight[str, SourceReport | AgentUnavailable] = CallsInFlight(background, AT_ONCE)
        self._agents = agents
        self._clock = clock
        self._asked: dict[str, _Asked] = {}
        self._silent: dict[str, float] = {}
        """Since when agents that run have not answered."""
        self._started: dict[str, tuple[EngineName, AgentAddress]] = {}
        """Pods that started lately: a round may have listed all pods before that."""
        self._unlisted: frozenset[str] = frozenset()
        """Those of them that the last list had not: what the next one has not either has gone."""
        self._pods_of: Mapping[ModelId, Sequence[str]] = {}
        self._leaving: set[str] = set()
        self._foreign: set[str] = set()
        self._last: dict[ModelId, tuple[str, Answer]] = {}
        self._hashes: dict[ModelId, tuple[ModelDeployment, str]] = {}
        self._tokenizers: dict[EngineName, Digest] = {}

    async def ask(self, models: Sequence[DesiredModel], pods: Sequence[Object]) -> None:
        """Ask the agents in these models' pods, among all that were listed, what they have not said yet.

        A pod that was started for another source says nothing about the one of today. One that is being deleted may
        still know the folder of engines that serve; what it misses is no fault of today's spec, which may be another
        model of the same name.
        """
        groups = pods_of(models, pods)
        self._hashes = {model.id: self._hashed(model) for model in models}
        self._foreign = {
            pod["metadata"]["uid"]
            for model in models
            for pod in groups[model.id]
            if _has_another_source(pod, self._source_of(model))
        }
        self._leaving = {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" in pod["metadata"]}
        self._pods_of = {model: [pod["metadata"]["uid"] for pod in group] for model, group in groups.items()}
        await self._ask({pod["metadata"]["uid"]: pod for group in groups.values() for pod in group})

    def ask_soon(self, pod: Object, told: Callable[[], None]) -> None:
        """Begin to ask the agent in a pod that has just started; the next round takes what it says.

        `told` is called as soon as the tokenizer of its folder is known.
        """
        uid, agent = pod["metadata"]["uid"], agent_address(pod)
        if agent is not None and uid not in self._asked:
            self._started[uid] = pod_name(pod), agent
            self._questions.start({uid: partial(self._question, pod_name(pod), agent, told)})

    async def read_all(self, models: Sequence[DesiredModel]) -> Mapping[ModelId, Answer]:
        """Return what the folders of these models say; one that no agent has read yet is left out."""
        known: list[DesiredModel] = []
        for model in models:
            source = self._source_of(model)
            answers = [answer for uid in self._pods_of.get(model.id, ()) if (answer := self._said(uid)) is not None]
            before = self._last.get(model.id)
            there = [answer for answer in answers if not _is_on_its_way(answer)]
            if there or (answers and (before is None or before[0] != source)):
                self._last[model.id] = (source, (there or answers)[0])
            elif before is None or before[0] != source:
                continue
            elif answers and _is_on_its_way(before[1]):
                self._last[model.id] = (source, answers[0])
            known.append(model)
        read = [model for model in known if isinstance(self._last[model.id][1], SourceFacts)]
        templates = await self._templates.read_all(read)
        found = {model.id: _with_template(model, self._last[model.id][1], templates) for model in known}
        self._last = {model: last for model, last in self._last.items() if model in found}
        self._templates.keep_only({model.id for model in models})
        return found

    def _source_of(self, model: DesiredModel) -> str:
        return self._hashed(model)[1]

    def _hashed(self, model: DesiredModel) -> tuple[ModelDeployment, str]:
        """Return a spec with the hash of its source, which is made once for each spec."""
        known = self._hashes.get(model.id)
        if known is None or known[0] is not model.deployment:
            return model.deployment, source_hash(model)
        return known

    def tokenizer_of(self, engine: EngineName) -> Digest | None:
        """Return the tokenizer of the folder in an engine's pod; None while that has not been read."""
        return self._tokenizers.get(engine)

    async def bundle(self, facts: SourceFacts) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle from any agent that has it; raises SourceUnavailable."""
        causes = ["no pod has it"]
        for asked in self._asked.values():
            if asked.agent is None or not isinstance(asked.answer, SourceFacts) or asked.answer.digest != facts.digest:
                continue
            try:
                return await self._agents.bundle(asked.agent)
            except AgentUnavailable as error:
                causes.append(str(error))
        raise SourceUnavailable(causes[-1])

    async def _ask(self, pods: Mapping[str, Object]) -> None:
        agents = {uid: agent_address(pod) for uid, pod in pods.items()}
        self._asked = {uid: replace(asked, agent=agents[uid]) for uid, asked in self._asked.items() if uid in agents}
        due = {uid: agent for uid, agent in agents.items() if agent is not None and self._is_due(uid)}
        answers = await self._questions.run(
            {uid: partial(self._question, pod_name(pods[uid]), agent) for uid, agent in due.items()}
        )
        self._silent = {uid: since for uid, since in self._silent.items() if uid in agents}
        settled = agents.keys() | self._unlisted
        self._started = {uid: started for uid, started in self._started.items() if uid not in settled}
        self._unlisted = frozenset(self._started)
        agents |= {uid: agent for uid, (_, agent) in self._started.items()}
        for uid, answer in answers.items():
            if uid not in agents:
                continue
            if isinstance(answer, AgentUnavailable):
                self._note_silence(uid, agents[uid], answer)
            else:
                self._silent.pop(uid, None)
                self._asked[uid] = _Asked(answer_of(answer), self._clock(), agents[uid])
        names = {uid: name for uid, (name, _) in self._started.items()}
        names |= {uid: pod_name(pod) for uid, pod in pods.items()}
        said = {name: self._asked[uid].answer for uid, name in names.items() if uid in self._asked}
        self._tokenizers = {name: facts.digest for name, facts in said.items() if isinstance(facts, SourceFacts)}

    async def _question(
        self, name: EngineName, agent: AgentAddress, told: Callable[[], None] = lambda: None
    ) -> SourceReport | AgentUnavailable:
        try:
            report = await self._agents.source(agent)
        except AgentUnavailable as error:
            return error
        if report.facts is not None:
            self._tokenizers[name] = report.facts.digest
            told()
        return report

    def _note_silence(self, uid: str, agent: AgentAddress | None, cause: AgentUnavailable) -> None:
        """Say why nothing is known of a folder whose agent has run for a while and not answered once."""
        since = self._silent.setdefault(uid, self._clock())
        if uid in self._asked or self._clock() - since < SILENCE_S:
            return
        log.warning("An agent does not answer.", extra={"pod": uid, "error": str(cause)})
        said = (
            f"The model's folder has not been read: {str(cause).rstrip('.')}. It may still be starting; if this stays,"
        )
        said += " see the log of the container agent."
        self._asked[uid] = _Asked(SourceFault(Reason.WAITING, said), self._clock(), agent)

    def _said(self, uid: str) -> Answer | None:
        """Return what a pod's agent has said that still counts."""
        asked = self._asked.get(uid)
        if asked is None or uid in self._foreign or (uid in self._leaving and isinstance(asked.answer, SourceFault)):
            return None
        return asked.answer

    def _is_due(self, uid: str) -> bool:
        asked = self._asked.get(uid)
        if asked is None:
            return True
        pause_s = ASK_FOR_PROGRESS_S if _is_on_its_way(asked.answer) else ASK_AGAIN_S
        return isinstance(asked.answer, SourceFault) and self._clock() - asked.at_s >= pause_s


def _with_template(model: DesiredModel, answer: Answer, templates: Mapping[ModelId, Template]) -> Answer:
    """Add the chat template that the ModelDeployment sets instead of the folder's, where that suits the rest."""
    if isinstance(answer, SourceFault):
        return _explained(model, answer)
    fault = blindness(model, answer)
    if fault is not None:
        return fault
    template = templates[model.id]
    if isinstance(template, SourceFault):
        return template
    return answer if answer.chat_template == template else replace(answer, chat_template=template)


def _has_another_source(pod: Object, source: str) -> bool:
    """Return whether a pod is known to have been started for another source; earlier versions do not tell."""
    found = pod["metadata"].get("annotations", {}).get(SOURCE_ANNOTATION)
    return found is not None and found != source


def _is_on_its_way(answer: Answer) -> bool:
    return isinstance(answer, SourceFault) and answer.reason in _ON_THE_WAY


def _explained(model: DesiredModel, fault: SourceFault) -> SourceFault:
    """Name what else keeps an image's folder away: a node that cannot mount images leaves it out without a word."""
    if fault.reason is not Reason.FOLDER_MISSING or model.deployment.spec.source.oci is None:
        return fault
    return replace(fault, message=f"{fault.message.removesuffix('.')}.oci, and that its nodes mount images as volumes.")


def answer_of(report: SourceReport) -> Answer:
    """Return what an agent says about a folder."""
    if report.facts is None:
        fault = report.fault
        if fault is None:
            return SourceFault(Reason.FILES_INVALID, "The agent says nothing about the folder.")
        return SourceFault(fault.reason, fault.message)
    facts = report.facts
    return SourceFacts(
        folder=Path(facts.folder),
        digest=facts.digest,
        weights=facts.weights,
        vocab_size=facts.vocab_size,
        max_position_embeddings=facts.max_position_embeddings,
        chat_template=None,
        generation=facts.generation,
        chat=facts.chat,
        encoder=facts.encoder,
        speech=facts.speech,
        sees=facts.sees,
        weight_bytes=facts.weight_bytes,
    )
