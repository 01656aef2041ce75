"""Engines that start between two rounds: they and their agents are asked at once, and who is held has them then."""

import asyncio
from typing import Any

import pytest

from conch_contracts.names import Digest, EngineAddress
from conch_operator.agent.messages import FolderReport, SourceReport
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.engines import KubernetesEngines
from conch_operator.kubernetes.leader_loop import LeaderRound
from conch_operator.kubernetes.pods.agent_client import Agents, AgentUnavailable
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from conch_operator.kubernetes.sources import AgentSources
from conch_operator.settings import EngineSettings
from conch_operator.state import EngineName, EnginePhase
from testkit.builders.every_runtime import TOKENS
from testkit.builders.model_deployments import desired_model
from testkit.builders.owned_pods import deployments_of, made_by, replica_sets_of
from testkit.waiting import eventually

DIGEST = Digest("a" * 64)
NAME = EngineName("local/tiny-1")
CONTRACT = '{"triton_model": "model", "dialect": "tokens", "slots": 1}'
STARTING, RUNNING = {"waiting": {}}, {"running": {}}
INITIALIZED = {"waiting": {"reason": "PodInitializing"}}
"""The kubelet tells up to a second later that a container runs."""


def pod(state: Object, *, replica_set: str = "rs", leaving: bool = False) -> Object:
    meta: dict[str, Any] = {
        "name": "tiny-1",
        "namespace": "local",
        "uid": "tiny-1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"conch.dev/model-deployment": "tiny", "app.kubernetes.io/component": "engine"},
        "annotations": {"conch.dev/engine": CONTRACT},
    }
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    containers = [{"name": "triton", "state": state}]
    agents = [{"name": "agent", "state": RUNNING}]
    status: Object = {"podIP": "10.0.0.1", "initContainerStatuses": agents, "containerStatuses": containers}
    if state is not STARTING:
        status["conditions"] = [{"type": "Initialized", "status": "True"}]
    return made_by({"metadata": meta, "spec": {}, "status": status}, replica_set)


class Pods(KubernetesApi):
    """An API server with these pods, and the Deployment of a model that had another one."""

    def __init__(self, *pods: Object) -> None:
        super().__init__()
        self.pods = list(pods)

    async def list_all(
        self, kind: Kind, namespace: str | None, *, labels: str | None = None, metadata_only: bool = False
    ) -> list[Object]:
        before = [pod(STARTING)]
        made = {"Pod": self.pods, "ReplicaSet": replica_sets_of(before), "Deployment": deployments_of(before)}
        return made.get(kind.name, [])


async def observed(*pods: Object) -> KubernetesEngines:
    engines = KubernetesEngines(Pods(*pods), Agents(TOKENS), EngineSettings(agent_image="a"), [None])
    await engines.observe()
    return engines


async def test_an_engine_that_starts_is_seen_once_and_found_by_the_round_that_is_under_way() -> None:
    engines = await observed(pod(STARTING))
    seen = engines.started(pod(RUNNING))
    assert seen is not None
    assert (seen.name, seen.phase, seen.grpc) == (NAME, EnginePhase.RUNNING, EngineAddress("10.0.0.1:8001"))
    assert await engines.engines() == (seen,)
    assert engines.started(pod(RUNNING)) is None


async def test_an_engine_is_seen_when_it_may_run_and_again_when_the_kubelet_tells_that_it_does() -> None:
    engines = await observed(pod(STARTING))
    for state, phase in ((INITIALIZED, EnginePhase.INITIALIZED), (RUNNING, EnginePhase.RUNNING)):
        seen = engines.started(pod(state))
        assert seen is not None
        assert seen.phase is phase
        assert engines.started(pod(state)) is None


@pytest.mark.parametrize(
    ("before", "told"),
    [
        pytest.param(STARTING, pod(STARTING), id="it does not run yet"),
        pytest.param(STARTING, pod(RUNNING, leaving=True), id="it is about to end"),
        pytest.param(STARTING, pod(RUNNING, replica_set="theirs"), id="the model has not made it"),
        pytest.param(RUNNING, pod(RUNNING), id="it ran when a round looked"),
    ],
)
async def test_other_pods_are_left_to_the_next_round(before: Object, told: Object) -> None:
    engines = await observed(pod(before))
    assert engines.started(told) is None


class Folder(Agents):
    """An agent that tells of its folder when it may; `asked` counts the questions."""

    def __init__(self) -> None:
        super().__init__(TOKENS)
        self.asked = 0
        self.may_tell = asyncio.Event()
        self.away = False

    async def source(self, agent: AgentAddress) -> SourceReport:
        self.asked += 1
        await self.may_tell.wait()
        if self.away:
            raise AgentUnavailable(agent.host)
        facts = {"folder": "/models/m", "weights": "w", "vocab_size": 9, "max_position_embeddings": 9}
        return SourceReport(facts=FolderReport.model_validate({**facts, "digest": DIGEST}))


@pytest.fixture
async def folder() -> Folder:
    return Folder()


async def test_an_agent_is_asked_once_and_its_word_is_known_before_a_round_takes_it(folder: Folder) -> None:
    sources, started = AgentSources(KubernetesApi(), folder), pod(RUNNING)
    known: list[Digest | None] = []

    def ask_soon() -> None:
        sources.ask_soon(started, lambda: known.append(sources.tokenizer_of(NAME)))

    ask_soon()
    ask_soon()
    assert sources.tokenizer_of(NAME) is None
    folder.may_tell.set()
    await eventually(lambda: known == [DIGEST], "the agent's answer")
    await sources.ask([desired_model()], [started])
    ask_soon()
    assert (sources.tokenizer_of(NAME), folder.asked, known) == (DIGEST, 1, [DIGEST])


async def test_a_round_that_has_listed_pods_before_one_started_keeps_what_its_agent_says(folder: Folder) -> None:
    sources, started = AgentSources(KubernetesApi(), folder), pod(RUNNING)
    known: list[Digest | None] = []
    sources.ask_soon(started, lambda: known.append(sources.tokenizer_of(NAME)))
    folder.may_tell.set()
    await eventually(lambda: known == [DIGEST], "the agent's answer")
    await sources.ask([desired_model()], [])
    assert sources.tokenizer_of(NAME) == DIGEST
    await sources.ask([desired_model()], [started])
    assert (sources.tokenizer_of(NAME), folder.asked) == (DIGEST, 1)


async def test_what_the_agent_of_a_pod_said_is_forgotten_when_it_has_gone_before_any_round_saw_it(
    folder: Folder,
) -> None:
    sources = AgentSources(KubernetesApi(), folder)
    folder.may_tell.set()
    known: list[None] = []
    sources.ask_soon(pod(RUNNING), lambda: known.append(None))
    await eventually(lambda: known == [None], "the agent's answer")
    for _ in range(2):
        await sources.ask([desired_model()], [])
    assert sources.tokenizer_of(NAME) is None


async def test_an_agent_that_cannot_be_reached_is_asked_again_by_a_round(folder: Folder) -> None:
    sources, started = AgentSources(KubernetesApi(), folder), pod(RUNNING)
    folder.away = True
    folder.may_tell.set()
    known: list[None] = []
    sources.ask_soon(started, lambda: known.append(None))
    while folder.asked < 2:
        await sources.ask([desired_model()], [started])
        await asyncio.sleep(0)
    assert (sources.tokenizer_of(NAME), known) == (None, [])


async def test_a_pod_that_a_watch_tells_of_has_its_engine_and_its_agent_asked(folder: Folder) -> None:
    told: list[str] = []

    class Reconciler:
        def engine_started(self, engine: Any) -> None:
            told.append(engine.name)

        def look_for_answers(self) -> None:
            told.append("its tokenizer is known")

    sources: Any = AgentSources(KubernetesApi(), folder)
    parts: list[Any] = [None, await observed(pod(STARTING)), sources, None, Reconciler(), *[None] * 6]
    one_round = LeaderRound(*parts, [None])
    for state in (STARTING, RUNNING, RUNNING):
        one_round.see_pod(pod(state))
    folder.may_tell.set()
    await eventually(lambda: sources.tokenizer_of(NAME) == DIGEST, "the agent's answer")
    assert (told, folder.asked) == ([NAME, "its tokenizer is known"], 1)
