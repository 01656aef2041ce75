"""The folders of models in pools, of which the agents of the pools' pods tell."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import EngineAddress, PoolId
from conch_operator.agent.messages import FolderReport, SourceReport
from conch_operator.agent.pool_messages import PoolReport
from conch_operator.kubernetes.pods.agent_client import AgentUnavailable
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from conch_operator.kubernetes.pools.pool_pods import PoolPod
from conch_operator.kubernetes.pools.pooled_sources import PooledSources
from conch_operator.kubernetes.sources import ASK_AGAIN_S
from conch_operator.resources.pool_objects import agent_owner
from conch_operator.state import EngineName, SourceFacts, SourceFault
from testkit.builders.model_deployments import FACTS, desired_model

POOL = PoolId("local/small")
CLAIMED = {"pvc": {"claimName": "a", "path": "b"}}
MODEL = desired_model(kind="Embedding", placement={"pool": "small"}, source=CLAIMED)
REPORT = SourceReport(
    facts=FolderReport(
        folder="/conch/claims/a/b",
        digest=FACTS.digest,
        weights="w",
        vocab_size=FACTS.vocab_size,
        max_position_embeddings=None,
    )
)


def pod(uid: str, *claims: str) -> PoolPod:
    agent, report = AgentAddress(uid, agent_owner(POOL)), PoolReport(agent=uid, changes=0, live=True)
    return PoolPod(
        name=EngineName(f"local/{uid}"),
        uid=uid,
        agent=agent,
        grpc=EngineAddress(f"{uid}:8001"),
        created=1,
        leaving=False,
        held=False,
        report=report,
        fault=None,
        claims=frozenset(claims),
    )


@dataclass
class Around:
    """A pool's pod with its agent; no model has a pod of its own."""

    pod: PoolPod
    silent: bool = False
    asked: list[str] = field(default_factory=list)
    now: float = 0.0

    def current(self, pool: PoolId) -> PoolPod:
        return self.pod

    async def folder(self, agent: AgentAddress, *_: object) -> SourceReport:
        self.asked.append(agent.host)
        if self.silent:
            raise AgentUnavailable("the agent is away")
        return REPORT

    async def read_all(self, models: object) -> dict[Any, Any]:
        return {}


def scene(pod: PoolPod, **given: Any) -> tuple[Around, PooledSources]:
    around: Any = Around(pod, **given)
    return around, PooledSources(around, around, around, lambda _: None, lambda: around.now)


@pytest.mark.parametrize(("claims", "asked"), [((), []), (("a",), ["one"])])
async def test_no_folder_of_a_claim_is_asked_from_a_pod_that_does_not_mount_it(
    claims: tuple[str, ...], asked: list[str]
) -> None:
    around, sources = scene(pod("one", *claims))
    await sources.read_all([MODEL])
    assert around.asked == asked


async def test_an_agent_that_is_silent_about_a_folder_is_a_fault_and_is_asked_again_after_a_while() -> None:
    around, sources = scene(pod("one", "a"), silent=True)
    for _ in range(3):
        said = (await sources.read_all([MODEL]))[MODEL.id]
    assert around.asked == ["one"]
    assert isinstance(said, SourceFault)
    assert said.reason is Reason.WAITING
    assert said.message.startswith("The model's folder has not been read: the agent is away. It is asked again")
    around.now, around.silent = ASK_AGAIN_S, False
    assert isinstance((await sources.read_all([MODEL]))[MODEL.id], SourceFacts)
    around.now += ASK_AGAIN_S
    await sources.read_all([MODEL])
    assert around.asked == ["one"] * 2  # what is known is read once


async def test_what_one_pod_has_said_of_a_folder_stands_while_the_next_is_silent() -> None:
    around, sources = scene(pod("one", "a"))
    facts = (await sources.read_all([MODEL]))[MODEL.id]
    around.pod, around.silent = pod("two", "a"), True
    for _ in range(2):
        assert (await sources.read_all([MODEL]))[MODEL.id] == facts
    around.now, around.silent = ASK_AGAIN_S, False
    await sources.read_all([MODEL])
    assert around.asked == ["one", "two", "two"]


@pytest.mark.parametrize(
    ("away", "has"),
    [
        pytest.param({"one"}, "two", id="another pool"),
        pytest.param({"one", "two"}, "a pod of the model's own", id="no pool"),
    ],
)
async def test_a_bundle_comes_from_whoever_has_it_though_one_is_away(away: set[str], has: str) -> None:
    pods = {POOL: pod("one", "a"), PoolId("local/large"): pod("two", "a")}
    other = desired_model("other", kind="Embedding", placement={"pool": "large"}, source=CLAIMED)

    class Agents:
        async def folder(self, *_: object) -> SourceReport:
            return REPORT

        async def folder_bundle(self, agent: AgentAddress, _: object) -> tuple[str, bytes]:
            if agent.host in away:
                raise AgentUnavailable("the agent is away")
            return FACTS.digest, agent.host.encode()

    class Others:
        async def read_all(self, models: object) -> dict[Any, Any]:
            return {}

        async def bundle(self, facts: SourceFacts) -> tuple[str, bytes]:
            return FACTS.digest, b"a pod of the model's own"

    known: Any = SimpleNamespace(current=pods.get, pools=tuple(pods))
    agents, others = Agents(), Others()
    sources = PooledSources(known, agents, others, lambda _: None)  # type: ignore[arg-type]
    facts = (await sources.read_all([MODEL, other]))[MODEL.id]
    assert (await sources.bundle(facts))[1] == has.encode()  # type: ignore[arg-type]
