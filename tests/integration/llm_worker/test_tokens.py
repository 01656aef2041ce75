"""The `tokens` dialect with the cpu runtime on tiny-chat: the worker gives exactly the reference answers."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from conch_contracts.messages.generation import Api, GenerateRequest
from conch_contracts.messages.message import changed
from conch_contracts.names import bundle_key
from conch_kit.bundles.archive import pack
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository
from testkit.builders.generate_requests import generate_request, prompt, sampling, target
from testkit.models.golden import FOLDER, Item, load_golden
from testkit.servers.triton import triton_server, write_repository

from .conftest import Stage

EOS = (2041, 2039)
GOLDEN = load_golden()


@pytest.fixture(scope="module")
def tiny(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("tiny")
    for name, pace in (("tiny", 0), ("paced", 40)):
        model = CpuModel(name, str(FOLDER), str(folder / "cache"), tokens_per_second=pace)
        write_repository(render_cpu_repository(model), folder / "models")
    digest, data = pack(FOLDER)
    stage.redis.command("SET", bundle_key(digest), data)
    with triton_server(folder / "models", "tiny", "paced", folder=folder) as triton:
        yield replace(stage, triton=triton, digest=digest)


def ask(stage: Stage, item: Item, model: str = "tiny", **changes: Any) -> GenerateRequest:
    limits = {"max_tokens": 200, "eos_token_ids": EOS, **changes.pop("sampling", {})}
    fields = {
        "target": target(grpc=stage.triton.grpc, model=model, tokenizer_digest=stage.digest),
        "prompts": (prompt(item.prompt_ids, ""),),
        "sampling": sampling(**limits),
        "stream": True,
    }
    return generate_request(**fields | changes)


def expected_tokens(item: Item) -> int:
    return len(item.output_ids)


@pytest.mark.parametrize("stream", [True, False])
async def test_every_reference_answer_comes_out_exactly(
    tiny: Stage, session: aiohttp.ClientSession, stream: bool
) -> None:
    items = GOLDEN.items
    replies = await asyncio.gather(*(tiny.worker.ask(session, ask(tiny, item, stream=stream)) for item in items))
    for item, reply in zip(items, replies, strict=True):
        assert (reply.text(), reply.finishes) == (item.text, [(item.finish_reason, None)]), item.name
        assert reply.usage == {"prompt_tokens": len(item.prompt_ids), "completion_tokens": len(item.output_ids)}


async def test_log_probabilities_are_the_reference_ones(tiny: Stage, session: aiohttp.ClientSession) -> None:
    item = GOLDEN.named("greet")
    reply = await tiny.worker.ask(session, ask(tiny, item, logprobs=True, stream=False, sampling={"logprobs": 2}))
    content = reply.json["choices"][0]["logprobs"]["content"]
    assert "".join(token["token"] for token in content[:-1]) == item.text
    for token, reference in zip(content, item.logprobs, strict=True):
        assert abs(token["logprob"] - reference) <= GOLDEN.tolerance_logprob
        assert len(token["top_logprobs"]) == 2
        assert token["top_logprobs"][0]["token"] == token["token"]


async def test_streamed_and_complete_log_probabilities_agree(tiny: Stage, session: aiohttp.ClientSession) -> None:
    item = GOLDEN.named("greet")
    asked = {"logprobs": True, "sampling": {"logprobs": 1}}
    whole = await tiny.worker.ask(session, ask(tiny, item, stream=False, **asked))
    parts = await tiny.worker.ask(session, ask(tiny, item, **asked))
    shown = [payload["choices"][0]["logprobs"] for payload in parts.payloads]
    streamed = [token["token"] for part in shown if part for token in part["content"]]
    assert streamed == [token["token"] for token in whole.json["choices"][0]["logprobs"]["content"]]


async def test_an_echo_shows_the_prompts_log_probabilities(tiny: Stage, session: aiohttp.ClientSession) -> None:
    item = GOLDEN.named("greet")
    request = ask(tiny, item, api=Api.COMPLETION, echo=True, logprobs=True, stream=False)
    limits = changed(request.sampling, max_tokens=0, logprobs=1)
    reply = await tiny.worker.ask(session, changed(request, sampling=limits))
    shown = reply.json["choices"][0]["logprobs"]
    assert len(shown["tokens"]) == len(item.prompt_ids)
    assert shown["token_logprobs"][0] is None
    assert all(value <= 0 for value in shown["token_logprobs"][1:])
    assert reply.usage["completion_tokens"] == 0


async def test_a_stop_string_across_tokens_cuts_the_answer(tiny: Stage, session: aiohttp.ClientSession) -> None:
    item = GOLDEN.named("greet")
    stop = item.text[8:14]
    reply = await tiny.worker.ask(session, ask(tiny, item, stop=(stop,)))
    assert (reply.text(), reply.finishes) == (item.text[: item.text.index(stop)], [("stop", stop)])


async def test_what_the_runtime_refuses_is_a_400(tiny: Stage, session: aiohttp.ClientSession) -> None:
    request = ask(tiny, GOLDEN.named("greet"), prompts=(prompt((2**20,), ""),))
    reply = await tiny.worker.ask(session, request)
    assert (reply.status, reply.error["type"]) == (400, "invalid_request_error")


async def test_seeded_choices_differ_and_repeat(tiny: Stage, session: aiohttp.ClientSession) -> None:
    item = GOLDEN.named("greet")
    asked = {"n": 3, "sampling": {"temperature": 1.5, "seed": 11, "max_tokens": 24}}
    first = await tiny.worker.ask(session, ask(tiny, item, **asked))
    again = await tiny.worker.ask(session, ask(tiny, item, **asked))
    texts = [first.text(index) for index in range(3)]
    assert texts == [again.text(index) for index in range(3)]
    assert len(set(texts)) > 1


async def test_cancelled_streams_leave_room_for_others_at_once(tiny: Stage, session: aiohttp.ClientSession) -> None:
    item = max(GOLDEN.items, key=expected_tokens)
    for _ in range(40):  # more than the engine's rows
        endless = ask(tiny, item, "paced", sampling={"max_tokens": 900, "ignore_eos": True})
        async with tiny.worker.open(session, endless) as answer:
            await answer.content.readany()
            answer.close()
    async with asyncio.timeout(20):  # those that were left would go on for longer
        reply = await tiny.worker.ask(session, ask(tiny, item, "paced", sampling={"max_tokens": 4}))
    assert reply.usage["completion_tokens"] == 4
