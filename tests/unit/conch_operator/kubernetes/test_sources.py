import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest
from conch_operator.agent.messages import FaultReport, FolderReport, SourceReport
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.pods.agent_client import Agents, AgentUnavailable
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from conch_operator.kubernetes.sources import ASK_AGAIN_S, SILENCE_S, AgentSources
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.reconcile.reconciler import SourceUnavailable
from conch_operator.resources.source_volume import source_hash
from conch_operator.state import DesiredModel, EngineName, SourceFacts, SourceFault
from testkit.builders.every_runtime import TOKENS
from testkit.builders.model_deployments import desired_model

OLD, NEW = Digest("a" * 64), Digest("b" * 64)
MODEL = desired_model("m")


class Folders(Agents):
    """Agents that say what stands here, by the address of their pod."""

    def __init__(self, **digests: Digest) -> None:
        super().__init__(TOKENS)
        self.digests = digests

    async def source(self, agent: AgentAddress) -> SourceReport:
        host = agent.host
        if host not in self.digests:
            raise AgentUnavailable(host)
        facts = {"folder": "/models/m", "weights": "w", "vocab_size": 9, "max_position_embeddings": 9}
        return SourceReport(facts=FolderReport.model_validate({**facts, "digest": self.digests[host]}))


def pod(name: str, minute: int) -> Object:
    labels = {"conch.dev/model-deployment": "m", "app.kubernetes.io/component": "engine"}
    created = f"2026-01-01T00:{minute:02}:00Z"
    meta: dict[str, Any] = {"name": name, "namespace": "local", "uid": name, "labels": labels}
    agent = {"name": "agent", "state": {"running": {}}}
    return {
        "metadata": {**meta, "creationTimestamp": created},
        "status": {"podIP": name, "initContainerStatuses": [agent]},
    }


async def facts_of(sources: AgentSources, model: DesiredModel, pods: Sequence[Object]) -> SourceFacts:
    await sources.ask([model], pods)
    found = (await sources.read_all([model]))[model.id]
    assert isinstance(found, SourceFacts)
    return found


async def test_the_newest_pod_tells_what_the_folder_says_and_each_its_own_tokenizer() -> None:
    pods = [pod("old", 1), pod("new", 2), pod("silent", 3)]
    sources = AgentSources(KubernetesApi(), Folders(old=OLD, new=NEW))
    assert (await facts_of(sources, MODEL, pods)).digest == NEW
    told = [sources.tokenizer_of(EngineName(f"local/{name}")) for name in ("old", "new", "silent")]
    assert told == [OLD, NEW, None]
    del pods[0]
    await facts_of(sources, MODEL, pods)
    assert sources.tokenizer_of(EngineName("local/old")) is None


class Seeing(Folders):
    """Agents whose folders hold a model that sees."""

    async def source(self, agent: AgentAddress) -> SourceReport:
        facts = (await super().source(agent)).facts
        assert facts is not None
        return SourceReport(facts=facts.model_copy(update={"sees": True}))


async def test_a_deployment_may_ask_for_pictures_where_the_agent_says_that_the_model_sees() -> None:
    model = desired_model("m", multimodal={"images": {"max": 1}})
    assert (await facts_of(AgentSources(KubernetesApi(), Seeing(new=NEW)), model, [pod("new", 1)])).sees
    blind = AgentSources(KubernetesApi(), Folders(new=NEW))
    await blind.ask([model], [pod("new", 1)])
    found = (await blind.read_all([model]))[model.id]
    assert isinstance(found, SourceFault)
    assert "/models/m/config.json describes no model that sees" in found.message


class Missing(Agents):
    """Agents whose folder is not there."""

    async def source(self, agent: AgentAddress) -> SourceReport:
        reason = Reason.FOLDER_MISSING
        return SourceReport(
            fault=FaultReport(reason=reason, message=f"The folder /{agent.host} does not exist. Check spec.source.")
        )


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"oci": {"image": "r.io/m"}}, "Check spec.source.oci, and that its nodes mount images as volumes."),
        ({"path": "m"}, "Check spec.source."),
    ],
)
async def test_a_folder_that_an_image_should_bring_is_missing_for_one_more_reason(
    source: dict[str, Any], says: str
) -> None:
    model = desired_model("m", source=source)
    sources = AgentSources(KubernetesApi(), Missing(TOKENS))
    await sources.ask([model], [pod("new", 1)])
    found = (await sources.read_all([model]))[model.id]
    assert isinstance(found, SourceFault)
    assert found.message == f"The folder /new does not exist. {says}"


async def test_a_pod_that_is_being_deleted_says_nothing_against_the_model_that_took_its_name() -> None:
    sources = AgentSources(KubernetesApi(), Missing(TOKENS))
    old = pod("old", 1)
    await sources.ask([MODEL], [old])
    assert isinstance((await sources.read_all([MODEL]))[MODEL.id], SourceFault)
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:02:00Z"
    again = desired_model("m", source={"path": "another"})
    await sources.ask([again], [old])
    assert await sources.read_all([again]) == {}


async def test_a_pod_that_is_being_deleted_still_tells_what_the_folder_says() -> None:
    sources = AgentSources(KubernetesApi(), Folders(old=OLD))
    leaving = pod("old", 1)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:02:00Z"
    assert (await facts_of(sources, MODEL, [leaving])).digest == OLD


def started_for(model: DesiredModel, name: str, minute: int) -> Object:
    made = pod(name, minute)
    made["metadata"]["annotations"] = {"conch.dev/source-hash": source_hash(model)}
    return made


EDITED = [
    pytest.param({"source": {"path": "another"}}, id="another path"),
    pytest.param({"source": {"pvc": {"claimName": "c", "path": "m"}}}, id="another sort"),
    pytest.param({"engine": {"cpu": {}, "image": "r.io/another:2"}}, id="another image with the path"),
    pytest.param({"kind": "Embedding"}, id="another need"),
]


@pytest.mark.parametrize("edit", EDITED)
async def test_a_running_pod_says_nothing_about_another_source_than_it_was_started_for(edit: dict[str, Any]) -> None:
    sources = AgentSources(KubernetesApi(), Folders(old=OLD, new=NEW))
    old = started_for(MODEL, "old", 1)
    assert (await facts_of(sources, MODEL, [old])).digest == OLD
    edited = desired_model("m", **edit)
    await sources.ask([edited], [old])
    assert await sources.read_all([edited]) == {}
    assert sources.tokenizer_of(EngineName("local/old")) == OLD  # requests still go there
    assert (await facts_of(sources, edited, [old, started_for(edited, "new", 2)])).digest == NEW
    assert (await facts_of(sources, MODEL, [old])).digest == OLD  # the edit is taken back


async def test_a_fault_of_another_source_is_not_told_of_the_model_that_took_the_name() -> None:
    sources, again = AgentSources(KubernetesApi(), Missing(TOKENS)), desired_model("m", source={"path": "another"})
    old = started_for(MODEL, "old", 1)
    await sources.ask([MODEL], [old])
    await sources.ask([again], [old])
    assert await sources.read_all([again]) == {}


@pytest.mark.parametrize(
    "edit", [{"replicas": 3}, {"servedNames": ["another"]}, {"engine": {"cpu": {}, "image": "r:2"}}]
)
async def test_a_pod_speaks_for_every_edit_that_leaves_its_source(edit: dict[str, Any]) -> None:
    source = {"oci": {"image": "r.io/m"}}
    sources, started = AgentSources(KubernetesApi(), Folders(old=OLD)), desired_model("m", source=source)
    old = started_for(started, "old", 1)
    assert (await facts_of(sources, desired_model("m", source=source, **edit), [old])).digest == OLD


async def test_an_agent_that_never_answers_is_named_after_a_while() -> None:
    now, folders = [0.0], Folders()
    sources, model, pods = AgentSources(KubernetesApi(), folders, lambda: now[0]), MODEL, [pod("a", 1)]
    await sources.ask([model], pods)
    assert await sources.read_all([model]) == {}
    now[0] = SILENCE_S
    await sources.ask([model], pods)
    (fault,) = (await sources.read_all([model])).values()
    assert isinstance(fault, SourceFault)
    assert (fault.reason, "has not been read" in fault.message) == (Reason.WAITING, True)
    now[0] += ASK_AGAIN_S
    folders.digests["a"] = NEW
    await sources.ask([model], pods)
    assert isinstance((await sources.read_all([model]))[model.id], SourceFacts)


class Hanging(KubernetesApi):
    """Never says what the ConfigMap `hung` holds."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        if name == "hung":
            await asyncio.Event().wait()
        return {"data": {"template": name}}


async def test_a_template_that_cannot_be_read_keeps_no_other_model_waiting() -> None:
    models, pods = [], []
    for name in ("hung", "well"):
        ref = {"name": name, "key": "template"}
        models.append(desired_model(name, tokenizer={"chatTemplate": {"configMapKeyRef": ref}}))
        pods.append(pod(name, 1))
        pods[-1]["metadata"]["labels"]["conch.dev/model-deployment"] = name
    tasks: list[asyncio.Task[None]] = []

    def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(work))
        return tasks[-1]

    changed = asyncio.Event()
    background = Background(start, changed.set, patience_s=0.2)
    sources = AgentSources(Hanging(), Folders(hung=OLD, well=NEW), background=background)
    await sources.ask(models, pods)
    hung, well = (await sources.read_all(models)).values()
    if not isinstance(well, SourceFacts):  # a template is checked in a process of its own, which may be slow to start
        await asyncio.wait_for(changed.wait(), 60)
        hung, well = (await sources.read_all(models)).values()
    assert isinstance(well, SourceFacts)
    assert isinstance(hung, SourceFault)
    assert hung.reason is Reason.TEMPLATE_UNCHECKED
    assert well.chat_template == "well"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Bundles(Folders):
    """Agents that give a bundle unless they are away."""

    def __init__(self, **digests: Digest) -> None:
        super().__init__(**digests)
        self.away: set[str] = set()
        self.asked: list[str] = []

    async def bundle(self, agent: AgentAddress) -> tuple[Digest, bytes]:
        self.asked.append(agent.host)
        if agent.host in self.away:
            raise AgentUnavailable(f"{agent.host} is away")
        return self.digests[agent.host], agent.host.encode()


async def test_a_bundle_comes_from_any_agent_that_has_it_and_from_no_other() -> None:
    agents = Bundles(a=OLD, b=NEW, c=NEW)
    sources = AgentSources(KubernetesApi(), agents)
    facts = await facts_of(sources, MODEL, [pod("a", 1), pod("b", 2), pod("c", 3)])
    assert facts.digest == NEW
    agents.away = {"b"}
    assert await sources.bundle(facts) == (NEW, b"c")
    agents.away = {"b", "c"}
    with pytest.raises(SourceUnavailable, match="is away"):
        await sources.bundle(facts)
    assert set(agents.asked) == {"b", "c"}
    await sources.ask([MODEL], [pod("a", 1)])
    with pytest.raises(SourceUnavailable, match="no pod has it"):
        await sources.bundle(facts)


async def test_an_agent_that_runs_no_more_is_asked_for_no_bundle() -> None:
    agents = Bundles(a=NEW)
    sources = AgentSources(KubernetesApi(), agents)
    facts = await facts_of(sources, MODEL, [pod("a", 1)])
    ended = pod("a", 1)
    ended["status"] = {"podIP": "a"}
    await sources.ask([MODEL], [ended])
    with pytest.raises(SourceUnavailable, match="no pod has it"):
        await sources.bundle(facts)
