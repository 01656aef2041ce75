"""`conch up` with the rerank section of an older file: one Triton of someone else, asked over HTTP by two entries."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from conch_contracts.dialects.encoder import LOGITS
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository
from testkit.http.json_post import post
from testkit.processes.conch_up import ROOT, ConchUp
from testkit.servers.triton import RunningTriton, triton_server, write_repository

FOLDER = ROOT / "examples" / "tiny-reranker"


@pytest.fixture
def triton(tmp_path: Path) -> Iterator[RunningTriton]:
    """Run a server with a reranker."""
    model = CpuModel("bge", str(FOLDER), str(tmp_path / "cache"), max_batch_size=4, output=LOGITS)
    repository = write_repository(render_cpu_repository(model), tmp_path / "repository")
    with triton_server(repository, "bge", folder=tmp_path) as server:
        yield server


def test_older_entries_are_served_over_http_from_one_server(tmp_path: Path, triton: RunningTriton) -> None:
    entry = {"name": "bge", "url": triton.http, "path": str(FOLDER), "max_tokens": 64}
    tensors = {"input_ids": "input_ids", "attention_mask": "attention_mask"}
    scaled = {**entry, "input_config": tensors, "output_config": {"name": "logits", "process": "normalize"}}
    plain = {**entry, "name": "plain", "model_name": "bge", "output_config": {"name": "logits", "process": "none"}}
    older = tmp_path / "model_config.json"
    older.write_text(json.dumps({"rerank": [scaled, plain]}))
    item = json.loads((FOLDER / "golden.json").read_text())["items"][4]
    with ConchUp(tmp_path / "state", arguments=("--config-file", str(older))) as conch:

        def scores(model: str) -> list[float]:
            body = {"model": model, "query": item["query"], "documents": item["documents"]}
            results = post(f"{conch.base_url}/rerank", body).body["results"]
            found = {result["index"]: result["relevance_score"] for result in results}
            return [found[index] for index in range(len(found))]

        assert scores("bge") == pytest.approx(item["scores"], abs=1e-3)
        assert [1 / (1 + math.exp(-logit)) for logit in scores("plain")] == pytest.approx(item["scores"], abs=1e-3)
        long = post(f"{conch.base_url}/rerank", {"model": "bge", "query": "a", "documents": ["word " * 500]}).body
        assert long["usage"]["prompt_tokens"] == 64
