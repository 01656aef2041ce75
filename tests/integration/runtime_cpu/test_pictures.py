"""A language model that sees, through the real server: its numbers, what it remembers, and what it refuses."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tritonclient.grpc.service_pb2 import ModelInferRequest

from conch_kit.triton.errors import EngineRejected
from conch_kit.triton.tensors import add_input, add_raw
from testkit.engines.tokens_client import SentPicture, TokensEngine, add_pictures, tokens_request
from testkit.models.random_llava import IMAGE_TOKEN, SIDE, random_picture, see, weights
from testkit.models.random_model import Floats, forward_embedded
from testkit.servers.triton import RunningTriton

from .conftest import LLAVA

pytestmark = pytest.mark.asyncio(loop_scope="session")

TENSORS = weights(LLAVA)
BEFORE, AFTER = [3, 1, 4], [1, 5, 9]
GREEDY = {"max_tokens": 12, "ignore_eos": True}


def shown(*parts: int | list[int], salt: str = "") -> tuple[list[int], list[SentPicture]]:
    """Return a prompt with its pictures; a number is the seed of one."""
    prompt: list[int] = []
    pictures = []
    for part in parts:
        if isinstance(part, int):
            pictures.append(SentPicture(random_picture(part), len(prompt), LLAVA.features, f"{part}{salt}"))
            prompt += [IMAGE_TOKEN] * LLAVA.features
        else:
            prompt += part
    return prompt, pictures


def reference(prompt: list[int], pictures: list[SentPicture], count: int) -> list[int]:
    """Return what plain numpy answers."""
    ids = list(prompt)
    for _ in range(count):
        embedded: Floats = TENSORS["model.embed_tokens.weight"][ids].copy()
        for picture in pictures:
            embedded[picture.start : picture.start + picture.length] = see(LLAVA, TENSORS, picture.pixels)
        ids.append(int(forward_embedded(TENSORS, embedded)[-1].argmax()))
    return ids[len(prompt) :]


def vision_runs(server: RunningTriton) -> int:
    return server.counted("conch_cpu_vision_runs_total", "seeing")


@pytest.mark.parametrize("parts", [(BEFORE, 1, AFTER), (1, AFTER), ([4] * 300, 1, [5] * 20, 2, AFTER), (BEFORE, 1, 2)])
async def test_an_answer_is_that_of_the_reference(seeing: TokensEngine, parts: tuple[int | list[int], ...]) -> None:
    prompt, pictures = shown(*parts)
    answer = await seeing.generate(prompt, pictures=pictures, **GREEDY)
    assert answer.tokens == reference(prompt, pictures, 12)


async def test_another_picture_is_another_answer(seeing: TokensEngine) -> None:
    answers = [
        await seeing.generate(prompt, pictures=pictures, max_tokens=1, logprobs=3)
        for prompt, pictures in (shown(BEFORE, seed, AFTER) for seed in (1, 2))
    ]
    assert answers[0].top_logprobs != answers[1].top_logprobs


async def test_a_picture_is_computed_once(seeing: TokensEngine, server: RunningTriton) -> None:
    prompt, pictures = shown(BEFORE, 11, AFTER, 11, salt="once")
    before = vision_runs(server)
    first = await seeing.generate(prompt, pictures=pictures, **GREEDY)
    again = await asyncio.gather(*(seeing.generate(prompt, pictures=pictures, **GREEDY) for _ in range(5)))
    assert vision_runs(server) == before + 1
    assert all(answer.tokens == first.tokens for answer in again)


async def test_text_alone_has_the_answer_of_the_model_without_eyes(
    seeing: TokensEngine, blind: TokensEngine, server: RunningTriton
) -> None:
    before = vision_runs(server)
    for prompt in (BEFORE, [7] * 200):
        answers = [await engine.generate(prompt, logprobs=2, **GREEDY) for engine in (seeing, blind)]
        assert answers[0].tokens == answers[1].tokens
        assert answers[0].logprobs == answers[1].logprobs  # to the last bit
        assert answers[0].top_logprobs == answers[1].top_logprobs
    assert vision_runs(server) == before


async def test_requests_of_every_sort_share_a_batch(seeing: TokensEngine) -> None:
    asked = [
        shown(*parts, salt="batch")
        for parts in [(BEFORE, 1, AFTER), (AFTER,), (2, 1, BEFORE), ([8] * 250, 3), (BEFORE,), (4, AFTER, 5)] * 3
    ]
    answers = await asyncio.gather(
        *(seeing.generate(prompt, pictures=pictures, **GREEDY) for prompt, pictures in asked)
    )
    for (prompt, pictures), answer in zip(asked, answers, strict=True):
        assert answer.tokens == reference(prompt, pictures, 12)


async def test_a_prompt_with_a_picture_is_scored(seeing: TokensEngine) -> None:
    prompt, pictures = shown(BEFORE, 1, AFTER)
    answer = await seeing.generate(prompt, pictures=pictures, max_tokens=0, prompt_logprobs=1)
    embedded = TENSORS["model.embed_tokens.weight"][prompt]
    embedded[pictures[0].start : pictures[0].start + LLAVA.features] = see(LLAVA, TENSORS, pictures[0].pixels)
    logits = forward_embedded(TENSORS, embedded)
    expected = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    assert answer.prompt_logprobs is not None
    scored = expected[np.arange(len(prompt) - 1), prompt[1:]].tolist()
    assert answer.prompt_logprobs[1:] == pytest.approx(scored, abs=1e-3)


async def test_a_cancelled_request_leaves_its_place(paced_seeing: TokensEngine) -> None:
    prompt, pictures = shown(BEFORE, 1, AFTER)
    firsts = [asyncio.Event() for _ in range(16)]
    endless = {"max_tokens": 500, "ignore_eos": True}
    running = [asyncio.create_task(paced_seeing.generate(prompt, one, pictures, **endless)) for one in firsts]
    await asyncio.gather(*(first.wait() for first in firsts))  # all places are taken
    other, shown_there = shown(2, AFTER)
    queued = asyncio.create_task(paced_seeing.generate(other, pictures=shown_there, max_tokens=2, ignore_eos=True))
    running.pop().cancel()
    assert (await queued).tokens == reference(other, shown_there, 2)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _spans(request: ModelInferRequest, pictures: list[SentPicture]) -> None:
    add_pictures(request, [replace(picture, start=picture.start + 1) for picture in pictures])


def _sizes(request: ModelInferRequest, pictures: list[SentPicture]) -> None:
    add_pictures(request, [replace(picture, pixels=picture.pixels[:-1]) for picture in pictures])


def _hashes(request: ModelInferRequest, pictures: list[SentPicture]) -> None:
    add_pictures(request, [replace(picture, digest="") for picture in pictures])


def _alone(request: ModelInferRequest, pictures: list[SentPicture]) -> None:
    add_raw(request, "image_pixels", "UINT8", [SIDE * SIDE * 3], pictures[0].pixels.tobytes())


def _none(request: ModelInferRequest, pictures: list[SentPicture]) -> None:
    add_raw(request, "image_pixels", "UINT8", [0], b"")
    for name, width in (("image_shapes", 3), ("image_spans", 2)):
        add_input(request, name, "INT32", [0, width], [])
    add_raw(request, "image_hashes", "BYTES", [0], b"")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_spans, "INVALID: image_spans: every id of picture 0 must be 63, the image token"),
        (_sizes, "INVALID: image_shapes: picture 0 must be [12, 12, 3]; found [11, 12, 3]"),
        (_hashes, "INVALID: image_hashes: picture 0 has none"),
        (_alone, "INVALID: image_shapes: missing"),
    ],
)
async def test_what_does_not_fit_is_refused_by_name_and_nobody_else_suffers(
    seeing: TokensEngine, spoil: Callable[[ModelInferRequest, list[SentPicture]], None], message: str
) -> None:
    prompt, pictures = shown(BEFORE, 1, AFTER)
    request = tokens_request("seeing", prompt)
    spoil(request, pictures)
    with pytest.raises(EngineRejected, match=re.escape(message)):
        await seeing.ask(request)
    answer = await seeing.generate(prompt, pictures=pictures, max_tokens=2)
    assert answer.tokens == reference(prompt, pictures, 2)


async def test_tensors_without_a_picture_are_no_picture(seeing: TokensEngine) -> None:
    request = tokens_request("seeing", BEFORE, **GREEDY)
    _none(request, [])
    assert (await seeing.ask(request)).tokens == reference(BEFORE, [], 12)


async def test_a_model_without_eyes_takes_no_pictures(blind: TokensEngine) -> None:
    prompt, pictures = shown(BEFORE, 1, AFTER)
    with pytest.raises(EngineRejected, match="INVALID: image_pixels: this model sees no pictures"):
        await blind.generate(prompt, pictures=pictures)
