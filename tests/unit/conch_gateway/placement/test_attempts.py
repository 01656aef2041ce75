"""Processes that take no connection: which other one is asked, and when the same one again; on fakes."""

import pytest

from conch_contracts.names import GENERATE_PATH, PREPARE_PATH, WorkerUrl
from conch_gateway.placement.retry_budget import RESERVE
from conch_gateway.upstream.port import ConnectFailed, ConnectTimedOut
from testkit.gateway.fakes import FakeAnswer, answered, gateway, prepared, snapshot

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


async def test_another_worker_is_tried_when_one_cannot_be_reached():
    answers = iter([ConnectFailed("no"), FakeAnswer(pieces=(b"{}",))])
    served = gateway({GENERATE_PATH: lambda _: next(answers)}, known=snapshot(workers=(DEAD, LIVING)))
    assert (await served.client.post("/v1/chat/completions", CHAT)).status == 200
    assert len({post.url for post in served.upstream.posts[1:]}) == 2


@pytest.mark.parametrize("path", [PREPARE_PATH, GENERATE_PATH])
@pytest.mark.parametrize(
    ("failures", "status"),
    [
        ((ConnectTimedOut("slow"), ConnectTimedOut("slow")), 200),
        ((ConnectTimedOut("slow"), ConnectFailed("gone")), 503),
        ((ConnectTimedOut("slow"),) * 3, 503),
        ((ConnectFailed("gone"),), 503),
    ],
)
async def test_the_only_process_gets_another_chance_when_it_is_slow_to_take_a_connection(path, failures, status):
    last = prepared(3) if path == PREPARE_PATH else answered(b"{}")
    left = iter(failures)
    served = gateway({path: lambda post: next(left, None) or last(post)})
    answer = await served.client.post("/v1/chat/completions", CHAT)
    assert answer.status == status
    assert len([post for post in served.upstream.posts if post.path == path]) == len(failures) + (status == 200)
