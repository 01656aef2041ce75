"""The real process: what it needs to start, what it refuses with its own rules, and how it ends."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from conch_contracts.headers import INTERNAL_TOKEN
from conch_contracts.messages.message import to_json
from conch_contracts.names import FETCH_PICTURE_PATH
from testkit.builders.pictures import PARAM, fetch_request
from testkit.processes.worker_process import WorkerProcess

TOKEN = "secret"


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    settings = {"internal_token": TOKEN, "refused_addresses": "93.184.0.0/16,*.svc"}
    with WorkerProcess("conch_media.main", None, tmp_path_factory.mktemp("media"), **settings) as process:
        yield process


async def ask(media: WorkerProcess, url: str, *domains: str) -> tuple[int, dict[str, str]]:
    body, headers = to_json(fetch_request(url, domains)), {INTERNAL_TOKEN: TOKEN}
    async with (
        aiohttp.ClientSession() as session,
        session.post(media.url + FETCH_PICTURE_PATH, data=body, headers=headers) as answer,
    ):
        return answer.status, (await answer.json())["error"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/a.png",
        "http://localhost/a.png",
        "http://[::1]/a.png",
        "http://169.254.169.254/latest/meta-data/",
        "http://93.184.215.14/",
        "http://redis.conch.svc/",
        "http://nobody.invalid/",
    ],
)
async def test_the_rules_of_the_process_are_the_strict_ones(media: WorkerProcess, url: str) -> None:
    status, error = await ask(media, url, "*")
    assert (status, error["param"], error["code"]) == (400, PARAM, "invalid_value")
    assert "no picture may be fetched from this URL" in error["message"]


async def test_its_own_port_cannot_be_named(media: WorkerProcess) -> None:
    status, error = await ask(media, media.url, "*")
    assert status == 400
    assert "its port is neither 80 nor 443" in error["message"]


async def test_the_log_says_what_the_client_does_not_learn(media: WorkerProcess) -> None:
    await ask(media, "http://10.1.2.3/secret-path?signature=1", "*")
    lines = [json.loads(line) for line in media.log.read_text().splitlines()]
    (line,) = [line for line in lines if line.get("host") == "10.1.2.3"]
    assert "(10.1.2.3): it is no public address" in line["reason"]
    assert "secret-path" not in media.log.read_text()


async def test_it_tells_how_it_does(media: WorkerProcess) -> None:
    await ask(media, "http://127.0.0.1/", "*")
    async with aiohttp.ClientSession() as session:
        async with session.get(media.admin_url + "/readyz") as answer:
            assert answer.status == 200
        async with session.get(media.admin_url + "/metrics") as answer:
            text = await answer.text()
    assert 'conch_media_requests_total{outcome="400"}' in text


def test_a_registry_is_nothing_that_it_may_be_told_of() -> None:
    environ = {"CONCH_REDIS_URL": "redis://127.0.0.1:1"}
    ended = subprocess.run([sys.executable, "-m", "conch_media.main"], env=environ, capture_output=True, timeout=60)
    assert ended.returncode == 2
    assert b"CONCH_REDIS_URL is not a setting of this process" in ended.stderr


def test_it_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with WorkerProcess("conch_media.main", None, tmp_path) as process:
        process.terminate()
