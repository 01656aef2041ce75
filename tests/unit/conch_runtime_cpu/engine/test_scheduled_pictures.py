"""Prompts with pictures in the scheduler, on the model that adds up; a picture of value v is four features of v."""

import gc
from collections.abc import Mapping
from weakref import ReferenceType, ref

import numpy as np
import pytest

from conch_contracts.messages.generation import SamplingParameters
from conch_runtime_cpu.engine.request_key import RequestKey
from conch_runtime_cpu.engine.scheduler import PREFILL_CHUNK, FinishReason, Scheduler, SequenceEvent
from conch_runtime_cpu.engine.vision import Features, Pixels, SeenPictures
from conch_runtime_cpu.pictures import ShownPicture
from conch_runtime_cpu.requests import GenerationRequest
from testkit.models.sum_model import VOCABULARY, SumModel

FEATURES, IMAGE = 4, 99
ONE_BYTES = FEATURES * 4


class Run:
    """Collects what a scheduler does, step by step."""

    def __init__(self, slots: int = 2, most_bytes: int = 100 * ONE_BYTES) -> None:
        self.computed: list[int] = []
        self.features: list[ReferenceType[Features]] = []
        self.pixels: list[ReferenceType[Pixels]] = []
        self.counted = 0
        self.seen = SeenPictures(self._compute, most_bytes, self._count)
        self.scheduler = Scheduler(SumModel(slots), self.seen)
        self.tokens: dict[int, list[int]] = {}
        self.ended: dict[int, SequenceEvent] = {}

    def add(self, key: int, prompt: list[int], pictures: Mapping[int, int], max_tokens: int = 3) -> None:
        """Add a request; its pictures are values by where they begin."""
        ids = np.array(prompt, np.int64)
        for start in pictures:
            assert (ids[start : start + FEATURES] == IMAGE).all()
        shown = tuple(
            ShownPicture(np.full((1, 1, 3), value, np.uint8), start, str(value).encode())
            for start, value in pictures.items()
        )
        sampling = SamplingParameters(max_tokens=max_tokens, temperature=0.0)
        self.scheduler.add(RequestKey(key), GenerationRequest(ids, sampling, 0, pictures=shown))

    def step(self) -> None:
        for event in self.scheduler.step():
            if event.token is not None:
                self.tokens.setdefault(event.key, []).append(event.token)
            if event.finish is not None:
                self.ended[event.key] = event

    def drain(self) -> None:
        while not self.scheduler.idle:
            self.step()

    def _compute(self, pixels: Pixels) -> Features:
        value = int(pixels[0, 0, 0])
        self.computed.append(value)
        features = np.full((FEATURES, 1), value, np.float32)
        self.features.append(ref(features))
        self.pixels.append(ref(pixels))
        return features

    def _count(self) -> None:
        self.counted += 1


def shown(*parts: int | list[int]) -> tuple[list[int], list[int], dict[int, int]]:
    """Return a prompt, what the model sees in it, and its pictures; a number is a picture of that value."""
    prompt: list[int] = []
    seen: list[int] = []
    pictures = {}
    for part in parts:
        if isinstance(part, int):
            pictures[len(prompt)] = part
            prompt += [IMAGE] * FEATURES
            seen += [part] * FEATURES
        else:
            prompt += part
            seen += part
    return prompt, seen, pictures


def expected(seen: list[int], count: int = 3) -> list[int]:
    tokens = list(seen)
    for _ in range(count):
        tokens.append(sum(tokens) % VOCABULARY)
    return tokens[len(seen) :]


@pytest.mark.parametrize(
    "parts",
    [
        (7, [1, 2]),
        ([1, 2], 7),
        ([1], 7, 8, [2], 7),
        ([1] * (PREFILL_CHUNK - 2), 5, [1] * (2 * PREFILL_CHUNK), 6, [2]),
        ([1] * (3 * PREFILL_CHUNK - 4), 5),
    ],
)
def test_pictures_are_seen_wherever_they_stand(parts: tuple[int | list[int], ...]) -> None:
    run = Run()
    prompt, seen, pictures = shown(*parts)
    run.add(1, prompt, pictures)
    run.add(2, [3, 4], {})
    run.drain()
    assert run.tokens == {1: expected(seen), 2: expected([3, 4])}


def test_many_requests_with_and_without_pictures_each_get_their_own_text() -> None:
    random = np.random.default_rng(1)
    run = Run(slots=4, most_bytes=3 * ONE_BYTES)
    wanted = {}
    for key in range(40):
        texts = [random.integers(1, 90, random.integers(1, 90)).tolist() for _ in range(random.integers(1, 6))]
        parts = [int(random.integers(1, 9)) if random.random() < 0.4 else text for text in texts]
        prompt, seen, pictures = shown(*parts)
        count = int(random.integers(1, 20))
        wanted[key] = expected(seen, count)
        run.add(key, prompt, pictures, count)
        for _ in range(int(random.integers(0, 4))):
            run.step()
    run.drain()
    assert run.tokens == wanted
    assert run.counted == len(run.computed) > 8  # the cache is too small for all


def test_a_running_request_goes_on_between_pictures() -> None:
    run = Run()
    run.add(1, [1], {}, max_tokens=50)
    run.step()
    prompt, seen, pictures = shown(5, 6, 7, [1])
    run.add(2, prompt, pictures)
    for count in (1, 2, 3):
        run.step()
        assert len(run.computed) == count
        assert len(run.tokens[1]) == count + 1
        assert 2 not in run.tokens
    run.step()
    assert run.tokens[2] == expected(seen, 1)


def test_a_picture_that_is_kept_costs_no_step() -> None:
    run = Run()
    prompt, seen, pictures = shown(5, [1], 5)
    run.add(1, prompt, pictures)
    run.drain()
    assert run.computed == [5]
    run.add(2, prompt, pictures)
    run.step()
    assert run.tokens[2] == expected(seen, 1)
    assert run.computed == [5]


@pytest.mark.parametrize(("most", "computed"), [(0, [5, 6, 5, 5, 7, 6, 5]), (2, [5, 6, 7, 6, 5]), (3, [5, 6, 7])])
def test_the_pictures_used_last_are_kept_within_the_limit(most: int, computed: list[int]) -> None:
    run = Run(most_bytes=most * ONE_BYTES)
    for key, value in enumerate((5, 6, 5, 5, 7, 6, 5)):
        prompt, seen, pictures = shown([1], value)
        run.add(key, prompt, pictures)
        run.drain()
        assert run.tokens[key] == expected(seen)
    assert run.computed == computed


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_request_is_cancelled_between_its_pictures(steps: int) -> None:
    run = Run()
    run.add(1, [5], {}, max_tokens=20)
    prompt, seen, pictures = shown(6, 7, 8, [1])
    run.add(2, prompt, pictures)
    for _ in range(steps):
        run.step()
    run.scheduler.cancel(RequestKey(2))
    run.step()
    finish = run.ended[2].finish
    assert finish is not None
    assert finish.reason is FinishReason.CANCELLED
    assert len(run.computed) <= steps
    run.add(3, prompt, pictures)
    run.drain()
    assert run.tokens == {1: expected([5], 20), 3: expected(seen)}


def test_a_long_answer_holds_neither_pictures_nor_features() -> None:
    run = Run(most_bytes=0)
    prompt, _, pictures = shown(5, 6, [1])
    run.add(1, prompt, pictures, max_tokens=500)
    while 1 not in run.tokens:
        run.step()
    gc.collect()
    assert [kept() for kept in run.features] == [None, None]
    assert [kept() for kept in run.pixels] == [None, None]


def test_a_prompt_with_pictures_is_scored() -> None:
    run = Run()
    prompt, _, pictures = shown([1], 5, [2, 3])
    sampling = SamplingParameters(max_tokens=0, temperature=0.0, prompt_logprobs=1)
    picture = ShownPicture(np.full((1, 1, 3), 5, np.uint8), *pictures, b"5")
    run.scheduler.add(RequestKey(1), GenerationRequest(np.array(prompt), sampling, 0, pictures=(picture,)))
    events = [*run.scheduler.step(), *run.scheduler.step()]
    (rows,) = (event.prompt for event in events if event.prompt is not None)
    assert rows.top_ids[:, 0].tolist() == [1, 6, 11, 16, 21, 23]
