"""Pictures in a real tokenizer process: what they become, and what those cost that are made to cost much."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from conch_contracts import names
from conch_contracts.names import Digest
from conch_kit.bundles import archive
from testkit.builders.picture_chats import picture_chat
from testkit.models import clip_golden
from testkit.models.picture_model import FEATURES, IMAGE_ID, SIDE, make_picture_model
from testkit.models.pictures import base64_of, bomb, file_of, picture
from testkit.servers.redis import RedisServer
from testkit.servers.tokenizer import Answer, RunningTokenizer, answers_beside, run_tokenizer

PICTURE = file_of(picture())
LARGEST = bomb(5_740, 5_740)
"""As large as a picture may be, and 32 kB as a file."""
BOMBS = 1_000
MEMORY_BYTES = 320 * 1024**2
"""Room for the tokenizer and for small pictures."""
GROWTH_BYTES = 50 * 1024**2
PATIENT = dict.fromkeys(("CONCH_TEMPLATE_TIMEOUT_S", "CONCH_ENCODE_TIMEOUT_S", "CONCH_QUEUE_WAIT_S"), "60")


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Digest, bytes]:
    return archive.pack(make_picture_model(tmp_path_factory.mktemp("sees") / "model"))


@pytest.fixture(scope="module")
def redis(seeing: tuple[Digest, bytes]) -> Iterator[RedisServer]:
    with RedisServer() as server:
        server.command("SET", names.bundle_key(seeing[0]), seeing[1])
        yield server


@pytest.fixture(scope="module")
def tokenizer(
    redis: RedisServer, seeing: tuple[Digest, bytes], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningTokenizer]:
    with run_tokenizer(redis.url, seeing[0], tmp_path_factory.mktemp("tokenizer"), **PATIENT) as running:
        yield running


def show(tokenizer: RunningTokenizer, *parts: str | bytes) -> Answer:
    return tokenizer.prepare(chat=picture_chat(parts), picture_limits={})


def assert_serves(tokenizer: RunningTokenizer) -> None:
    answer = show(tokenizer, "What?", PICTURE)
    assert answer.status == 200, answer
    (prompt,) = answer.body["prompts"]
    (shown,) = prompt["pictures"]
    assert prompt["ids"].count(IMAGE_ID) == shown["length"] == FEATURES
    assert len(shown["data"]) == SIDE * SIDE * 3 * 4 // 3  # base64


def assert_picture_refused(answer: Answer, said: str) -> None:
    error = answer.body["error"]
    assert (answer.status, error["param"], error["code"]) == (400, "messages.0.content.1.image_url", "invalid_value")
    assert said in error["message"]


def test_a_bundle_of_a_model_that_sees_brings_what_pictures_need(tokenizer: RunningTokenizer) -> None:
    assert_serves(tokenizer)


def test_a_thousand_bombs_are_refused_and_nothing_grows(tokenizer: RunningTokenizer) -> None:
    chat = picture_chat(("What?", bomb(10_000, 10_000)))
    body = json.dumps({"digest": tokenizer.digest, "chat": chat, "picture_limits": {}}).encode()
    for _ in range(20):
        assert_picture_refused(tokenizer.post_bytes(names.PREPARE_PATH, body), "found 10000 x 10000")
    family = [psutil.Process(pid) for pid in (tokenizer.pid, tokenizer.zygote(), *tokenizer.children())]
    before = [process.memory_info().rss for process in family]
    for _ in range(BOMBS):
        assert_picture_refused(tokenizer.post_bytes(names.PREPARE_PATH, body), "found 10000 x 10000")
    after = [process.memory_info().rss for process in family]
    assert max(now - then for then, now in zip(before, after, strict=True)) < GROWTH_BYTES
    assert_serves(tokenizer)


def test_a_picture_that_takes_too_long_is_a_400_that_names_it(
    redis: RedisServer, seeing: tuple[Digest, bytes], tmp_path: Path
) -> None:
    hurried = PATIENT | {"CONCH_ENCODE_TIMEOUT_S": "0.2"}
    with run_tokenizer(redis.url, seeing[0], tmp_path, **hurried) as tokenizer:
        assert tokenizer.chat("Hello!").status == 200
        assert_picture_refused(show(tokenizer, "What?", LARGEST), "took more than 0.2 s; make it smaller")
        assert tokenizer.chat("Hello!").status == 200


def test_a_picture_that_takes_too_much_memory_is_a_400_that_names_it(
    redis: RedisServer, seeing: tuple[Digest, bytes], tmp_path: Path
) -> None:
    narrow = PATIENT | {"CONCH_CHILD_MEMORY_BYTES": str(MEMORY_BYTES)}
    with run_tokenizer(redis.url, seeing[0], tmp_path, **narrow) as own:
        assert_picture_refused(show(own, "What?", LARGEST), "needs more memory than a picture may take")
        assert_serves(own)


def test_the_largest_picture_is_served(tokenizer: RunningTokenizer) -> None:
    assert show(tokenizer, "What?", LARGEST).status == 200


def test_large_pictures_leave_the_loop_free(tokenizer: RunningTokenizer) -> None:
    new = [bomb(5_000 + index, 5_000) for index in range(3)]
    answers = answers_beside(tokenizer, [partial(show, tokenizer, "What?", data) for data in new])
    assert answers > 10  # a loop that decodes could answer between two pictures at most


def test_rows_of_pictures_are_made_by_the_bundle_of_a_model_of_texts_and_pictures(
    redis: RedisServer, tmp_path: Path
) -> None:
    digest, data = archive.pack(clip_golden.FOLDER)
    redis.command("SET", names.bundle_key(digest), data)
    golden = clip_golden.load()
    shown = [{"data": base64_of(each.file.read_bytes()), "param": each.file.name} for each in golden.pictures]
    message = {"texts": [golden.texts[0].text, *[None] * len(shown)], "pictures": shown, "picture_limits": {}}
    with run_tokenizer(redis.url, digest, tmp_path, **PATIENT) as own:
        rows = own.post(names.PREPARE_ROWS_PATH, {"digest": digest, **message}).body["rows"]
        assert rows[0]["ids"] == golden.texts[0].ids
        for row, each in zip(rows[1:], golden.pictures, strict=True):
            assert row["picture"]["pixels"] == base64_of(each.pixels.tobytes())
        bombs = {"texts": [None, None], "pictures": [shown[0], {"data": base64_of(bomb(10_000, 10_000)), "param": "b"}]}
        answer = own.post(names.PREPARE_ROWS_PATH, {"digest": digest, **bombs, "picture_limits": {}})
        assert (answer.status, answer.body["error"]["param"]) == (400, "b")
