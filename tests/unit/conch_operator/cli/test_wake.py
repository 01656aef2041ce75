"""`conch wake` against a gateway that answers as told."""

import argparse
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from conch_operator.cli import wake
from conch_operator.cli.errors import CommandError


class Gateway(HTTPServer):
    """Answers every call alike, and keeps what it was asked."""

    answer: tuple[int, dict[str, Any]] = (202, {})
    asked: tuple[str, str | None, dict[str, Any]] | None = None


class Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked = (self.path, self.headers["Authorization"], body)
        status, said = self.server.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called above
        """Say nothing."""


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(gateway: Gateway, *words: str) -> int:
    parser = argparse.ArgumentParser()
    wake.add(parser.add_subparsers(), {"CONCH_API_KEY": "secret"})
    arguments = parser.parse_args(["wake", *words, "--url", f"http://127.0.0.1:{gateway.server_port}/v1"])
    return int(arguments.run(arguments))


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ({"state": "ready", "ready_in_s": 0.0}, "team/chat is ready\n"),
        ({"state": "starting", "ready_in_s": 11.4}, "team/chat is starting, ready in about 12 s\n"),
        ({"state": "starting", "ready_in_s": 0.0}, "team/chat is starting, and should be ready by now\n"),
        ({"state": "starting", "ready_in_s": None}, "team/chat is starting\n"),
    ],
)
def test_it_asks_and_says_what_the_model_does(
    gateway: Gateway, said: dict[str, Any], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.answer = (202, said)
    assert run(gateway, "team/chat", "--for", "30m") == 0
    assert capsys.readouterr().out == printed
    assert gateway.asked == ("/conch/v1/models/team/chat/wake", "Bearer secret", {"for_s": 1800})


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((202, {"state": "failed", "reason": "No image."}), "chat cannot be started: No image."),
        ((404, {"error": {"message": "There is no model 'chat'."}}), "refuses to wake chat: There is no model 'chat'."),
        ((502, {}), "refuses to wake chat: status 502"),
    ],
)
def test_it_says_why_not(gateway: Gateway, answer: tuple[int, dict[str, Any]], says: str) -> None:
    gateway.answer = answer
    with pytest.raises(CommandError, match=says):
        run(gateway, "chat")


def test_without_a_running_conch_up_it_asks_for_an_address(tmp_path: Any) -> None:
    parser = argparse.ArgumentParser()
    wake.add(parser.add_subparsers(), {})
    arguments = parser.parse_args(["wake", "chat", "--state-dir", str(tmp_path)])
    with pytest.raises(CommandError, match="name the gateway with --url"):
        arguments.run(arguments)


def test_a_model_is_awake_for_a_second_at_least(gateway: Gateway) -> None:
    gateway.answer = (202, {"state": "ready", "ready_in_s": 0.0})
    assert run(gateway, "chat", "--for", "100ms") == 0
    assert gateway.asked is not None
    assert gateway.asked[2] == {"for_s": 1}
