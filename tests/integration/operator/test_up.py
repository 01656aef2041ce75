"""`conch up` as a user runs it: starts, edits, crashes and ends."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import pytest
from redis import Redis
from redis.exceptions import RedisError

from testkit.processes.conch_up import EXAMPLE, ConchUp, wait_until

from .conftest import alive


def ask(conch: ConchUp, model: str = "tiny-chat") -> str:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0}
    request = Request(
        f"{conch.base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=120) as answer:
        text: str = json.load(answer)["choices"][0]["message"]["content"]
        return text


def status(conch: ConchUp) -> dict[str, Any]:
    command = [sys.executable, "-m", "conch_operator.cli", "status", "--state-dir", str(conch.state), "-o", "json"]
    result = subprocess.run(command, capture_output=True, check=False)
    report: dict[str, Any] = json.loads(result.stdout or "{}")
    return report


def ready_replicas(conch: ConchUp) -> int:
    return int(status(conch)["models"][0]["readyReplicas"])


def redis_process(conch: ConchUp) -> psutil.Process:
    return conch.named("redis-server", "valkey-server")[0]


def _holds_a_route(redis: Redis) -> bool:
    try:
        return redis.hlen("conch:1:routes") == 1
    except RedisError:
        return False


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def test_it_answers_and_says_how_to_ask(conch: ConchUp) -> None:
    assert conch.models() == ["tiny-chat"]
    assert ask(conch)
    examples = conch.output().partition(f"Conch serves at http://127.0.0.1:{conch.port}/v1\n")[2].partition("Ctrl-C")[0]
    curl, sdk = examples.strip().split("\n\n")
    printed = subprocess.run(["bash", "-ec", curl], capture_output=True, text=True, check=True, timeout=60).stdout
    streamed = subprocess.run(["bash", "-ec", sdk], capture_output=True, text=True, check=True, timeout=60).stdout
    assert streamed
    assert json.loads(printed)["choices"][0]["message"]["content"]


def test_an_edit_applies_without_a_restart_of_what_did_not_change(conch: ConchUp, models_file: Path) -> None:
    before = {process.pid for process in conch.processes()}
    edit(models_file, "servedNames: [tiny-chat]", "servedNames: [other-name]")
    wait_until(lambda: conch.models() == ["other-name"], "the new name")
    edit(models_file, "replicas: 1", "replicas: 2")
    wait_until(lambda: ready_replicas(conch) == 2, "a second engine")
    assert before <= {process.pid for process in conch.processes()}
    edit(models_file, "replicas: 2", "replicas: 1")
    wait_until(lambda: ready_replicas(conch) == 1, "one engine again")
    assert ask(conch, "other-name")


def test_a_new_engine_answers_before_the_old_one_goes(conch: ConchUp, models_file: Path) -> None:
    old = conch.process("tritonserver")
    edit(models_file, "maxBatchSize: 16", "maxBatchSize: 8")
    wait_until(lambda: bool(ask(conch)) and not alive([old]), "the old engine's end")
    assert ask(conch)


def test_a_bad_edit_is_told_and_the_last_good_state_goes_on(conch: ConchUp, models_file: Path) -> None:
    edit(models_file, "replicas: 1", "replcas: 1")
    wait_until(lambda: "did you mean replicas?" in conch.output(), "the fault")
    assert ask(conch)
    edit(models_file, "replcas: 1", "replicas: 1")
    wait_until(lambda: "the files have changed; applying" in conch.output(), "the repair")


def test_a_killed_engine_is_started_again(conch: ConchUp) -> None:
    conch.process("tritonserver").kill()
    wait_until(lambda: "was killed by SIGKILL" in conch.output(), "the report of its end")
    wait_until(lambda: ready_replicas(conch) == 1, "the engine's return")
    assert ask(conch)


def test_a_model_whose_engine_ended_without_its_files_serves_as_soon_as_they_are_back(tmp_path: Path) -> None:
    folder, away, file = tmp_path / "chat", tmp_path / "away", tmp_path / "models.yaml"
    shutil.copytree(EXAMPLE.parent / "tiny-chat", folder)
    file.write_text(re.sub(r"path: .*", f"path: {folder}", EXAMPLE.read_text()))

    def source_fault() -> str:
        conditions = status(conch)["models"][0]["conditions"]
        return next(str(one["message"]) for one in conditions if one["type"] == "SourceReady")

    with ConchUp(tmp_path / "state", file) as conch:
        folder.rename(away)
        conch.process("tritonserver").kill()
        wait_until(lambda: "does not exist" in source_fault(), "the missing folder")
        wait_until(lambda: not conch.runs("tritonserver"), "the end of a server that would never look again")
        away.rename(folder)
        wait_until(lambda: ready_replicas(conch) == 1, "the engine's return")
        assert ask(conch)


def test_routes_are_back_after_redis_was_killed(conch: ConchUp) -> None:
    assert ask(conch)
    address = re.search(r"redis answers at (\S+)", conch.output())
    assert address
    redis_process(conch).kill()
    assert ask(conch), "known models are served without Redis"
    with Redis.from_url(f"redis://{address[1]}") as redis:
        wait_until(lambda: _holds_a_route(redis), "the route in the new Redis")
    assert ask(conch)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_every_process(conch: ConchUp, sent: signal.Signals) -> None:
    below = conch.processes()
    assert len(below) > 5
    assert conch.stop(sent) == 0
    assert alive(below) == []


def test_nothing_outlives_a_killed_conch_up(conch: ConchUp) -> None:
    below = conch.processes()
    own = below[0].ppid()
    assert list(Path("/dev/shm").glob(f"conch_{own}_*"))
    conch.stop(signal.SIGKILL)
    wait_until(lambda: alive(below) == [], "the end of every process")
    wait_until(lambda: not list(Path("/dev/shm").glob(f"conch_{own}_*")), "no shared memory left")


def test_a_second_conch_up_on_one_state_is_refused(conch: ConchUp, models_file: Path) -> None:
    second = subprocess.run(
        [*(sys.executable, "-m", "conch_operator.cli", "up", "-f", str(models_file)), "--state-dir", str(conch.state)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert second.returncode == 1
    assert re.search(r"Another conch up \(process \d+\) uses the state folder", second.stderr)
    assert ask(conch)
