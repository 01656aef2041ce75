"""What `helm test` runs: it asks a gateway for its models and one of them for an answer."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from generate.helm import CHART

MODELS = {"data": [{"id": "tiny-chat"}]}
ANSWER = {"choices": [{"message": {"content": "Hello to you."}}]}


@contextmanager
def a_gateway(models: object, *, key: str | None, endpoint: str = "/v1/chat/completions") -> Iterator[str]:
    """Give the URL of a server that answers as a gateway does, with a model for this endpoint."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(models)

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert asked["model"] == "tiny-chat"
            self._answer(ANSWER if "messages" in asked else {"data": []}, 200 if self.path == endpoint else 400)

        def _answer(self, body: object, status: int = 200) -> None:
            allowed = key is None or self.headers["authorization"] == f"Bearer {key}"
            self.send_response(status if allowed else 401)
            self.end_headers()
            self.wfile.write(json.dumps(body if allowed else {"error": {"message": "No."}}).encode())

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


def ask(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the script as the test's pod does."""
    command = [sys.executable, CHART / "files" / "ask.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("line", ["sk-1", "default:sk-1", "default sk-1"])
def test_it_shows_what_a_model_answers(tmp_path: Path, line: str) -> None:
    (keys := tmp_path / "keys").write_text(f"# first\n\n{line}\nother:sk-2\n")
    with a_gateway(MODELS, key="sk-1") as url:
        done = ask(url, keys)
    assert (done.returncode, done.stdout) == (0, "models: tiny-chat\ntiny-chat: 'Hello to you.'\n")


@pytest.mark.parametrize("endpoint", ["embeddings", "rerank", "classify"])
def test_a_model_that_does_not_chat_is_asked_what_it_can_answer(endpoint: str) -> None:
    with a_gateway(MODELS, key=None, endpoint=f"/v1/{endpoint}") as url:
        done = ask(url)
    assert (done.returncode, done.stdout) == (0, f"models: tiny-chat\ntiny-chat: answers /{endpoint}\n")


def test_a_model_that_answers_nothing_fails() -> None:
    with a_gateway(MODELS, key=None, endpoint="/v1/none") as url:
        done = ask(url)
    assert done.returncode == 1
    assert "answered 400" in done.stderr


def test_a_release_without_models_is_sound() -> None:
    with a_gateway({"data": []}, key=None) as url:
        done = ask(url)
    assert (done.returncode, done.stdout) == (0, "models: none yet; apply a ModelDeployment\n")


def test_a_refusal_fails_and_says_why(tmp_path: Path) -> None:
    (keys := tmp_path / "keys").write_text("wrong")
    with a_gateway(MODELS, key="sk-1") as url:
        done = ask(url, keys)
    assert done.returncode == 1
    assert "answered 401" in done.stderr
    assert "No." in done.stderr


def test_a_gateway_that_is_not_there_fails_and_says_so() -> None:
    with a_gateway(MODELS, key=None) as url:
        pass
    done = ask(url)
    assert (done.returncode, "could not be reached" in done.stderr) == (1, True)
