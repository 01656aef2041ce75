"""One Redis, one tritonserver with every variant of the contract model, and one worker for all tests here."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest

from conch_contracts.names import Digest, bundle_key
from conch_kit.bundles.archive import pack
from testkit.engines.backend_stand_ins import install, parameter
from testkit.engines.dialect_stand_ins import dialects_server
from testkit.models.vocabularies import BYTE_EOS, byte_level_tokenizer
from testkit.processes.llm_worker import LlmWorker
from testkit.servers.redis import RedisServer
from testkit.servers.triton import RunningTriton, triton_server

ANSWER = "Hello 你好 🙂 end."
"""What the contract model answers: one id per UTF-8 byte, then the end id."""

VARIANTS = {
    "streamed": {"decoupled": "True"},
    "unary": {},
    "slow": {"decoupled": "True", "token_delay_s": "0.05"},
    "crawling": {"decoupled": "True", "token_delay_s": "0.5"},
    "silent": {"decoupled": "True", "silent_after": "3"},
    "mute": {"decoupled": "True", "silent_after": "0"},
    "narrow": {"token_delay_s": "0.05"},
}

ONE_AT_A_TIME = {
    "max_batch_size: 1024": "max_batch_size: 1",
    r"(instance_group .*)": r"\1\ndynamic_batching { default_queue_policy { max_queue_size: 1 } }",
}
"""A model that works on one request, and lets one more wait inside Triton."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that a test here needs."""

    worker: LlmWorker
    triton: RunningTriton
    redis: RedisServer
    digest: Digest
    events: Path

    def seen(self, what: str, request_id: str) -> list[dict[str, object]]:
        """Return what the contract model has noted about a request."""
        lines = self.events.read_text().splitlines() if self.events.exists() else []
        notes = [json.loads(line) for line in lines]
        return [note for note in notes if (note["what"], note["id"]) == (what, request_id)]


def contract_models(repository: Path, events: Path) -> Path:
    """Write every variant of the contract model into a repository."""
    for name, variant in VARIANTS.items():
        changes = {
            **parameter("answer", json.dumps([*ANSWER.encode(), BYTE_EOS, *b"never"])),
            **parameter("end_id", BYTE_EOS),
            **parameter("token_delay_s", variant.get("token_delay_s", "0")),
            **parameter("silent_after", variant.get("silent_after", "-1")),
            **parameter("events", events),
            "decoupled: False": f"decoupled: {variant.get('decoupled', 'False')}",
            **(ONE_AT_A_TIME if name == "narrow" else {}),
        }
        install(repository, name, "fastertransformer", changes=changes)
    return repository


def put_bundle(redis: RedisServer, folder: Path) -> Digest:
    """Publish the byte-level tokenizer and return its digest."""
    folder.mkdir()
    (folder / "tokenizer.json").write_text(byte_level_tokenizer().to_str())
    digest, data = pack(folder)
    redis.command("SET", bundle_key(digest), data)
    return digest


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("llm-worker")
    repository = contract_models(folder / "models", folder / "events")
    with (
        RedisServer() as redis,
        triton_server(repository, *VARIANTS, folder=folder) as triton,
        LlmWorker(redis.url, folder) as worker,
    ):
        yield Stage(worker, triton, redis, put_bundle(redis, folder / "tokenizer"), folder / "events")


@pytest.fixture(scope="session")
def engines(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Give the same worker and a server with a model of every dialect and form."""
    folder = tmp_path_factory.mktemp("dialects")
    with dialects_server(folder, folder / "events") as triton:
        yield replace(stage, triton=triton, events=folder / "events")


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session
