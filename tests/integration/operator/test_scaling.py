"""A model under `conch up` rests without an engine and comes back: the real server, a gateway's word by the test."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis

from conch_contracts.names import ROUTES_KEY, WAKES_KEY
from testkit.gateway.spoken_load import GatewayWord
from testkit.processes.conch_up import ConchUp, example_text, wait_until

from .test_up import ask, status

MODEL = "local/tiny-chat"


@pytest.fixture
def conch(tmp_path: Path) -> Iterator[ConchUp]:
    file = tmp_path / "models.yaml"
    scaling = "  scaling: {minReplicas: 0, maxReplicas: 1, idleAfter: 1s}\n"
    file.write_text(re.sub(r"^spec:\n", f"spec:\n{scaling}", example_text(), flags=re.MULTILINE))
    with ConchUp(tmp_path / "state", file) as running:
        yield running


def test_a_model_rests_when_nothing_happens_and_comes_back_for_a_request_and_for_a_call(conch: ConchUp) -> None:
    redis_process = next(one for one in conch.processes() if one.name() in ("redis-server", "valkey-server"))
    port = next(found.laddr.port for found in redis_process.net_connections() if found.status == "LISTEN")
    redis = Redis(port=port)

    def engines() -> int:
        return sum(process.name() == "tritonserver" for process in conch.processes())

    def route() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(cast("bytes", redis.hget(ROUTES_KEY, MODEL)))
        return found

    def answers() -> int:
        return int(status(conch)["models"][0]["readyReplicas"])

    assert ask(conch)
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
