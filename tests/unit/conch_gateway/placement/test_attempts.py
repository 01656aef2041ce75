"""A process that has died and whose heartbeat has not expired yet, beside one that lives."""

import pytest

from conch_contracts.names import GENERATE_PATH, PREPARE_PATH, WorkerUrl
from conch_gateway.placement.retry_budget import RESERVE
from conch_gateway.upstream.port import ConnectFailed
from testkit.gateway.fakes import answered, gateway, prepared, snapshot

CHAT = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}
DEAD, LIVING = WorkerUrl("http://w1:1"), WorkerUrl("http://w2:1")


@pytest.mark.parametrize(
    ("path", "pool", "answer"),
    [(PREPARE_PATH, "tokenizers", prepared(3)), (GENERATE_PATH, "workers", answered(b"{}"))],
)
async def test_a_dead_process_beside_a_living_one_fails_no_request(path, pool, answer):
    """It has the least load, and there are not as many retries as requests."""
    served = gateway(
        {path: lambda post: ConnectFailed("gone") if post.url == DEAD else answer(post)},
        known=snapshot(**{pool: (DEAD, LIVING)}),
    )
    statuses = [(await served.client.post("/v1/chat/completions", CHAT)).status for _ in range(RESERVE * 3)]
    assert statuses == [200] * len(statuses)
    assert 0 < sum(post.url == DEAD for post in served.upstream.posts) < RESERVE
