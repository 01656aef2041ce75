"""The process of the operator: who has lost the Lease stops working before it waits for it again."""

import asyncio
from contextlib import nullcontext
from pathlib import Path

import pytest
from pydantic import SecretStr

from conch_kit.registry.writer import Fenced
from conch_kit.side_by_side import EndedByItself
from conch_operator import main
from conch_operator.kubernetes.api.client import KubernetesApi, NotLeading
from conch_operator.kubernetes.api.lease import Leadership
from conch_operator.main import Operator
from conch_operator.settings import EngineSettings, OperatorSettings, ReleaseFile, ReleaseSettings

RELEASE = ReleaseFile(
    release=ReleaseSettings(name="conch", namespace="conch"), engines=EngineSettings(agent_image="agent")
)
SETTINGS = OperatorSettings(
    redis_url="redis://127.0.0.1:1", internal_token=SecretStr("t"), settings_file=Path("release"), pod_name="one"
)


class Enough(Exception):
    """Ends the test where the operator waits for the Lease again."""


class Lease(Leadership):
    """Is got at once and lost when the test says so."""

    def __init__(self) -> None:
        super().__init__(KubernetesApi(), ("conch", "lease"), "one")
        self.got = 0
        self.released = False
        self.lost = asyncio.Event()

    async def acquire(self, *, by_force: bool = False) -> None:
        self.got += 1
        if self.got == 2:
            raise Enough

    async def release(self) -> None:
        self.released = True

    async def hold(self) -> None:
        await self.lost.wait()


class Working(Operator):
    """Works until it is cancelled or fails as it is told."""

    def __init__(self, lease: Lease, failure: Exception | None) -> None:
        super().__init__(SETTINGS, RELEASE)
        self._lease, self._failure = lease, failure
        self.ended = 0

    async def _work(self, leadership: Leadership) -> None:
        self._lease.lost.set()
        try:
            if self._failure is not None:
                raise self._failure
            await asyncio.Event().wait()
        finally:
            self.ended += 1


@pytest.mark.parametrize(
    "failure",
    [
        None,
        NotLeading("renewal is overdue"),
        Fenced("a newer one has written"),
        ExceptionGroup("of tasks", [ExceptionGroup("of others", [NotLeading("renewal is overdue")])]),
    ],
)
async def test_work_ends_with_the_lease_and_the_lease_is_waited_for_again(failure: Exception | None) -> None:
    lease = Lease()
    operator = Working(lease, failure)
    with pytest.raises(Enough):
        await asyncio.wait_for(operator._lead(lease), 30)
    assert (operator.ended, lease.got) == (1, 2)


async def test_the_lease_is_given_back_however_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ending(Operator):
        async def _until_first_ends(self, leadership: Leadership) -> None:
            raise Enough

    lease = Lease()
    monkeypatch.setattr(main, "KubernetesApi", nullcontext)
    monkeypatch.setattr(main, "Leadership", lambda *_: lease)
    with pytest.raises(Enough):
        await Ending(SETTINGS, RELEASE).run()
    assert lease.released


async def test_an_operator_whose_work_is_cancelled_by_itself_ends_instead_of_holding_the_lease() -> None:
    lease = Lease()

    class Cancelled(Operator):
        async def _work(self, leadership: Leadership) -> None:
            raise asyncio.CancelledError

    with pytest.raises(EndedByItself):
        await asyncio.wait_for(Cancelled(SETTINGS, RELEASE)._lead(lease), 30)
