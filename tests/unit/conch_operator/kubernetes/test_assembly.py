"""What of a release's settings reaches the parts of a leader."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect, Pool
from conch_kit.redis.client import RedisClient
from conch_kit.redis.connection import Argument
from conch_kit.registry.name_reservations import NameReservations
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_kit.triton.client import TritonClient
from conch_kit.triton.http_client import TritonHttp
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.assembly import Opened, leader_round, ports_of, probe_client
from conch_operator.kubernetes.pods.agent_client import Agents
from conch_operator.metrics import OperatorMetrics
from conch_operator.probe.prober import NoAnswer, Prober, Target
from conch_operator.reconcile.calls_in_flight import AWAITED
from conch_operator.scaling.demand import DemandBook
from conch_operator.settings import ReleaseFile
from testkit.builders.every_runtime import TOKENS

NOBODY = EngineAddress("127.0.0.1:1")


def release(engines: dict[str, Any] | None = None, **changes: Any) -> ReleaseFile:
    smallest = {"release": {"name": "conch", "namespace": "conch"}, "engines": {"agentImage": "a", **(engines or {})}}
    return ReleaseFile.model_validate(smallest | changes)


class NoEngines:
    async def probe(self, target: Target) -> None:
        raise AssertionError("no engine runs here")


@pytest.fixture
def opened() -> Opened:
    """Give what a leader has open, none of which has connected to anything."""
    redis = RedisClient(f"redis://{NOBODY}/0")
    reader = RegistryReader(redis, pools=tuple(Pool))
    return Opened(
        KubernetesApi(),
        "operator-1",
        Agents(TOKENS),
        redis,
        reader,
        Prober(NoEngines(), lambda: None),
        AWAITED,
        DemandBook(lambda: 0.0),
        OperatorMetrics.on(CollectorRegistry()),
    )


@pytest.fixture
async def clients() -> AsyncIterator[tuple[TritonClient, TritonHttp]]:
    async with TritonClient() as triton, TritonHttp() as http:
        yield triton, http


@pytest.mark.parametrize("over_http", [False, True])
async def test_engines_are_asked_within_the_rules_of_the_release(
    clients: tuple[TritonClient, TritonHttp], *, over_http: bool
) -> None:
    target = Target(EngineAddress(f"http://{NOBODY}" if over_http else NOBODY), "m", Dialect.TOKENS, named_in="team")
    ruled = release({"addresses": {"allowed": ["10.0.0.0/8"]}})
    with pytest.raises(NoAnswer) as refused:
        await probe_client(ruled, *clients).probe(target)
    assert "may not be named" in refused.value.detail
    with pytest.raises(NoAnswer) as tried:
        await probe_client(release(), *clients).probe(target)
    assert "may not be named" not in f"{tried.value} {tried.value.detail}"


@pytest.mark.parametrize(("watched", "looked_at"), [([], (None,)), (["a", "b"], ("a", "b"))])
@pytest.mark.parametrize("namespaced", [False, True])
def test_rounds_know_whose_models_they_serve_and_under_which_names(
    opened: Opened, watched: list[str], looked_at: tuple[str | None, ...], *, namespaced: bool
) -> None:
    told = release(watchNamespaces=watched, namespacedNames=namespaced)
    one_round = leader_round(told, opened, 1)
    assert (one_round.namespaces, one_round.namespaced_names) == (looked_at, namespaced)


def test_the_names_of_deleted_models_are_reserved(opened: Opened) -> None:
    assert isinstance(ports_of(release(), opened, 1).ports.reservations, NameReservations)


async def test_the_fence_of_the_lease_goes_with_what_is_written_to_the_registry(opened: Opened) -> None:
    class Noting(RedisClient):
        async def execute(self, *args: Argument, timeout_s: float | None = None) -> Any:
            self.asked = args
            return b"epoch", 1

    redis = Noting(f"redis://{NOBODY}/0")
    await ports_of(release(), replace(opened, redis=redis), 123_456).ports.publisher.publish({})
    assert 123_456 in redis.asked
