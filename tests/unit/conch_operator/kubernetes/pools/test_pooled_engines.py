"""Models in the pods of pools, with agents that do as they are told."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import EngineAddress, ModelId, PoolId
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_operator.agent.pool_messages import PoolOrder, PoolReport
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.pods.agent_client import AgentUnavailable
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from conch_operator.kubernetes.pools.pool_pods import PoolPod
from conch_operator.kubernetes.pools.pool_status_writer import MOST_RESIDENTS, PoolStatusWriter, pool_status
from conch_operator.kubernetes.pools.pooled_engines import PooledEngines
from conch_operator.kubernetes.pools.wanted_pools import WantedPools, read_pools
from conch_operator.reconcile.engine_steps import engine_steps
from conch_operator.reconcile.plan import Plan
from conch_operator.resources.pool_objects import PoolObject, agent_owner
from conch_operator.state import ClusterEngine, EngineName, EnginePhase, Fault, Observed, Scaled
from testkit.builders.model_deployments import FACTS, desired_model

POOL = PoolId("local/small")
MODEL = replace(desired_model(kind="Embedding", placement={"pool": "small"}), scaled=Scaled(1))
(COMPONENT,) = engine_steps(MODEL, Observed(sources={MODEL.id: FACTS})).start
WANTED = WantedPools(
    {POOL: PoolObject("local", "small", "uid", 1, EnginePoolSpec.model_validate({"memory": "1Gi", "claims": ["a"]}))}
)
START = Plan(models=(MODEL,), start=(COMPONENT,), pools=WANTED.specs, specs={MODEL.id: COMPONENT.spec_hash})
REST = replace(START, start=())


def pod(
    uid: str, *engines: ClusterEngine, live: bool = True, changes: int = 0, created: int = 1, **more: Any
) -> PoolPod:
    agent = AgentAddress(f"host-{uid}", agent_owner(POOL))
    tokenizers = {engine.name: COMPONENT.tokenizer for engine in engines}
    report = PoolReport(agent=uid, changes=changes, live=live, models=engines, tokenizers=tokenizers)
    address = EngineAddress(f"host-{uid}:8001")
    given = {"leaving": False, "held": False, "fault": None, "report": report, **more}
    return PoolPod(EngineName(f"local/{uid}"), uid, agent, address, created, **given)


def loaded(phase: EnginePhase = EnginePhase.RUNNING) -> ClusterEngine:
    made = COMPONENT.name, COMPONENT.model, COMPONENT.spec_hash, COMPONENT.contract
    return ClusterEngine(*made, phase, EngineAddress("127.0.0.1:8001"), 3, memory_bytes=7)


@dataclass
class Around:
    """The objects and pods of pools, and their agents."""

    pod: PoolPod | None = None
    older: list[PoolPod] = field(default_factory=list)
    next: list[PoolPod] = field(default_factory=list)
    orders: list[PoolOrder] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    refused: dict[PoolId, Fault] = field(default_factory=dict)
    silent: bool = False
    pools = (POOL,)

    async def observe(self, *_: object) -> list[Any]:
        return []

    async def make(self, *_: object) -> dict[PoolId, Fault]:
        return self.refused

    def staying(self, pool: PoolId) -> list[str]:
        return [] if self.pod is None else [self.pod.template]

    def current(self, pool: PoolId) -> PoolPod | None:
        return self.pod

    def template(self, pool: PoolId) -> str | None:
        return "planned"

    def coming(self, pool: PoolId) -> list[PoolPod]:
        return self.next

    def others(self, pool: PoolId) -> list[PoolPod]:
        return self.older

    def heard(self, uid: str, report: PoolReport) -> None:
        assert self.pod is not None
        self.pod = replace(self.pod, report=report)

    def release(self, what: Any) -> Any:
        if isinstance(what, str):
            self.released.append(what)
            return None
        return self._let_go()

    async def _let_go(self) -> None:
        """Let it go."""

    async def order(self, agent: AgentAddress, order: PoolOrder) -> PoolReport:
        self.orders.append(order)
        if self.silent:
            raise AgentUnavailable("it is away")
        assert self.pod is not None
        assert self.pod.report is not None
        there = {engine.name for engine in self.pod.report.models}
        new = tuple(loaded(EnginePhase.STARTING) for loadable in order.load if loadable.name not in there)
        return self.pod.report.model_copy(update={"models": self.pod.report.models + new, "changes": 9})


def scene(**given: Any) -> tuple[Around, PooledEngines]:
    around: Any = Around(**given)
    return around, PooledEngines(around, around, around, fence=7)


async def rounds(engines: PooledEngines, *plans: Plan) -> None:
    for plan in plans:
        await engines.observe(WANTED)
        await engines.act(plan)
    await engines.observe(WANTED)


async def test_a_model_is_loaded_by_the_agent_and_told_of_once() -> None:
    around, engines = scene()
    await rounds(engines, START, REST)
    (waiting,) = engines.engines()
    assert (waiting.phase, waiting.pool, around.orders) == (EnginePhase.STARTING, POOL, [])  # there is no pod yet
    assert engines.tokenizer_of(COMPONENT.name) == COMPONENT.tokenizer
    around.pod = pod("a")
    await rounds(engines, REST, REST, REST)
    (order,) = around.orders
    (loadable,) = order.load
    assert (loadable.name, loadable.longest_load_s) == (COMPONENT.name, 120.0)
    assert "/models/tiny" in loadable.files[f"{COMPONENT.contract.triton_model}/config.pbtxt"]
    around.pod = pod("a", loaded())
    await rounds(engines, REST)
    (there,) = engines.engines()
    assert (there.phase, there.grpc, there.pool, there.memory_bytes) == (
        EnginePhase.RUNNING,
        "host-a:8001",
        POOL,
        7,
    )
    assert len(around.orders) == 1


async def test_an_agent_that_did_not_hear_is_told_again() -> None:
    around, engines = scene(pod=pod("a"), silent=True)
    await rounds(engines, START, REST)
    assert [(order.fence, order.number) for order in around.orders] == [(7, 1), (7, 2)]


async def test_an_operator_that_begins_finds_what_is_loaded_and_lets_it_be() -> None:
    around, engines = scene(pod=pod("a", loaded()))
    await rounds(engines, REST, REST)
    assert [order.keep for order in around.orders] == [(COMPONENT.name,)]
    assert engines.tokenizer_of(COMPONENT.name) == COMPONENT.tokenizer


async def test_what_is_to_go_is_left_out_of_the_next_order_and_counts_until_it_has_gone() -> None:
    around, engines = scene(pod=pod("a", loaded()))
    await rounds(engines, replace(REST, stop=(COMPONENT.name,)), REST)
    assert (around.orders[-1].keep, around.orders[-1].load) == ((), ())
    assert [engine.phase for engine in engines.engines()] == [EnginePhase.STOPPING]
    around.pod = pod("a")
    await rounds(engines, REST)
    assert engines.engines() == ()


async def test_a_dead_model_is_loaded_again() -> None:
    around, engines = scene(pod=pod("a", loaded()))
    await rounds(engines, replace(REST, restart=(COMPONENT.name,)))
    assert around.orders[-1].restart == (COMPONENT.name,)


async def test_a_pod_that_is_replaced_serves_until_it_is_let_go() -> None:
    old = pod("old", loaded(), leaving=True, held=True)
    around, engines = scene(pod=pod("new", created=2), older=[old])
    await rounds(engines, START)
    names = {engine.name: engine.phase for engine in engines.engines()}
    taken_over = EngineName(f"{COMPONENT.name}@local/old")
    assert names == {COMPONENT.name: EnginePhase.STARTING, taken_over: EnginePhase.LEAVING}
    assert engines.tokenizer_of(taken_over) == COMPONENT.tokenizer
    assert around.released == []
    await rounds(engines, replace(REST, stop=(taken_over,)))
    assert around.released == ["old"]


async def test_loads_in_a_newer_pod_are_later_ones() -> None:
    around, engines = scene(pod=pod("a", loaded()))
    await rounds(engines, REST)
    before = engines.engines()[0].incarnation
    around.pod = pod("b", loaded(), created=2)
    await rounds(engines, REST)
    assert engines.engines()[0].incarnation > before


@pytest.mark.parametrize(
    ("spec", "reason", "says"),
    [
        ({"source": {"huggingFace": {"repo": "a/b"}}}, Reason.NOT_HERE, "not huggingFace: put the files on a claim"),
        ({"source": {"path": "../a"}}, Reason.NOT_HERE, "path must stay below /models"),
        ({"source": {"pvc": {"claimName": "b"}}}, Reason.NOT_HERE, "does not mount the PersistentVolumeClaim b"),
        (
            {"engine": {"cpu": {}, "image": "i", "nodeSelector": {"a": "b"}}},
            Reason.NOT_HERE,
            "spec.engine.image, spec.en",
        ),
        ({"placement": {"pool": "other"}}, Reason.POOL_NOT_FOUND, "There is no EnginePool other"),
        ({"source": {"pvc": {"claimName": "a", "path": "b"}}}, None, ""),
    ],
)
async def test_a_model_hears_why_its_pool_cannot_take_it(
    spec: dict[str, Any], reason: Reason | None, says: str
) -> None:
    _, engines = scene()
    model = desired_model(**({"kind": "Embedding", "placement": {"pool": "small"}} | spec))
    await engines.observe(WANTED)
    rejected = (await engines.act(Plan(models=(model,)))).rejected
    assert (rejected[model.id].reason if rejected else None) is reason
    assert says in (rejected[model.id].message if rejected else "")


async def test_models_hear_why_their_pool_has_no_server() -> None:
    unschedulable = Fault(Reason.UNSCHEDULABLE, "No node can run the engine.")
    around, engines = scene(pod=pod("a", live=False, fault=unschedulable))
    await engines.observe(WANTED)
    rejected = (await engines.act(REST)).rejected[MODEL.id]
    assert rejected == Fault(Reason.UNSCHEDULABLE, "The EnginePool small has no server: No node can run the engine.")
    around.pod = pod("a", live=True, fault=unschedulable)
    await engines.observe(WANTED)
    assert (await engines.act(REST)).rejected == {}
    away = Fault(Reason.ENGINE_UNREACHABLE, "Its agent is away.")
    around.pod = pod("a", silent=True, fault=away)
    await engines.observe(WANTED)
    rejected = (await engines.act(REST)).rejected[MODEL.id]
    assert rejected == Fault(Reason.ENGINE_UNREACHABLE, "The EnginePool small takes no orders: Its agent is away.")
    around.pod, around.refused = None, {POOL: Fault(Reason.REJECTED, "Exceeded quota.")}
    await engines.observe(WANTED)
    assert (await engines.act(REST)).rejected[MODEL.id].reason is Reason.REJECTED


def item(**spec: Any) -> dict[str, Any]:
    meta = {"namespace": "local", "name": "small", "uid": "uid", "generation": 2}
    return {"metadata": meta, "spec": {"memory": "1Gi", **spec}}


def test_a_pool_that_another_version_has_written_is_read_as_far_as_it_can_be() -> None:
    newer = read_pools([item(shape="round")], {})
    assert newer.pools[POOL].spec.memory == "1Gi"
    broken = read_pools([item(memory="much")], newer.pools)
    assert broken.pools == newer.pools
    assert "spec.memory" in broken.unreadable[POOL]
    assert read_pools([item(memory="much")], {}).pools == {}
    gone = item()
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read_pools([gone], {}).objects == {}


def test_a_status_says_what_is_loaded_and_does_not_change_by_itself() -> None:
    said = pool_status(item(), None, None, [loaded()], 3, "2026-01-01T00:00:00Z")
    assert (said["models"], said["loaded"], said["memoryBytes"], said["memoryUsed"]) == (3, 1, 7, "0Mi")
    assert said["residents"] == [{"name": "tiny", "memoryBytes": 7}]
    again = pool_status(item() | {"status": said}, None, None, [loaded()], 3, "2026-01-01T00:00:01Z")
    assert again == said
    fault = Fault(Reason.ENGINE_STARTING, "It is being started.")
    (ready, _) = pool_status(item() | {"status": said}, fault, None, [], 3, "2026-01-01T00:00:01Z")["conditions"]
    assert (ready["status"], ready["reason"], ready["lastTransitionTime"]) == (
        "False",
        "EngineStarting",
        "2026-01-01T00:00:01Z",
    )


def test_a_status_in_words_of_another_version_is_replaced() -> None:
    said = pool_status(item(), None, None, [], 0, "2026-01-01T00:00:00Z")
    said["conditions"][0]["reason"] = "OfLater"
    (ready, _) = pool_status(item() | {"status": said}, None, None, [], 0, "2026-01-01T00:00:01Z")["conditions"]
    assert ready["reason"] == "Ready"


def test_a_status_names_as_many_models_as_its_schema_lets_it_and_counts_all() -> None:
    many = [replace(loaded(), model=ModelId(f"local/m{number}")) for number in range(MOST_RESIDENTS + 1)]
    said = pool_status(item(), None, None, many, 3, "2026-01-01T00:00:00Z")
    assert (len(said["residents"]), said["loaded"]) == (MOST_RESIDENTS, MOST_RESIDENTS + 1)


async def test_an_edit_is_applied_once_the_pod_that_serves_was_made_for_it() -> None:
    unschedulable = Fault(Reason.UNSCHEDULABLE, "No node can run the engine.")
    around, engines = scene(pod=pod("old", template="before"))

    async def said() -> Reason | None:
        await rounds(engines, REST)
        fault = engines.unapplied(POOL)
        return None if fault is None else fault.reason

    assert await said() is Reason.ROLLING_OUT
    around.next = [pod("new", live=False, fault=unschedulable, template="planned")]
    assert await said() is Reason.UNSCHEDULABLE
    around.refused = {POOL: Fault(Reason.REJECTED, "Exceeded quota.")}
    assert await said() is Reason.REJECTED
    around.refused, around.next, around.pod = {}, [], pod("new", template="planned")
    assert await said() is None
    around.pod = pod("new", live=False, template="planned")  # its server has ended, which Ready says
    assert await said() is None
    around.pod = pod("new", live=False, fault=unschedulable, template="planned")
    assert await said() is Reason.UNSCHEDULABLE


async def test_an_edit_that_cannot_be_read_leaves_what_serves_ready() -> None:
    around, engines = scene(pod=pod("a", template="planned", ready=True))
    broken = read_pools([item(memory="much")], WANTED.pools)
    await engines.observe(broken)
    written: list[Any] = []

    class Api(KubernetesApi):
        async def patch(self, *call: Any) -> Any:
            written.append(call[3]["status"])

    pods: Any = around
    await PoolStatusWriter(Api(), engines, pods).write(broken, [])
    (status,) = written
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("Ready", "True", "Ready"),
        ("Applied", "False", "SpecInvalid"),
    ]


async def test_what_was_told_to_pods_that_are_gone_is_forgotten() -> None:
    around, engines = scene(pod=pod("a", loaded()))
    await rounds(engines, REST)
    around.pod = pod("b")
    await rounds(engines, REST)
    assert engines._told.keys() == {"b"}
    around.pod = None
    await rounds(engines)
    assert not engines._told
