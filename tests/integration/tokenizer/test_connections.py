"""Kept connections: answers come in order and whole, whichever way a request took through the process."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from conch_contracts import names
from conch_contracts.names import Digest
from testkit.servers.redis import RedisServer
from testkit.servers.tokenizer import RunningTokenizer, run_tokenizer

ONE_BY_ONE = 20


@contextmanager
def connection(tokenizer: RunningTokenizer) -> Iterator[HTTPConnection]:
    host, port = address(tokenizer)
    kept = HTTPConnection(host, port, timeout=30)
    try:
        yield kept
    finally:
        kept.close()


def address(tokenizer: RunningTokenizer) -> tuple[str, int]:
    host, _, port = tokenizer.url.removeprefix("http://").rpartition(":")
    return host, int(port)


def body(tokenizer: RunningTokenizer, prompt: str) -> bytes:
    return json.dumps({"digest": tokenizer.digest, "prompts": [prompt], "add_special_tokens": False}).encode()


def ask(kept: HTTPConnection, message: bytes, **headers: str) -> tuple[int, dict[str, str], Any]:
    kept.request("POST", names.PREPARE_PATH, message, {"content-type": "application/json", **headers})
    answer = kept.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, json.loads(answer.read())


def raw(message: bytes, *extra: str) -> bytes:
    lines = [f"POST {names.PREPARE_PATH} HTTP/1.1", "host: x", f"content-length: {len(message)}", *extra, "", ""]
    return "\r\n".join(lines).encode() + message


def read_all(wire: socket.socket) -> bytes:
    data = b""
    while piece := wire.recv(65536):
        data += piece
    return data


def test_one_connection_serves_small_large_and_wrong_requests_in_turn(tokenizer: RunningTokenizer) -> None:
    with connection(tokenizer) as kept:
        for turn in range(ONE_BY_ONE):
            status, _, answer = ask(kept, body(tokenizer, f"number {turn}"))
            assert (status, answer["prompts"][0]["text"]) == (200, f"number {turn}")
        large = "word " * 20_000
        status, _, answer = ask(kept, body(tokenizer, large))
        assert (status, answer["prompts"][0]["text"]) == (200, large)
        first = kept.sock
        status, headers, answer = ask(kept, body(tokenizer, ""), **{"x-request-id": "of-the-caller"})
        assert (status, answer["error"]["param"], headers["x-request-id"]) == (400, "prompt", "of-the-caller")
        assert ask(kept, body(tokenizer, "after it"))[0] == 200
        assert kept.sock is first


def test_a_caller_that_does_not_wait_gets_whole_answers_in_order(tokenizer: RunningTokenizer) -> None:
    with socket.create_connection(address(tokenizer), timeout=30) as wire:
        wire.sendall(raw(body(tokenizer, "first")) + raw(body(tokenizer, "second"), "connection: close"))
        data = read_all(wire)
    for text in ("first", "second"):
        head, _, rest = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        answer, end = json.JSONDecoder().raw_decode(rest.decode())
        assert answer["prompts"][0]["text"] == text
        data = rest[end:]
    assert data == b""


@pytest.mark.parametrize("cut", [1, 30, 120])
def test_a_request_in_pieces_is_one_request(cut: int, tokenizer: RunningTokenizer) -> None:
    message = raw(body(tokenizer, "in two pieces"), "connection: close")
    with socket.create_connection(address(tokenizer), timeout=30) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(message), cut):
            wire.sendall(message[at : at + cut])
        data = read_all(wire)
    assert json.loads(data.partition(b"\r\n\r\n")[2])["prompts"][0]["text"] == "in two pieces"


def test_a_caller_that_leaves_costs_no_child(tokenizer: RunningTokenizer) -> None:
    with connection(tokenizer) as kept:
        assert ask(kept, body(tokenizer, "before"))[0] == 200
        children = set(tokenizer.children())
        for _ in range(ONE_BY_ONE):
            with socket.create_connection(address(tokenizer), timeout=30) as wire:
                wire.sendall(raw(body(tokenizer, "nobody waits for this")))
        assert ask(kept, body(tokenizer, "after"))[0] == 200
    assert set(tokenizer.children()) == children


def test_without_the_token_no_way_leads_to_a_child(
    redis: RedisServer, bundle: tuple[Digest, bytes], tmp_path: Path
) -> None:
    with run_tokenizer(redis.url, bundle[0], tmp_path, CONCH_INTERNAL_TOKEN="let-me-in") as tokenizer:
        message = body(tokenizer, "hello")
        with connection(tokenizer) as kept:
            assert ask(kept, message)[0] == 403
            assert ask(kept, message, **{"x-conch-internal-token": "let-me-on"})[0] == 403
            assert ask(kept, message, **{"x-conch-internal-token": "let-me-in"})[0] == 200


def test_an_answer_under_way_is_given_before_the_process_ends(own_tokenizer: RunningTokenizer) -> None:
    slow = json.dumps(
        {
            "digest": own_tokenizer.digest,
            "chat": {"messages": [{"role": "user", "content": "x"}], "chat_template": SLOW},
        }
    ).encode()
    with connection(own_tokenizer) as kept:
        assert ask(kept, body(own_tokenizer, "the child has its tokenizer"))[0] == 200
        kept.request("POST", names.PREPARE_PATH, slow, {"content-type": "application/json"})
        os.kill(own_tokenizer.pid, signal.SIGTERM)
        answer = kept.getresponse()
        assert answer.status in (200, 400)  # a busy machine may need more than the time that a template has
        assert json.loads(answer.read())


SLOW = "{% for i in range(1500) %}{% for j in range(300) %}{% endfor %}{% endfor %}done"
