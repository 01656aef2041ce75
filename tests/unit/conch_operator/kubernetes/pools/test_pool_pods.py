"""Which pod of a pool serves, and how long one that is replaced does."""

import asyncio
from typing import Any

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest, EngineAddress, ModelId, PoolId
from conch_contracts.records import Dialect
from conch_operator.agent.pool_messages import PoolQuestion, PoolReport
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.pods.agent_client import AgentUnavailable
from conch_operator.kubernetes.pods.hold_times import ALONE_S, LONGEST_HOLD_S
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from conch_operator.kubernetes.pools.pool_pods import LONGEST_SILENCE_S, SILENCE_S, PoolPods
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.state import ClusterEngine, EngineContract, EngineName, EnginePhase, Fault
from testkit.builders.owned_pods import made_by, replica_sets_of
from testkit.waiting import eventually

POOL = PoolId("ns/small")
LABELS = {"conch.dev/engine-pool": "small", "app.kubernetes.io/component": "engine"}
OWNER = {"apiVersion": "conch.dev/v1alpha1", "kind": "EnginePool", "name": "small", "uid": "pool"}
DEPLOYMENT = {"metadata": {"namespace": "ns", "uid": "deployment-rs", "labels": LABELS, "ownerReferences": [OWNER]}}


def pod(uid: str, created: int = 0, **meta: Any) -> Object:
    made = {"name": uid, "uid": uid, "namespace": "ns", "labels": LABELS, **meta}
    made["creationTimestamp"] = f"2026-01-01T00:00:{created:02}Z"
    status = {"podIP": f"10.0.0.{created}", "initContainerStatuses": [{"name": "agent", "state": {"running": {}}}]}
    volumes = [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}, {"name": "tmp", "emptyDir": {}}]
    return made_by({"metadata": made, "spec": {"volumes": volumes}, "status": status | {"phase": "Running"}})


def ending(uid: str) -> Object:
    return pod(uid, deletionTimestamp="2026-01-01T00:01:00Z")


class Around(KubernetesApi):
    """An API server with these pods, and their agents, which have news whenever they are asked."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.pods: list[Object] = []
        self.live: set[str] = set()
        self.runs = True
        self.asked: list[str] = []
        self.models: tuple[ClusterEngine, ...] = ()
        self.tokenizers: dict[EngineName, Digest] = {}

    async def list_all(self, kind: Kind, *_: object, **__: object) -> list[Object]:
        return replica_sets_of(self.pods) if kind.name == "ReplicaSet" else self.pods if kind.name == "Pod" else []

    async def pool_report(self, agent: AgentAddress, asked: PoolQuestion) -> PoolReport:
        self.asked.append(agent.host)
        if agent.host not in self.live:
            raise AgentUnavailable("it is away")
        return PoolReport(
            agent=agent.host, changes=asked.changes + 1, live=self.runs, models=self.models, tokenizers=self.tokenizers
        )


def scene() -> tuple[Around, PoolPods]:
    around: Any = Around()
    return around, PoolPods(around, around, [None], lambda: around.now)


def name(found: object) -> str:
    return found.uid if found is not None else ""  # type: ignore[attr-defined]


async def test_the_newer_pod_serves_from_when_its_server_runs() -> None:
    around, pods = scene()
    around.pods, around.live = [pod("old", 1), pod("new", 2)], {"10.0.0.1"}
    await pods.observe([DEPLOYMENT])
    assert (name(pods.current(POOL)), pods.others(POOL), len(pods.staying(POOL))) == ("old", [], 2)
    around.live.add("10.0.0.2")
    around.now += SILENCE_S
    await pods.observe([DEPLOYMENT])
    assert (name(pods.current(POOL)), [name(one) for one in pods.others(POOL)]) == ("new", ["old"])


async def test_a_server_answers_once_the_kubelet_has_found_so_and_while_its_agent_sees_it() -> None:
    around, pods = scene()
    around.pods, around.live = [pod("only")], {"10.0.0.0"}
    said = []
    for ready, live in ((False, True), (True, True), (True, False)):
        around.pods[0]["status"]["containerStatuses"] = [{"name": "triton", "ready": ready}]
        around.runs = live
        await pods.observe([DEPLOYMENT])
        found = pods.current(POOL)
        said.append(found is not None and found.answers)
    assert said == [False, True, False]


async def test_a_pod_that_is_to_end_is_held_while_another_one_comes_and_no_longer() -> None:
    around, pods = scene()
    around.pods, around.live = [pod("old")], {"10.0.0.0"}
    await pods.observe([DEPLOYMENT])
    around.pods = [ending("old")]
    await pods.observe([DEPLOYMENT])
    assert (pods.current(POOL), [name(one) for one in pods.others(POOL)]) == (None, ["old"])
    around.now += ALONE_S
    await pods.observe([DEPLOYMENT])
    assert pods.others(POOL) == []  # nobody takes its place
    around.pods.append(pod("new", 2))
    await pods.observe([DEPLOYMENT])
    assert [name(one) for one in pods.others(POOL)] == ["old"]
    around.now = LONGEST_HOLD_S
    await pods.observe([DEPLOYMENT])
    assert pods.others(POOL) == []


async def test_a_pod_that_was_let_go_serves_no_more() -> None:
    around, pods = scene()
    around.pods, around.live = [ending("old")], {"10.0.0.0"}
    await pods.observe([DEPLOYMENT])
    pods.release("old")
    await pods.observe([DEPLOYMENT])
    assert pods.others(POOL) == []


async def test_a_pod_with_the_labels_of_a_pool_that_was_not_made_for_it_is_asked_nothing() -> None:
    around, pods = scene()
    around.pods = [pod("foreign")]
    await pods.observe([])
    assert (pods.current(POOL), around.asked) == (None, [])


async def test_an_agent_that_does_not_answer_is_asked_again_after_a_while() -> None:
    around, pods = scene()
    around.pods = [pod("a")]
    for _ in range(3):
        await pods.observe([DEPLOYMENT])
    assert around.asked == ["10.0.0.0"]
    around.now += SILENCE_S
    await pods.observe([DEPLOYMENT])
    assert around.asked == ["10.0.0.0"] * 2


async def test_an_agent_that_has_answered_nothing_for_long_is_a_fault_and_what_it_said_is_kept() -> None:
    around, pods = scene()
    around.pods, around.live = [pod("a")], {"10.0.0.0"}
    await pods.observe([DEPLOYMENT])
    around.live = set()
    said = []
    for around.now in (LONGEST_SILENCE_S - 1, LONGEST_SILENCE_S):
        await pods.observe([DEPLOYMENT])
        found = pods.current(POOL)
        assert found is not None
        said.append((found.live, found.silent, found.fault is not None))
    assert said == [(True, False, False), (True, True, True)]
    around.live = {"10.0.0.0"}
    around.now += SILENCE_S
    await pods.observe([DEPLOYMENT])
    found = pods.current(POOL)
    assert found is not None
    assert (found.silent, found.fault) == (False, None)


async def test_so_is_one_that_runs_and_has_never_answered() -> None:
    around, pods = scene()
    around.pods = [pod("a")]
    said = []
    for around.now in (0, LONGEST_SILENCE_S):
        await pods.observe([DEPLOYMENT])
        found = pods.current(POOL)
        assert found is not None
        said.append((found.live, found.fault is not None))
    assert said == [(False, False), (False, True)]


async def test_only_news_of_an_agent_begin_a_round() -> None:
    around, news = Around(), asyncio.Semaphore(0)
    around.pods, changed, answers = [pod("a")], [], []

    async def pool_report(agent: AgentAddress, asked: PoolQuestion) -> PoolReport:
        if asked.wait_s:
            answers.append(asked.changes)
            if len(answers) > 1:
                await news.acquire()
        return PoolReport(agent="a", changes=max(1, len(answers) - 1), live=True)

    around.pool_report = pool_report  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as tasks:
        background = Background(tasks.create_task, lambda: changed.append(1), 0.05)
        agents: Any = around
        pods = PoolPods(around, agents, [None], background=background)
        for _ in range(2):
            await pods.observe([DEPLOYMENT])
        await eventually(lambda: len(answers) == 2, "a question after an answer without news")
        assert changed == []
        news.release()
        await eventually(lambda: len(answers) == 3, "a question after another answer without news")
        assert changed == []
        news.release()
        await eventually(lambda: changed == [1], "news")


async def test_what_an_agent_said_before_does_not_replace_what_it_says_now() -> None:
    around, pods = scene()
    around.pods = [pod("a")]
    await pods.observe([DEPLOYMENT])
    for changes, kept in ((2, 2), (1, 2), (3, 3)):
        pods.heard("a", PoolReport(agent="10.0.0.0", changes=changes, live=True))
        await pods.observe([DEPLOYMENT])
        found = pods.current(POOL)
        assert found is not None
        assert found.report is not None
        assert found.report.changes == kept


async def test_a_pod_that_does_not_run_yet_is_coming_and_names_what_it_mounts_and_is_made_of() -> None:
    around, pods = scene()
    around.pods, around.live = [pod("old", 1), pod("new", 2)], {"10.0.0.1"}
    around.pods[1]["metadata"]["labels"] = LABELS | {"conch.dev/spec-hash": "h"}
    await pods.observe([DEPLOYMENT])
    (coming,) = pods.coming(POOL)
    assert (coming.uid, coming.template, coming.claims) == ("new", "h", {"a"})


def engine(name: str, model: str) -> ClusterEngine:
    contract, address = EngineContract("m", Dialect.ENCODER, 1), EngineAddress("127.0.0.1:8001")
    return ClusterEngine(EngineName(name), ModelId(model), "hash", contract, EnginePhase.RUNNING, address)


async def test_a_pod_that_no_node_takes_says_what_its_pool_may_change() -> None:
    around, pods = scene()
    around.pods = [pod("a")]
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available.",
    }
    around.pods[0]["status"]["conditions"] = [refused]
    await pods.observe([DEPLOYMENT])
    found = pods.current(POOL)
    assert found is not None
    said = "No node can run the engine: 0/1 nodes are available. Lower spec.memory of the EnginePool, or add a node."
    assert found.fault == Fault(Reason.UNSCHEDULABLE, said)


async def test_an_agent_is_believed_about_its_own_pool_and_models_of_its_namespace_alone() -> None:
    around, pods = scene()
    around.pods, around.live = [pod("a")], {"10.0.0.0"}
    own = engine("ns/small/m-hash-0", "ns/m")
    around.models = (
        own,
        engine("ns/small/secret-hash-0", "another/secret"),
        engine("another/small/m-hash-0", "ns/m"),
        engine("ns/smaller/m-hash-0", "ns/m"),
        engine("m-hash-0", "ns/m"),
    )
    around.tokenizers = {engine.name: Digest("d" * 64) for engine in around.models}
    await pods.observe([DEPLOYMENT])
    found = pods.current(POOL)
    assert found is not None
    assert found.report is not None
    assert (found.report.models, found.report.tokenizers) == ((own,), {own.name: "d" * 64})
