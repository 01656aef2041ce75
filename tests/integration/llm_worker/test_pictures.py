"""Pictures from a worker to the cpu runtime: tiny-chat with random eyes, whose answers to text alone are known."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from conch_contracts.messages.generation import GenerateRequest, PreparedPicture, PreparedPrompt
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.messages.message import changed
from conch_contracts.names import bundle_key
from conch_kit.bundles.archive import pack
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository
from testkit.builders.generate_requests import generate_request, prompt, sampling, target
from testkit.models.golden import FOLDER, load_golden
from testkit.models.random_llava import RandomLlava, random_picture, write_around
from testkit.processes.llm_worker import Reply
from testkit.servers.triton import triton_server, write_repository

from .conftest import Stage

EOS = (2041, 2039)
GOLDEN = load_golden()
IMAGE_TOKEN = 2000
SCORED: dict[str, Any] = {"logprobs": True, "sampling": {"logprobs": 0}}
LLAVA = RandomLlava(side=336)
"""A picture has the size of those of LLaVA 1.5, 339 kB, and nine ids."""


@pytest.fixture(scope="module")
def sight(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("sight")
    where = write_around(folder / "eyes", FOLDER, LLAVA, IMAGE_TOKEN)
    for name, path in (("seeing", where), ("blind", FOLDER)):
        model = CpuModel(name, str(path), str(folder / "cache"), sees=path is where)
        write_repository(render_cpu_repository(model), folder / "models")
    digest, data = pack(FOLDER)
    stage.redis.command("SET", bundle_key(digest), data)
    with triton_server(folder / "models", "seeing", "blind", folder=folder) as triton:
        yield replace(stage, triton=triton, digest=digest)


def ask(stage: Stage, *prompts: PreparedPrompt, model: str = "seeing", **changes: Any) -> GenerateRequest:
    limits = {"max_tokens": 20, "eos_token_ids": EOS, **changes.pop("sampling", {})}
    fields = {
        "target": target(grpc=stage.triton.grpc, model=model, tokenizer_digest=stage.digest, slots=4),
        "prompts": prompts,
        "sampling": sampling(**limits),
        "stream": True,
    }
    return generate_request(**fields | changes)


def shown(*parts: int | list[int], salt: str = "") -> PreparedPrompt:
    """Return a prompt; a number is the seed of a picture."""
    ids: list[int] = []
    pictures = []
    for part in parts:
        if isinstance(part, int):
            data = random_picture(part, LLAVA.side).tobytes()
            place = {"start": len(ids), "length": LLAVA.features, "digest": f"{part}{salt}"}
            pictures.append(PreparedPicture(data=data, height=LLAVA.side, width=LLAVA.side, **place))
            ids += [IMAGE_TOKEN] * LLAVA.features
        else:
            ids += part
    return changed(prompt(ids, ""), pictures=tuple(pictures))


def logprobs(reply: Reply) -> tuple[float, ...]:
    payloads = reply.payloads if reply.frames else [reply.json]
    shown = [choice["logprobs"] for payload in payloads for choice in payload.get("choices", ())]
    return tuple(token["logprob"] for part in shown if part for token in part["content"])


def runs(stage: Stage) -> int:
    return stage.triton.counted("conch_cpu_vision_runs_total", "seeing")


GREET = GOLDEN.named("greet").prompt_ids


async def test_text_alone_has_every_reference_answer(sight: Stage, session: aiohttp.ClientSession) -> None:
    items = GOLDEN.items
    asked = [ask(sight, prompt(item.prompt_ids, ""), sampling={"max_tokens": 200}) for item in items]
    replies = await asyncio.gather(*(sight.worker.ask(session, one) for one in asked))
    for item, reply in zip(items, replies, strict=True):
        assert (reply.text(), reply.finishes) == (item.text, [(item.finish_reason, None)]), item.name


@pytest.mark.parametrize("stream", [False, True])
async def test_a_picture_changes_the_answer(sight: Stage, session: aiohttp.ClientSession, stream: bool) -> None:
    asked = (shown(1, GREET), shown(2, GREET), shown(1, GREET), shown(GREET))
    replies = [await sight.worker.ask(session, ask(sight, one, stream=stream, **SCORED)) for one in asked]
    found = [logprobs(reply) for reply in replies]
    assert found[0] == found[2]
    assert len(set(found)) == 3
    assert replies[0].usage["prompt_tokens"] == len(GREET) + LLAVA.features


async def test_many_large_pictures_arrive_whole(sight: Stage, session: aiohttp.ClientSession) -> None:
    before = runs(sight)
    one = ask(sight, shown(*range(10, 18), GREET), stream=False, **SCORED)
    assert (await sight.worker.ask(session, one)).status == 200  # 2.7 MB in one message
    assert runs(sight) == before + 8


async def test_every_choice_sees_and_the_picture_is_computed_once(sight: Stage, session: aiohttp.ClientSession) -> None:
    before = runs(sight)
    seeded = {"temperature": 1.5, "seed": 3}
    reply = await sight.worker.ask(session, ask(sight, shown(20, GREET), n=3, sampling=seeded))
    assert runs(sight) == before + 1
    alone = [
        await sight.worker.ask(session, ask(sight, shown(20, GREET), sampling={**seeded, "seed": 3 + k}))
        for k in range(3)
    ]
    assert [reply.text(k) for k in range(3)] == [one.text() for one in alone]
    best = await sight.worker.ask(session, ask(sight, shown(20, GREET), best_of=2, sampling=seeded, stream=False))
    assert best.status == 200
    assert runs(sight) == before + 1


async def test_an_answer_about_a_picture_keeps_to_a_grammar(sight: Stage, session: aiohttp.ClientSession) -> None:
    digits = Grammar(kind=GrammarKind.REGEX, definition="[0-9]{3}")
    reply = await sight.worker.ask(session, ask(sight, shown(1, GREET), sampling={"grammar": digits}))
    assert re.fullmatch("[0-9]{3}", reply.text())


async def test_each_of_several_prompts_has_its_own_pictures(sight: Stage, session: aiohttp.ClientSession) -> None:
    prompts = (shown(1, GREET), shown(GREET), shown(GREET[:5], 2, GREET[5:], 1))
    together = await sight.worker.ask(session, ask(sight, *prompts))
    apart = [await sight.worker.ask(session, ask(sight, one)) for one in prompts]
    assert [together.text(k) for k in range(3)] == [one.text() for one in apart]


async def test_a_picture_that_does_not_fit_is_a_400_of_the_prompt(sight: Stage, session: aiohttp.ClientSession) -> None:
    whole = shown(1, GREET)
    (picture,) = whole.pictures
    for wrong in (changed(picture, start=3), changed(picture, height=1, data=picture.data[: 336 * 3])):
        reply = await sight.worker.ask(session, ask(sight, changed(whole, pictures=(wrong,))))
        assert (reply.status, reply.error["param"], reply.error["code"]) == (400, "messages", "invalid_value")
        assert "picture 0" in reply.error["message"]


async def test_a_model_without_eyes_refuses_a_picture(sight: Stage, session: aiohttp.ClientSession) -> None:
    reply = await sight.worker.ask(session, ask(sight, shown(1, GREET), model="blind"))
    assert (reply.status, reply.error["param"], reply.error["code"]) == (400, "messages", "unsupported_parameter")


async def test_a_client_that_goes_leaves_room(sight: Stage, session: aiohttp.ClientSession) -> None:
    for seed in range(20):  # more than the engine's rows
        endless = ask(sight, shown(seed, GREET), sampling={"max_tokens": 900, "ignore_eos": True})
        async with sight.worker.open(session, endless) as answer:
            await answer.content.readany()
            answer.close()
    reply = await sight.worker.ask(session, ask(sight, shown(1, GREET), sampling={"max_tokens": 4}))
    assert reply.usage["completion_tokens"] == 4
