"""What a client hears when workers break down over its request before the first byte; on fakes."""

from conch_contracts.names import GENERATE_PATH, WorkerUrl
from testkit.gateway.fakes import gateway, lost, snapshot

PATH = "/v1/chat/completions"
CHAT = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}


async def test_when_the_only_worker_breaks_down_before_the_first_byte_the_client_is_told_to_come_again():
    answer = await gateway({GENERATE_PATH: lambda _: lost()}).client.post(PATH, CHAT)
    assert (answer.status, answer.error["code"]) == (503, "upstream_lost")
    assert answer.headers[b"retry-after"] == b"2"


async def test_a_request_that_breaks_workers_is_given_to_two_at_most():
    workers = tuple(WorkerUrl(f"http://w{number}:1") for number in range(3))
    served = gateway({GENERATE_PATH: lambda _: lost()}, known=snapshot(workers=workers))
    answer = await served.client.post(PATH, CHAT)
    assert answer.status == 502
    assert len(served.upstream.sent(GENERATE_PATH)) == 2
