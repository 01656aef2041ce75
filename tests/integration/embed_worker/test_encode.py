"""The embed-worker's process against a real Triton, over gRPC and HTTP."""

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

from conch_contracts.dialects.encoder import LAST_HIDDEN_STATE, LOGITS, TEXT_EMBEDS
from conch_contracts.messages.encoding import EncodeRequest, EncoderTarget, Row, RowPicture, Task
from conch_contracts.messages.message import changed
from conch_contracts.names import ENCODE_PATH, EngineAddress, workers_key
from conch_contracts.records import Activation
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository
from testkit.builders.newer_messages import of_a_newer_version
from testkit.http.json_post import post
from testkit.models import clip_golden
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

    def request(self, rows: Sequence[list[int] | Row], **changes: Any) -> EncodeRequest:
        fields = {"address": self.triton.grpc, "model": "model"} | changes.pop("target", {})
        return EncodeRequest(
            request_id="r",
            target=EncoderTarget(**{**fields, "address": EngineAddress(fields["address"])}),
            task=Task.SCORE,
            rows=tuple(row if isinstance(row, Row) else Row(ids=tuple(row)) for row in rows),
            **changes,
        )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder: Path = tmp_path_factory.mktemp("embed")
    model = CpuModel("model", str(FOLDER), str(folder / "cache"), max_batch_size=8, output=LOGITS)
    repository = write_repository(render_cpu_repository(model), folder / "repository")
    clip = CpuModel("clip", str(clip_golden.FOLDER), str(folder / "cache"), 4, output=LAST_HIDDEN_STATE, sees=True)
    write_repository(render_cpu_repository(clip), folder / "repository")
    with (
        RedisServer() as redis,
        triton_server(repository, "model", "clip", folder=folder) as triton,
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


@pytest.mark.parametrize("over_http", [False, True])
def test_texts_and_pictures_of_one_request_have_the_vectors_of_their_reference(stage: Stage, over_http: bool) -> None:
    golden = clip_golden.load()
    address = {"address": f"http://{stage.triton.http}"} if over_http else {}
    target = {"model": "clip", "output": TEXT_EMBEDS, **address}
    rows = [*map(_shown, golden.pictures[:5]), *(each.ids for each in golden.texts), *map(_shown, golden.pictures[5:])]
    vectors = [item["embedding"] for item in stage.worker.ask(_embed(stage.request(rows, target=target))).body["data"]]
    expected = [each.vector for each in golden.pictures]
    np.testing.assert_allclose(vectors, [*expected[:5], *golden.text_vectors, *expected[5:]], atol=1e-4)


def test_a_picture_that_a_model_cannot_see_is_refused(stage: Stage) -> None:
    picture = _shown(clip_golden.load().pictures[0])
    blind = stage.worker.ask(stage.request([picture]))
    assert (blind.status, blind.body["error"]["param"]) == (400, "rows")
    assert "no input pixel_values" in blind.body["error"]["message"]
    assert picture.picture is not None
    half = changed(picture, picture=changed(picture.picture, pixels=picture.picture.pixels[1:]))
    answer = stage.worker.ask(stage.request([half], target={"model": "clip"}))
    assert (answer.status, answer.body["error"]["param"]) == (400, "rows")
    side = changed(picture.picture, pixels=bytes(12), height=2, width=2)
    answer = stage.worker.ask(stage.request([changed(picture, picture=side)], target={"model": "clip"}))
    assert (answer.status, "pixel_values: each must be [3, 64, 64]" in answer.body["error"]["message"]) == (400, True)


def _embed(request: EncodeRequest) -> EncodeRequest:
    return changed(request, task=Task.EMBED)


def _shown(picture: clip_golden.ClipPicture) -> Row:
    height, width, _ = picture.pixels.shape
    scale, shift = clip_golden.normalisation()
    pixels = picture.pixels.tobytes()
    seen = RowPicture(pixels=pixels, height=height, width=width, scale=scale, shift=shift, length=65)
    return Row(ids=(), picture=seen)


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
