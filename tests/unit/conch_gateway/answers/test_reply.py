"""One answer has one head and one end, whatever happens in between."""

import asyncio

import pytest

from conch_gateway.answers.reply import Reply
from conch_gateway.answers.sse_frames import KEEP_ALIVE
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.watchdog import ClientStalled
from conch_kit.errors import BodyTooLarge, InvalidRequest, RequestTimeout, Unavailable
from testkit.gateway.fakes import FakeConnection


class Answer:
    """A reply with all that it sends; a message waits while `reading` is not set."""

    def __init__(self, *, stall_s=60):
        self.messages = []
        self.reading = asyncio.Event()
        self.reading.set()
        self.connection = FakeConnection(self.messages, self.reading.is_set)
        exchange = Exchange("POST", "/v1/chat/completions", {}, "id", started=0.0)
        self.reply = Reply(self._send, exchange, self.connection, stall_s=stall_s)

    async def _send(self, message):
        self.messages.append(message)
        await self.reading.wait()

    @property
    def kinds(self):
        return [message["type"].rpartition(".")[2] for message in self.messages]


async def test_a_stream_has_one_head_though_a_sign_of_life_and_the_first_frame_come_at_once():
    answer = Answer()
    answer.reading.clear()
    beginnings = [asyncio.create_task(begin()) for begin in (answer.reply.keep_alive, answer.reply.begin_stream)]
    await asyncio.sleep(0)
    answer.reading.set()
    await asyncio.gather(*beginnings)
    await answer.reply.begin_stream()
    assert answer.kinds == ["start", "body"]
    assert answer.messages[1]["body"] == KEEP_ALIVE


@pytest.mark.parametrize("streamed", [True, False])
async def test_nothing_follows_the_end(streamed):
    answer = Answer()
    if streamed:
        await answer.reply.begin_stream()
        await answer.reply.end_stream()
    else:
        await answer.reply.whole(200, b"{}")
    sent = list(answer.messages)
    await answer.reply.fail(Unavailable("too late"))
    assert answer.messages == sent


async def test_an_error_in_a_stream_is_its_last_frame():
    answer = Answer()
    await answer.reply.begin_stream()
    await answer.reply.fail(Unavailable("gone"))
    assert answer.kinds == ["start", "body", "body"]
    assert b'"gone"' in answer.messages[1]["body"]
    assert not answer.messages[2].get("more_body", False)


async def test_to_a_client_that_has_stalled_nothing_more_is_sent():
    answer = Answer(stall_s=0.01)
    answer.reading.clear()
    with pytest.raises(ClientStalled):
        await answer.reply.begin_stream()
    for send in (answer.reply.keep_alive, answer.reply.end_stream):
        answer.reading.set()
        with pytest.raises(ClientStalled):
            await send()
    assert answer.kinds == ["start"]


@pytest.mark.parametrize(
    ("error", "closes"),
    [(BodyTooLarge("large"), True), (RequestTimeout("slow"), True), (InvalidRequest("wrong"), False)],
)
async def test_a_connection_whose_request_is_not_read_to_its_end_is_not_kept(error, closes):
    answer = Answer()
    await answer.reply.fail(error)
    assert ((b"connection", b"close") in answer.messages[0]["headers"]) is closes


async def test_what_our_services_tell_each_other_stays_among_them():
    answer = Answer()
    await answer.reply.fail(Unavailable("again", retryable=True, retry_after_s=2))
    names = {name for name, _ in answer.messages[0]["headers"]}
    assert b"x-conch-retryable" not in names
    assert b"retry-after" in names
