"""A write that the server refuses is not sent again before its time."""

from collections.abc import Mapping

import pytest

from conch_operator.kubernetes.api.backoff import Attempts, Backoff
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import POD, Object
from testkit.clock import FakeClock


class Refusing(KubernetesApi):
    """An API server that fails at every write, and counts them."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(attempts=Attempts(Backoff(chance=lambda: 1.0), clock))
        self.sent = 0

    async def _send(
        self, method: str, path: str, body: Object | None, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[int, str, float]:
        self.sent += 1
        return 500, '{"message": "no"}', 1.0


def gate(status: str, moment: str) -> Object:
    condition = {"type": "conch.dev/serving", "status": status, "lastTransitionTime": moment}
    return {"status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("second", "sent"),
    [
        pytest.param(gate("True", "2026-01-01T00:00:00Z"), 1, id="the same"),
        pytest.param(gate("True", "2026-01-01T00:00:01Z"), 1, id="the same at another moment"),
        pytest.param(gate("False", "2026-01-01T00:00:00Z"), 2, id="another"),
    ],
)
async def test_a_write_that_failed_waits_for_its_time_whatever_the_moment_in_it(second: Object, sent: int) -> None:
    api = Refusing(clock := FakeClock())
    for change in (gate("True", "2026-01-01T00:00:00Z"), second):
        with pytest.raises(ApiError, match="no"):
            await api.patch_list(POD, "ns", "pod", change, "status")
    assert api.sent == sent
    clock.advance(1)
    with pytest.raises(ApiError, match="no"):
        await api.patch_list(POD, "ns", "pod", second, "status")
    assert api.sent == sent + 1
