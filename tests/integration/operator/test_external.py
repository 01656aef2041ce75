"""`conch up` with an older model_config.json: an engine that someone else runs, beside one of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from testkit.engines.external_engine import ANSWER, END, FOLDER, external_engine
from testkit.processes.conch_up import ConchUp, wait_until
from testkit.servers.triton import RunningTriton


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[RunningTriton]:
    with external_engine(tmp_path) as server:
        yield server


def test_an_older_file_is_served_beside_a_newer_one(tmp_path: Path, triton: RunningTriton) -> None:
    older = tmp_path / "model_config.json"
    entry = {"name": "chatglm2-6b", "url": triton.grpc, "path": str(FOLDER)}
    info = {"name": "chatglm2-6b", "start_id": -1, "end_id": END, "max_len": 512, "temperature": 1}
    older.write_text(json.dumps({"llm": [entry], "model_infos": [info]}))
    with ConchUp(tmp_path / "state", arguments=("--config-file", str(older))) as conch:
        assert sorted(conch.models()) == ["chatglm2-6b", "tiny-chat"]
        with OpenAI(base_url=conch.base_url, api_key="x", timeout=120, max_retries=0) as client:
            answer = client.chat.completions.create(
                model="chatglm2-6b", messages=[{"role": "user", "content": "Hello"}], max_tokens=32
            )
            assert answer.choices[0].message.content == ANSWER
        older.write_text(json.dumps({"llm": [entry | {"name": "renamed"}]}))
        wait_until(lambda: "renamed" in conch.models(), "the edited name")


def test_a_server_that_does_not_answer_is_named_while_others_serve(tmp_path: Path) -> None:
    older = tmp_path / "model_config.json"
    older.write_text(json.dumps({"llm": [{"name": "gone", "url": "127.0.0.1:1", "path": str(FOLDER)}]}))
    conch = ConchUp(tmp_path / "state", arguments=("--config-file", str(older)))
    conch.start()
    try:
        wait_until(lambda: "local/tiny-chat is Ready" in conch.output(), "the model that works")
        wait_until(lambda: "EngineUnreachable" in conch.output(), "the model that does not")
        assert "local/gone is not ready: EngineUnreachable: Nothing answers at 127.0.0.1:1" in conch.output()
        with OpenAI(base_url=conch.base_url, api_key="x", timeout=120, max_retries=0) as client:
            states = {card.id: card.model_dump()["state"] for card in client.models.list()}
        assert states == {"tiny-chat": "ready", "gone": "not_ready"}
    finally:
        conch.stop()
