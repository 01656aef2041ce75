"""Bad templates, dying children, a missing Redis: clear answers, and the next good request is served."""

import os
import signal
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from conch_contracts import names
from conch_contracts.names import Digest
from conch_contracts.records import Pool
from testkit.servers.redis import RedisServer
from testkit.servers.tokenizer import RunningTokenizer, answers_beside, busy_child, run_tokenizer, runs, wait_for

RESPAWN_S = 30
"""Children are back within milliseconds; a zygote imports for a second; and machines that test are busy."""
HANGS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


def assert_serves(tokenizer: RunningTokenizer) -> None:
    answer = tokenizer.chat("Hello!")
    assert answer.status == 200, answer
    assert answer.body["prompts"][0]["text"].startswith("<|im_start|>user\nHello!")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ nobody.name }}", "'nobody' is undefined"),
        ("{% for", "cannot be read"),
        ("{{ 'a' * 10**10 }}", "memory"),
        (HANGS, "did not finish within 2 s"),
    ],
)
def test_a_bad_template_is_a_400_that_names_it(template: str, said: str, tokenizer: RunningTokenizer) -> None:
    answer = tokenizer.chat("x", chat_template=template)
    assert (answer.status, answer.body["error"]["param"]) == (400, "messages")
    assert answer.body["error"]["code"] == "template_error"
    assert said in answer.body["error"]["message"]
    assert_serves(tokenizer)
    wait_for(lambda: len(tokenizer.children()) >= 2, RESPAWN_S)


def test_a_killed_child_costs_no_request(tokenizer: RunningTokenizer) -> None:
    wait_for(lambda: len(tokenizer.children()) >= 2, RESPAWN_S)
    for child in tokenizer.children():
        os.kill(child, signal.SIGKILL)
        assert_serves(tokenizer)
        wait_for(lambda: len(set(tokenizer.children()) - {child}) >= 2, RESPAWN_S)  # noqa: B023


def test_a_child_killed_at_work_is_replaced_and_its_request_tried_again(tokenizer: RunningTokenizer) -> None:
    before = _with_a_child_for_large_texts(tokenizer)
    done: list[int] = []
    work = threading.Thread(target=lambda: done.append(tokenizer.prepare(prompts=["word " * 150_000]).status))
    work.start()
    busy = busy_child(before)
    os.kill(busy, signal.SIGKILL)
    work.join()
    assert done == [200]
    assert busy not in tokenizer.children()


def test_children_do_not_have_the_services_settings(tokenizer: RunningTokenizer) -> None:
    wait_for(lambda: len(tokenizer.children()) >= 2, RESPAWN_S)
    for child in tokenizer.children():
        assert b"CONCH_" not in Path(f"/proc/{child}/environ").read_bytes()


def test_frozen_children_are_replaced_and_no_template_is_blamed(own_tokenizer: RunningTokenizer) -> None:
    assert_serves(own_tokenizer)
    frozen = own_tokenizer.children()
    for child in frozen:
        os.kill(child, signal.SIGSTOP)
    answer = own_tokenizer.chat("Hello!")
    assert answer.status == 200 or (answer.status, answer.headers["x-conch-retryable"]) == (503, "true")
    assert_serves(own_tokenizer)
    wait_for(lambda: not set(own_tokenizer.children()) & set(frozen), RESPAWN_S)


def test_a_killed_zygote_is_replaced(own_tokenizer: RunningTokenizer) -> None:
    zygote = own_tokenizer.zygote()
    os.kill(zygote, signal.SIGKILL)
    wait_for(lambda: own_tokenizer.prepare(prompts=["x"]).status == 200, RESPAWN_S)
    assert own_tokenizer.zygote() != zygote


def test_a_killed_process_leaves_nothing_behind(own_tokenizer: RunningTokenizer) -> None:
    assert_serves(own_tokenizer)
    family = [own_tokenizer.zygote(), *own_tokenizer.children()]
    hanging = threading.Thread(target=lambda: _ignore_reset(own_tokenizer))
    hanging.start()
    busy_child(set(family))
    os.kill(own_tokenizer.pid, signal.SIGKILL)
    wait_for(lambda: not any(runs(process) for process in family), RESPAWN_S)
    hanging.join()


def test_cached_bundles_go_on_working_without_redis(
    own_tokenizer: RunningTokenizer, own_redis: RedisServer, tmp_path: Path
) -> None:
    assert_serves(own_tokenizer)
    own_redis.kill()
    before = own_tokenizer.children()
    for child in before:
        os.kill(child, signal.SIGKILL)
    wait_for(lambda: len(set(own_tokenizer.children()) - set(before)) == 2, RESPAWN_S)
    wait_for(lambda: own_tokenizer.get("/readyz")[0] == 200, RESPAWN_S)
    assert_serves(own_tokenizer)
    with run_tokenizer(own_redis.url, own_tokenizer.digest, tmp_path) as restarted:
        assert_serves(restarted)
        answer = restarted.post_bytes(names.DETOKENIZE_PATH, b'{"digest": "%s", "tokens": []}' % (b"1" * 64))
        assert (answer.status, answer.body["error"]["code"]) == (503, "tokenizer_not_ready")


def test_an_unknown_digest_is_503_and_may_be_tried_again(tokenizer: RunningTokenizer) -> None:
    answer = tokenizer.post_bytes(names.DETOKENIZE_PATH, b'{"digest": "%s", "tokens": []}' % (b"1" * 64))
    assert (answer.status, answer.body["error"]["code"]) == (503, "tokenizer_not_ready")
    assert answer.headers["x-conch-retryable"] == "true"
    assert answer.headers["retry-after"] == "1"


def test_a_corrupt_bundle_is_refused_and_reported(redis: RedisServer, tmp_path: Path) -> None:
    digest = Digest("2" * 64)
    redis.command("SET", names.bundle_key(digest), b"something else")
    with run_tokenizer(redis.url, digest, tmp_path) as tokenizer:
        assert tokenizer.chat("x").body["error"]["code"] == "tokenizer_not_ready"
        assert digest in tokenizer.log.read_text()


def test_large_texts_leave_the_loop_free(tokenizer: RunningTokenizer) -> None:
    assert_serves(tokenizer)
    answers = answers_beside(tokenizer, [partial(tokenizer.prepare, prompts=["word " * 200_000])] * 3)
    assert answers > 10  # a loop that encodes could answer between two texts at most


def test_large_texts_leave_a_child_to_small_requests(
    redis: RedisServer, bundle: tuple[Digest, bytes], tmp_path: Path
) -> None:
    patience = dict.fromkeys(("CONCH_TEMPLATE_TIMEOUT_S", "CONCH_ENCODE_TIMEOUT_S", "CONCH_QUEUE_WAIT_S"), "60")
    with run_tokenizer(redis.url, bundle[0], tmp_path, **patience) as tokenizer:
        children = _with_a_child_for_large_texts(tokenizer)
        done: list[int] = []

        def prepare(words: int) -> None:
            done.append(tokenizer.prepare(prompts=["word " * words]).status)

        large = [
            threading.Thread(target=prepare, args=(count,))
            for count in (800_000, 300_000, 300_000, 300_000)  # the first is still at work when it is stopped
        ]
        large[0].start()
        busy = busy_child(children)
        os.kill(busy, signal.SIGSTOP)
        for thread in large[1:]:
            thread.start()
        for _ in range(20):
            assert_serves(tokenizer)
        assert done == []
        os.kill(busy, signal.SIGCONT)
        for thread in large:
            thread.join()
        assert done == [200] * 4


def test_a_text_that_the_context_cannot_hold_is_a_400(tokenizer: RunningTokenizer) -> None:
    answer = tokenizer.prepare(chat={"messages": [{"role": "user", "content": "x" * 1_000_000}]}, context=2048)
    error = answer.body["error"]
    assert (answer.status, error["code"], error["param"]) == (400, "context_length_exceeded", "messages")
    assert_serves(tokenizer)


def test_a_text_that_takes_too_long_is_refused_and_blamed_where_it_had_a_processor(
    redis: RedisServer, bundle: tuple[Digest, bytes], tmp_path: Path
) -> None:
    hurried = {"CONCH_TEMPLATE_TIMEOUT_S": "60", "CONCH_ENCODE_TIMEOUT_S": "0.5"}
    with run_tokenizer(redis.url, bundle[0], tmp_path, **hurried) as tokenizer:
        answer = tokenizer.chat(" " * 4_000_000)
        said = "the text could not be encoded within 0.5 s"
        expected = {400: ("messages", "too_complex", f"{said}; make it shorter"), 503: (None, "overloaded", said)}
        error = answer.body["error"]
        assert (error["param"], error["code"], error["message"]) == expected[answer.status]
        assert_serves(tokenizer)


def test_text_over_the_bound_is_a_400(tokenizer: RunningTokenizer) -> None:
    answer = tokenizer.prepare(prompts=["x" * (4 * 1024**2 + 1)])
    assert (answer.status, answer.body["error"]["code"]) == (400, "context_length_exceeded")
    assert_serves(tokenizer)


def test_the_process_announces_itself_and_withdraws(own_redis: RedisServer, tmp_path: Path) -> None:
    key = names.workers_key(Pool.TOKENIZER)
    with run_tokenizer(own_redis.url, Digest("0" * 64), tmp_path) as tokenizer:
        wait_for(lambda: tokenizer.url.encode() in own_redis.command("HGETALL", key), RESPAWN_S)
        children = tokenizer.children()
    assert own_redis.command("HGETALL", key) == b"*0\r\n"
    wait_for(lambda: not any(runs(child) for child in children), RESPAWN_S)


def test_requests_and_children_are_counted(own_tokenizer: RunningTokenizer) -> None:
    assert_serves(own_tokenizer)
    own_tokenizer.prepare(prompts=[""])
    text = own_tokenizer.get("/metrics")[1]
    assert 'conch_tokenizer_requests_total{operation="prepare",outcome="ok"} 1.0' in text
    assert 'conch_tokenizer_requests_total{operation="prepare",outcome="refused"} 1.0' in text
    assert "conch_tokenizer_bundles_fetched_total 1.0" in text


def _ignore_reset(tokenizer: RunningTokenizer) -> None:
    with suppress(OSError):
        tokenizer.chat("x", chat_template=HANGS)


def _with_a_child_for_large_texts(tokenizer: RunningTokenizer) -> set[int]:
    """Have one started, and return all children."""
    assert tokenizer.prepare(prompts=["word " * 20_000]).status == 200
    wait_for(lambda: len(tokenizer.children()) >= 3, RESPAWN_S)
    return set(tokenizer.children())
