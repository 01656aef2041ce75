"""`conch up` with an older model_config.json: an engine that someone else runs, beside one of its own."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI
from tokenizers import Tokenizer

from testkit.conch import EXAMPLE, ConchUp, wait_until
from testkit.servers.triton import RunningTriton, triton_server

CONTRACT_MODEL = Path(__file__).parents[2] / "support" / "triton_models" / "fastertransformer"
FOLDER = EXAMPLE.parent / "tiny-chat"
ANSWER = "Hello! How can I help you today?"
END = 2041


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[RunningTriton]:
    """Run a server that answers every request with the same words."""
    repository = tmp_path / "repository"
    folder = shutil.copytree(CONTRACT_MODEL, repository / "fastertransformer")
    ids = Tokenizer.from_file(str(FOLDER / "tokenizer.json")).encode(ANSWER, add_special_tokens=False).ids
    config = (folder / "config.pbtxt").read_text()
    config = config.replace('"answer" value: { string_value: "[]"', f'"answer" value: {{ string_value: "{[*ids, END]}"')
    config = config.replace('"end_id" value: { string_value: "0"', f'"end_id" value: {{ string_value: "{END}"')
    (folder / "config.pbtxt").write_text(config)
    with triton_server(repository, "fastertransformer", folder=tmp_path) as server:
        yield server


def test_an_older_file_is_served_beside_a_newer_one(tmp_path: Path, triton: RunningTriton) -> None:
    older = tmp_path / "model_config.json"
    entry = {"name": "chatglm2-6b", "url": triton.grpc, "path": str(FOLDER)}
    info = {"name": "chatglm2-6b", "start_id": -1, "end_id": END, "max_len": 512, "temperature": 1}
    older.write_text(json.dumps({"llm": [entry], "model_infos": [info]}))
    with ConchUp(tmp_path / "state", arguments=("--config-file", str(older))) as conch:
        assert sorted(conch.models()) == ["chatglm2-6b", "tiny-chat"]
        with OpenAI(base_url=conch.base_url, api_key="x", timeout=30, max_retries=0) as client:
            answer = client.chat.completions.create(
                model="chatglm2-6b", messages=[{"role": "user", "content": "Hello"}], max_tokens=32
            )
            assert answer.choices[0].message.content == ANSWER
        older.write_text(json.dumps({"llm": [entry | {"name": "renamed"}]}))
        wait_until(lambda: "renamed" in conch.models(), "the edited name", timeout_s=10)


def test_a_server_that_does_not_answer_is_named_while_others_serve(tmp_path: Path) -> None:
    older = tmp_path / "model_config.json"
    older.write_text(json.dumps({"llm": [{"name": "gone", "url": "127.0.0.1:1", "path": str(FOLDER)}]}))
    conch = ConchUp(tmp_path / "state", arguments=("--config-file", str(older)))
    conch.start()
    try:
        wait_until(lambda: "local/tiny-chat is Ready" in conch.output(), "the model that works", timeout_s=60)
        wait_until(lambda: "EngineUnreachable" in conch.output(), "the model that does not", timeout_s=30)
        assert "local/gone is not ready: EngineUnreachable: Nothing answers at 127.0.0.1:1" in conch.output()
    finally:
        conch.stop()
