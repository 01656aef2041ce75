"""The embed-worker's process against a real Triton, over gRPC and HTTP."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from conch_contracts.dialects.encoder import LOGITS
from conch_contracts.messages.encoding import EncodeRequest, EncoderTarget, Row, Task
from conch_contracts.names import ENCODE_PATH, EngineAddress, workers_key
from conch_contracts.records import Activation
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository
from testkit.builders.newer_messages import of_a_newer_version
from testkit.http.json_post import post
from testkit.processes.conch_up import ROOT, wait_until
from testkit.processes.embed_worker import EmbedWorker
from testkit.servers.redis import RedisServer
from testkit.servers.triton import RunningTriton, triton_server, write_repository

FOLDER = ROOT / "examples" / "tiny-classifier"
GOLDEN = json.loads((FOLDER / "golden.json").read_text())["items"]
NO_SUCH_TOKEN = 1_000_000


@dataclass(frozen=True, slots=True)
class Stage:
    worker: EmbedWorker
    triton: RunningTriton
    redis: RedisServer

    def request(self, rows: list[list[int]], **changes: Any) -> EncodeRequest:
        fields = {"address": self.triton.grpc, "model": "model"} | changes.pop("target", {})
        return EncodeRequest(
            request_id="r",
            target=EncoderTarget(**{**fields, "address": EngineAddress(fields["address"])}),
            task=Task.SCORE,
            rows=tuple(Row(ids=tuple(ids)) for ids in rows),
            **changes,
        )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder: Path = tmp_path_factory.mktemp("embed")
    model = CpuModel("model", str(FOLDER), str(folder / "cache"), max_batch_size=8, output=LOGITS)
    repository = write_repository(render_cpu_repository(model), folder / "repository")
    with (
        RedisServer() as redis,
        triton_server(repository, "model", folder=folder) as triton,
        EmbedWorker(redis.url, folder) as worker,
    ):
        yield Stage(worker, triton, redis)


@pytest.mark.parametrize("over_http", [False, True])
def test_scores_are_those_of_the_reference(stage: Stage, over_http: bool) -> None:
    target = {"address": f"http://{stage.triton.http}"} if over_http else {}
    rows = [item["input_ids"] for item in GOLDEN]
    answer = stage.worker.ask(stage.request(rows, target=target, activation=Activation.SOFTMAX))
    assert answer.status == 200
    for found, item in zip(answer.body["rows"], GOLDEN, strict=True):
        assert found == pytest.approx(item["probs"], abs=1e-3)


def test_a_newer_gateway_is_answered(stage: Stage) -> None:
    message = json.dumps(of_a_newer_version(stage.request([GOLDEN[0]["input_ids"]]))).encode()
    assert post(stage.worker.url + ENCODE_PATH, None, raw=message).status == 200


def test_a_bad_row_fails_its_own_request_only(stage: Stage) -> None:
    requests = [stage.request([item["input_ids"]]) for item in GOLDEN]
    bad = stage.request([[2, 5, 3], [2, NO_SUCH_TOKEN, 3]])
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(stage.worker.ask, [*requests, bad, *requests, bad]))
    statuses = [answer.status for answer in answers]
    assert statuses == [200] * len(GOLDEN) + [400] + [200] * len(GOLDEN) + [400]
    for answer, item in zip(answers, [*GOLDEN, None], strict=False):
        if item is not None:
            assert answer.body["rows"][0] == pytest.approx(item["logits"], abs=1e-2)


@pytest.mark.parametrize(
    ("target", "status", "retryable"),
    [
        ({"address": "127.0.0.1:1"}, 503, True),
        ({"address": "http://127.0.0.1:1"}, 503, True),
        ({"model": "nobody"}, 503, True),
        ({"output": "nothing"}, 502, False),
    ],
)
def test_an_engine_that_cannot_serve_is_told_apart(
    stage: Stage, target: dict[str, str], status: int, retryable: bool
) -> None:
    answer = stage.worker.ask(stage.request([[2, 5, 3]], target=target))
    assert answer.status == status
    assert (answer.headers.get("x-conch-retryable") == "true") is retryable
    assert set(answer.body["error"]) == {"message", "type", "param", "code"}


def test_a_message_that_is_none_is_refused_and_counted(stage: Stage) -> None:
    before = _refused(stage)
    assert stage.worker.ask(stage.request([])).status == 400
    assert stage.worker.ask(stage.request([[]])).status == 400
    answer = post(stage.worker.url + ENCODE_PATH, {"rows": 1})
    assert (answer.status, answer.body["error"]["param"]) == (400, "rows")
    assert _refused(stage) == before + 3


def _refused(stage: Stage) -> float:
    with urlopen(f"{stage.worker.admin_url}/metrics") as scrape:
        text = scrape.read().decode()
    found = re.search(r'conch_embed_worker_requests_total{outcome="400"} (\S+)', text)
    return 0.0 if found is None else float(found[1])


def test_the_worker_announces_itself(stage: Stage) -> None:
    wait_until(lambda: stage.worker.url in str(stage.redis.command("HKEYS", workers_key("embed"))), "its heartbeat")
