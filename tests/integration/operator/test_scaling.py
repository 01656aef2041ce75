"""A model under `conch up` rests without an engine and comes back: the real server, a gateway's word by the test."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError

import pytest
from redis import Redis

from conch_contracts.names import ROUTES_KEY, WAKES_KEY, ModelId, engines_key
from testkit.gateway.spoken_load import GatewayWord, LaggingGateway
from testkit.processes.conch_up import ConchUp, example_text, wait_until

from .test_up import ask, status

MODEL = ModelId("local/tiny-chat")
CRASHES = 4
PAUSES_S = 0.2 + 0.4 + 0.8
"""Between four starts."""


@pytest.fixture
def conch(tmp_path: Path) -> Iterator[ConchUp]:
    file = tmp_path / "models.yaml"
    scaling = "  scaling: {minReplicas: 0, maxReplicas: 1, idleAfter: 1s}\n"
    file.write_text(re.sub(r"^spec:\n", f"spec:\n{scaling}", example_text(), flags=re.MULTILINE))
    with ConchUp(tmp_path / "state", file) as running:
        yield running


@pytest.fixture
def redis(conch: ConchUp) -> Redis:
    (process,) = conch.named("redis-server", "valkey-server")
    return Redis(port=next(found.laddr.port for found in process.net_connections() if found.status == "LISTEN"))


def test_a_model_rests_when_nothing_happens_and_comes_back_for_a_request_and_for_a_call(
    conch: ConchUp, redis: Redis
) -> None:
    def engines() -> int:
        return len(conch.named("tritonserver"))

    def route() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(cast("bytes", redis.hget(ROUTES_KEY, MODEL)))
        return found

    def answers() -> int:
        return int(status(conch)["models"][0]["readyReplicas"])

    assert ask(conch)
    with LaggingGateway(redis):
        warm = conch.named("tritonserver")
        wait_until(lambda: not redis.hlen(engines_key(MODEL)), "an engine that is about to go", 120)
        assert ask(conch)
        assert conch.named("tritonserver") == warm, "the request got the engine back"
    with GatewayWord(redis, MODEL) as gateway:
        gateway.says()
        wait_until(lambda: engines() == 0, "no engine", 120)
        (model,) = status(conch)["models"]
        ready = next(one for one in model["conditions"] if one["type"] == "Ready")
        assert (ready["status"], ready["reason"], model["scaling"]["desired"]) == ("True", "ScaledToZero", 0)
        assert (route()["wakes"], route()["start_s"] > 0) == (True, True)
        gateway.says(held=1)
        wait_until(lambda: answers() == 1, "an engine for what is held", 120)
        assert ask(conch)
        gateway.says()
        wait_until(lambda: engines() == 0, "no engine again", 120)
        redis.hset(WAKES_KEY, MODEL, "99999999999")
        wait_until(lambda: answers() == 1, "an engine for the call", 120)
        assert status(conch)["models"][0]["scaling"]["reason"] == "Woken"


def test_a_start_that_crashes_is_tried_ever_later_and_wakes_nobody_anew(conch: ConchUp, redis: Redis) -> None:
    def model() -> dict[str, Any]:
        found: dict[str, Any] = status(conch)["models"][0]
        return found

    assert ask(conch)
    with GatewayWord(redis, MODEL) as gateway:
        gateway.says()
        wait_until(lambda: not conch.named("tritonserver"), "no engine", 120)
        gateway.says(held=1)
        ended_s = [crash(conch) for _ in range(CRASHES)]
        assert ended_s[-1] - ended_s[0] > PAUSES_S
        assert model()["scaling"]["desired"] == 1
        wait_until(lambda: model()["readyReplicas"] == 1, "an engine for what is held", 120)
        assert model()["scaling"]["desired"] == 1
    assert ask(conch)


def crash(conch: ConchUp) -> float:
    """End an engine as soon as it starts; return when, just before."""
    wait_until(lambda: bool(conch.named("tritonserver")), "a start", 60)
    server = conch.named("tritonserver")[0]
    ended_s = time.monotonic()
    server.kill()
    wait_until(lambda: not server.is_running(), "its end", 60)
    return ended_s


def answer(conch: ConchUp) -> tuple[int, str]:
    """Return the status of a request, and the text where it is 200."""
    try:
        return 200, ask(conch)
    except HTTPError as error:
        with error:
            return error.code, ""


def test_a_request_waits_for_whoever_scales_the_model_from_zero(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"

    def scale(replicas: int) -> None:
        spec = f"  replicas: {replicas}\n  routing: {{hold: 1}}\n"
        text, edits = re.subn(r"^  replicas: 1.*\n", spec, example_text(), flags=re.MULTILINE)
        assert edits == 1
        file.write_text(text)

    scale(1)
    patient = {"CONCH_HOLD_S": "120"}
    with ConchUp(tmp_path / "state", file, settings=patient) as conch, ThreadPoolExecutor() as clients:

        def engines() -> int:
            return len(conch.named("tritonserver"))

        def reason() -> str:
            (model,) = status(conch)["models"]
            return str(next(one for one in model["conditions"] if one["type"] == "Ready")["reason"])

        before = ask(conch)
        scale(0)
        wait_until(lambda: engines() == 0 and reason() == "ScaledToZero", "no engine", 120)
        held = [clients.submit(answer, conch) for _ in range(2)]
        refused = next(iter(wait(held, timeout=60, return_when=FIRST_COMPLETED).done))
        assert refused.result() == (429, "")
        (waiting,) = [each for each in held if each is not refused]
        assert (waiting.done(), engines()) == (False, 0)
        scale(1)
        assert waiting.result(timeout=120) == (200, before)
