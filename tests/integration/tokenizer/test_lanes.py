"""Lanes: connections that a gateway hands requests over on, straight to a child."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from conch_contracts import names
from conch_contracts.headers import INTERNAL_TOKEN, LANE_LACKS, LEFT_BY_LANE
from conch_contracts.messages.tokenizer_frames import MAX_LANE_REQUEST_BYTES, Operation, ReplyKind
from conch_contracts.names import Digest
from conch_kit.frames import Frame, FrameReader, pack
from testkit.servers.redis import RedisServer
from testkit.servers.tokenizer import RunningTokenizer, busy_child, run_tokenizer, wait_for

HANGS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
PATIENCE_S = 30


@dataclass(slots=True)
class Lane:
    """One lane and what came over it."""

    wire: socket.socket
    number: int
    of: int
    reader: FrameReader = field(default_factory=FrameReader)
    come: list[Frame] = field(default_factory=list)

    def send(self, *requests: bytes, operation: int = Operation.PREPARE, first: int = 1) -> None:
        self.wire.sendall(b"".join(pack(operation, body, first + at) for at, body in enumerate(requests)))

    def take(self, count: int) -> list[Frame]:
        """Return the next answers; fewer when the lane ends."""
        with suppress(ConnectionResetError):
            while len(self.come) < count and (data := self.wire.recv(1_000_000)):
                self.come += self.reader.feed(data)
        taken, self.come = self.come[:count], self.come[count:]
        return taken


@contextmanager
def lane(tokenizer: RunningTokenizer, token: str = "") -> Iterator[Lane]:
    """Give a lane as soon as all children are there."""
    deadline = time.monotonic() + PATIENCE_S
    wire, status, fields = ask_for_lane(tokenizer, token)
    while status == 503 and time.monotonic() < deadline:
        wire.close()
        wire, status, fields = ask_for_lane(tokenizer, token)
    with wire:
        assert status == 101, fields
        yield Lane(wire, int(fields["x-conch-lane"]), int(fields["x-conch-lanes"]))


def ask_for_lane(tokenizer: RunningTokenizer, token: str = "") -> tuple[socket.socket, int, dict[str, str]]:
    host, _, port = tokenizer.url.removeprefix("http://").rpartition(":")
    wire = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
    wire.sendall(f"POST {names.LANE_PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n".encode())
    wire.sendall(f"{INTERNAL_TOKEN}: {token}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n") and (data := wire.recv(1)):
        head += data
    first, *lines = head.decode().strip().split("\r\n")
    return wire, int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines)


def prepare(digest: str, **message: Any) -> bytes:
    return json.dumps({"digest": digest, "add_special_tokens": False, **message}).encode()


def chat(digest: str, content: str, **fields: Any) -> bytes:
    return prepare(digest, chat={"messages": [{"role": "user", "content": content}], **fields})


def by_http(tokenizer: RunningTokenizer, body: bytes, **headers: str) -> tuple[int, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urlopen(Request(tokenizer.url + names.PREPARE_PATH, body, named), timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def load(tokenizer: RunningTokenizer, *lanes: Lane) -> None:
    """Have the example's tokenizer loaded in the child of each lane."""
    for each in lanes:
        body = prepare(tokenizer.digest, prompts=["x"])
        by_http(tokenizer, body, **{LANE_LACKS: f"{each.number}.{tokenizer.digest}"})

        def has_it(each: Lane = each, body: bytes = body) -> bool:
            each.send(body)
            return each.take(1)[0].kind == ReplyKind.DONE

        wait_for(has_it, PATIENCE_S)


def test_answers_are_those_of_http_and_come_in_order(tokenizer: RunningTokenizer) -> None:
    digest = tokenizer.digest
    with lane(tokenizer) as ours:
        load(tokenizer, ours)
        bodies = [chat(digest, f"number {number} 中") for number in range(50)]
        ours.send(*bodies, first=1000)
        answers = ours.take(50)
    assert [answer.number for answer in answers] == list(range(1000, 1050))
    for body, answer in zip(bodies, answers, strict=True):
        assert (200, json.loads(answer.payload)) == by_http(tokenizer, body)


def test_a_refusal_is_that_of_http(tokenizer: RunningTokenizer) -> None:
    wrong = [prepare(tokenizer.digest, prompts=[""]), b"{", chat(tokenizer.digest, "x", chat_template="{% for")]
    with lane(tokenizer) as ours:
        load(tokenizer, ours)
        ours.send(*wrong)
        for body, answer in zip(wrong, ours.take(3), strict=True):
            assert answer.kind == ReplyKind.REFUSED
            assert (400, json.loads(answer.payload)) == by_http(tokenizer, body)


def test_lanes_of_one_caller_lead_to_all_children(own_tokenizer: RunningTokenizer) -> None:
    wait_for(lambda: len(own_tokenizer.children()) == 2, PATIENCE_S)
    with lane(own_tokenizer) as first, lane(own_tokenizer) as second:
        assert (first.of, second.of) == (2, 2)
        load(own_tokenizer, first, second)
        before = own_tokenizer.children()
        first.send(chat(own_tokenizer.digest, "x", chat_template=HANGS))
        second.send(*[chat(own_tokenizer.digest, "x")] * 20)
        assert {answer.kind for answer in second.take(20)} == {ReplyKind.DONE}
        assert first.take(1) == []
        second.send(chat(own_tokenizer.digest, "still there"))
        assert second.take(1)[0].kind == ReplyKind.DONE
    wait_for(lambda: len(set(own_tokenizer.children()) & set(before)) == 1, PATIENCE_S)


def test_the_request_that_hung_is_blamed_and_those_behind_it_are_not(own_tokenizer: RunningTokenizer) -> None:
    hangs, good = chat(own_tokenizer.digest, "x", chat_template=HANGS), chat(own_tokenizer.digest, "Hello!")
    with lane(own_tokenizer) as ours:
        load(own_tokenizer, ours)
        ours.send(good, hangs, good, first=5)
        assert [(answer.number, answer.kind) for answer in ours.take(3)] == [(5, ReplyKind.DONE)]
    began = time.monotonic()
    status, answer = by_http(own_tokenizer, hangs, **{LEFT_BY_LANE: f"{ours.number}.6"})
    assert time.monotonic() - began < 1.5  # the service knew it, and tried no second time
    assert (status, answer["error"]["code"]) == (400, "template_error")
    assert "did not finish within 2 s" in answer["error"]["message"]
    assert by_http(own_tokenizer, good, **{LEFT_BY_LANE: f"{ours.number}.7"})[0] == 200


def test_a_request_whose_child_died_is_tried_once_more(own_tokenizer: RunningTokenizer) -> None:
    wait_for(lambda: len(own_tokenizer.children()) == 2, PATIENCE_S)
    good = chat(own_tokenizer.digest, "Hello!")
    with lane(own_tokenizer) as ours:
        load(own_tokenizer, ours)
        ours.send(chat(own_tokenizer.digest, "x", chat_template=HANGS))
        os.kill(busy_child(set(own_tokenizer.children())), signal.SIGKILL)
        assert ours.take(1) == []
    assert by_http(own_tokenizer, good, **{LEFT_BY_LANE: f"{ours.number}.1"})[0] == 200


def test_a_frozen_child_is_replaced_though_it_works_on_nothing(own_tokenizer: RunningTokenizer) -> None:
    wait_for(lambda: len(own_tokenizer.children()) == 2, PATIENCE_S)
    with lane(own_tokenizer) as ours:
        load(own_tokenizer, ours)
        for child in own_tokenizer.children():
            os.kill(child, signal.SIGSTOP)
        ours.send(chat(own_tokenizer.digest, "Hello!"))
        assert ours.take(1) == []
    assert by_http(own_tokenizer, chat(own_tokenizer.digest, "Hello!"), **{LEFT_BY_LANE: f"{ours.number}.1"})[0] == 200


def test_a_caller_that_does_not_read_holds_up_nobody(tokenizer: RunningTokenizer) -> None:
    long = prepare(tokenizer.digest, prompts=["word " * 10_000])
    with lane(tokenizer) as greedy, lane(tokenizer) as second, lane(tokenizer) as third:
        load(tokenizer, greedy, second, third)
        sending = threading.Thread(target=_send_until_full, args=(greedy, long), daemon=True)
        sending.start()
        for other in (second, third):  # one of them leads to the same child
            for _ in range(20):
                other.send(chat(tokenizer.digest, "Hello!"))
                assert other.take(1)[0].kind == ReplyKind.DONE
        greedy.wire.shutdown(socket.SHUT_RDWR)
        sending.join()


def _send_until_full(greedy: Lane, body: bytes) -> None:
    greedy.wire.settimeout(1)
    try:
        for _ in range(2000):
            greedy.send(body)
    except OSError:
        return


def test_what_is_no_request_ends_the_lane_alone(tokenizer: RunningTokenizer) -> None:
    before = set(tokenizer.children())
    with lane(tokenizer) as ours:
        ours.wire.sendall(pack(Operation.PREPARE, b"x" * (MAX_LANE_REQUEST_BYTES + 1)))
        assert ours.take(1) == []
    for operation in (Operation.LOAD, Operation.CHECK_GRAMMAR, Operation.PING, 200):
        with lane(tokenizer) as ours:
            ours.send(b"/etc /etc", operation=operation)
            assert ours.take(1)[0].kind == ReplyKind.FAILED
    assert set(tokenizer.children()) >= before


def test_without_the_token_there_is_no_lane(redis: RedisServer, bundle: tuple[Digest, bytes], tmp_path: Path) -> None:
    with run_tokenizer(redis.url, bundle[0], tmp_path, CONCH_INTERNAL_TOKEN="let-me-in") as tokenizer:
        for token in ("", "let-me-on"):
            wire, status, _ = ask_for_lane(tokenizer, token)
            wire.close()
            assert status == 403
        with lane(tokenizer, "let-me-in") as ours:
            assert ours.of == 2


def test_requests_on_lanes_are_counted(own_tokenizer: RunningTokenizer) -> None:
    with lane(own_tokenizer) as ours:
        load(own_tokenizer, ours)
        before = _sample(own_tokenizer, 'requests_total{operation="prepare",outcome="ok"}')
        ours.send(*[chat(own_tokenizer.digest, "x")] * 7, prepare(own_tokenizer.digest, prompts=[""]))
        ours.take(8)
        assert _sample(own_tokenizer, 'requests_total{operation="prepare",outcome="ok"}') == before + 7
        assert _sample(own_tokenizer, 'requests_total{operation="prepare",outcome="refused"}') == 1
        assert _sample(own_tokenizer, "in_flight") == 0


def _sample(tokenizer: RunningTokenizer, name: str) -> float:
    lines = tokenizer.get("/metrics")[1].splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"conch_tokenizer_{name} "))
