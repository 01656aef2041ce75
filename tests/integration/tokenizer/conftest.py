"""A tokenizer process beside a Redis that holds the example model's bundle."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conch_contracts import names
from conch_contracts.names import Digest
from conch_kit.bundles import archive
from testkit.models.golden import FOLDER
from testkit.servers.redis import RedisServer
from testkit.servers.tokenizer import RunningTokenizer, run_tokenizer

PATIENT = dict.fromkeys(("CONCH_GRAMMAR_TIMEOUT_S", "CONCH_ENCODE_TIMEOUT_S", "CONCH_QUEUE_WAIT_S"), "60")
"""For machines as busy as one that tests; a grammar's own limit is on the processor's time."""


@pytest.fixture(scope="session")
def bundle() -> tuple[Digest, bytes]:
    return archive.pack(FOLDER)


@pytest.fixture(scope="module")
def redis(bundle: tuple[Digest, bytes]) -> Iterator[RedisServer]:
    with _redis_with(bundle) as server:
        yield server


@pytest.fixture(scope="module")
def tokenizer(
    redis: RedisServer, bundle: tuple[Digest, bytes], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningTokenizer]:
    with run_tokenizer(redis.url, bundle[0], tmp_path_factory.mktemp("tokenizer"), **PATIENT) as running:
        yield running


@pytest.fixture
def own_redis(bundle: tuple[Digest, bytes]) -> Iterator[RedisServer]:
    """Give a Redis that the test may damage."""
    with _redis_with(bundle) as server:
        yield server


@pytest.fixture
def own_tokenizer(own_redis: RedisServer, bundle: tuple[Digest, bytes], tmp_path: Path) -> Iterator[RunningTokenizer]:
    """Give a process that the test may damage."""
    with run_tokenizer(own_redis.url, bundle[0], tmp_path, **PATIENT) as running:
        yield running


@contextmanager
def _redis_with(bundle: tuple[Digest, bytes]) -> Iterator[RedisServer]:
    digest, data = bundle
    with RedisServer() as server:
        server.command("SET", names.bundle_key(digest), data)
        yield server
