"""The process among its neighbours: engines and Redis that die, gateways that look for it, its own end."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.names import GENERATE_PATH, Digest, workers_key
from conch_contracts.records import Dialect
from testkit.builders.generate_requests import backend, generate_request, sampling, target
from testkit.builders.newer_messages import of_a_newer_version
from testkit.models.vocabularies import BYTE_EOS
from testkit.processes.conch_up import wait_until
from testkit.processes.llm_worker import LlmWorker, Reply
from testkit.servers.redis import RedisServer
from testkit.servers.triton import triton_server

from .conftest import ANSWER, Stage, contract_models, put_bundle


def ask(grpc: str, digest: Digest, model: str = "slow", **changes: Any) -> GenerateRequest:
    place = target(Dialect.FASTERTRANSFORMER, grpc=grpc, model=model, tokenizer_digest=digest)
    fields = {"target": place, "stream": True, "backend": backend(end_id=BYTE_EOS), "sampling": sampling()}
    return generate_request(**fields | changes)


async def begin(
    worker: LlmWorker, session: aiohttp.ClientSession, request: GenerateRequest
) -> tuple[asyncio.Task[Reply], asyncio.Event]:
    """Start a request and return its work, and an event for its first bytes."""
    first = asyncio.Event()

    async def work() -> Reply:
        async with worker.open(session, request) as answer:
            body = await answer.content.readany()
            first.set()
            body += await answer.content.read()
        return Reply(answer.status, dict(answer.headers), body, body.decode().split("\n\n")[:-1])

    return asyncio.create_task(work()), first


async def test_a_newer_gateway_is_answered(stage: Stage, session: aiohttp.ClientSession) -> None:
    place = target(Dialect.FASTERTRANSFORMER, grpc=stage.triton.grpc, model="streamed", tokenizer_digest=stage.digest)
    request = generate_request(target=place, backend=backend(end_id=BYTE_EOS), sampling=sampling())
    async with session.post(stage.worker.url + GENERATE_PATH, json=of_a_newer_version(request)) as answer:
        assert (answer.status, (await answer.json())["choices"][0]["message"]["content"]) == (200, ANSWER)


async def test_an_engine_killed_in_the_middle_ends_the_stream_with_an_error(
    stage: Stage, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    repository = contract_models(tmp_path / "models", tmp_path / "events")
    with triton_server(repository, "crawling", folder=tmp_path) as triton:
        work, first = await begin(stage.worker, session, ask(triton.grpc, stage.digest, "crawling"))
        await first.wait()
        os.kill(triton.pid, signal.SIGKILL)
        reply = await asyncio.wait_for(work, 20)  # less than the time-out between tokens
    assert (reply.status, reply.error["code"], reply.finishes) == (200, "upstream_lost", [])
    assert "data: [DONE]" not in reply.frames
    assert 0 < reply.usage["completion_tokens"] < len(ANSWER.encode())


async def test_without_redis_a_worker_serves_what_it_has_served_before_even_after_a_restart(
    stage: Stage, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    with RedisServer() as redis:
        digest = put_bundle(redis, tmp_path / "tokenizer")
        request = ask(stage.triton.grpc, digest, stream=False)
        with LlmWorker(redis.url, tmp_path) as worker:
            assert (await worker.ask(session, request)).text() == ANSWER
            redis.kill()
            assert (await worker.ask(session, request)).text() == ANSWER
        with LlmWorker(redis.url, tmp_path) as worker:
            assert (await worker.ask(session, request)).text() == ANSWER
            unknown = await worker.ask(session, ask(stage.triton.grpc, Digest("0" * 64)))
    assert (unknown.status, unknown.headers["x-conch-retryable"]) == (503, "true")


def test_a_worker_announces_itself_until_it_ends(tmp_path: Path) -> None:
    with RedisServer() as redis:
        with LlmWorker(redis.url, tmp_path) as worker:
            wait_until(lambda: worker.url.encode() in redis.command("HKEYS", workers_key("llm")), "a heartbeat")
        assert worker.url.encode() not in redis.command("HKEYS", workers_key("llm"))


async def test_a_drain_lets_streams_end_and_tells_those_that_cannot(
    stage: Stage, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    with LlmWorker(stage.redis.url, tmp_path, drain_s=3) as worker:
        short = ask(stage.triton.grpc, stage.digest, sampling=sampling(max_tokens=6))
        long = ask(stage.triton.grpc, stage.digest, "crawling")
        (ends, first), (cut, second) = await begin(worker, session, short), await begin(worker, session, long)
        await asyncio.gather(first.wait(), second.wait())
        worker.terminate()
        ended, broken = await ends, await cut
    assert (ended.text(), ended.finishes) == ("Hello ", [("length", None)])
    assert broken.error["code"] == "server_shutting_down"
    assert "data: [DONE]" not in broken.frames


async def test_metrics_tell_what_became_of_requests(stage: Stage, session: aiohttp.ClientSession) -> None:
    await stage.worker.ask(session, ask(stage.triton.grpc, stage.digest))
    async with session.get(f"{stage.worker.admin_url}/metrics") as answer:
        text = await answer.text()
    assert 'conch_llm_worker_requests_total{outcome="ok"}' in text


@pytest.mark.parametrize("body", [b"", b"{}", json.dumps({"prompts": 1}).encode()])
async def test_nonsense_is_a_400(stage: Stage, session: aiohttp.ClientSession, body: bytes) -> None:
    async with session.post(f"{stage.worker.url}/internal/v1/generate", data=body) as answer:
        assert answer.status == 400
        assert set((await answer.json())["error"]) == {"message", "type", "param", "code"}
