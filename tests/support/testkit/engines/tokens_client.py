"""Speaks the `tokens` dialect with a real engine and collects whole answers."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc.service_pb2 import ModelInferRequest

from conch_contracts.dialects import tokens as dialect
from conch_contracts.names import EngineAddress
from conch_kit.triton.client import TritonClient
from conch_kit.triton.tensors import Outputs, add_input, add_raw, new_request

T = TypeVar("T", int, float)


@dataclass(frozen=True, slots=True)
class SentPicture:
    """One picture of a prompt, as it is sent."""

    pixels: NDArray[np.uint8]
    start: int
    length: int
    digest: str


@dataclass(slots=True)
class Answer:
    """All that came back for one request."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top_ids: list[tuple[int, ...]] = field(default_factory=list)
    top_logprobs: list[tuple[float, ...]] = field(default_factory=list)
    prompt_logprobs: tuple[float, ...] | None = None
    prompt_ranks: Sequence[int] = ()
    prompt_top_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    stop_token: int | None = None
    messages: int = 0


@dataclass(frozen=True, slots=True)
class TokensEngine:
    """One model on one engine."""

    client: TritonClient
    address: EngineAddress
    model: str

    async def generate(
        self,
        prompt: Sequence[int],
        first: asyncio.Event | None = None,
        pictures: Sequence[SentPicture] = (),
        **parameters: object,
    ) -> Answer:
        """Run one request to its end; sets `first` when tokens have come."""
        request = tokens_request(self.model, prompt, **parameters)
        if pictures:
            add_pictures(request, pictures)
        return await self.ask(request, first)

    async def ask(self, request: ModelInferRequest, first: asyncio.Event | None = None) -> Answer:
        """Send a request as it is."""
        answer = Answer()
        stream = self.client.stream(
            self.address,
            request,
            first_timeout_s=120,
            inter_timeout_s=120,
            timeout_s=120,
        )
        async for response in stream:
            _collect(answer, Outputs(response))
            if answer.tokens and first is not None:
                first.set()
        return answer


def tokens_request(model: str, prompt: Sequence[int], **parameters: object) -> ModelInferRequest:
    """Return a request, greedy unless told otherwise; the parameters are sent as they are, valid or not."""
    sampling = json.dumps({"max_tokens": 200, "temperature": 0.0, **parameters}).encode()
    request = new_request(model, "")
    add_input(request, dialect.INPUT_IDS, "INT32", [len(prompt)], list(prompt))
    add_input(request, dialect.PARAMETERS, "BYTES", [1], [sampling])
    return request


def add_pictures(request: ModelInferRequest, pictures: Sequence[SentPicture]) -> None:
    """Add the tensors of pictures to a request."""
    count = len(pictures)
    pixels = b"".join(picture.pixels.tobytes() for picture in pictures)
    add_raw(request, dialect.IMAGE_PIXELS, "UINT8", [len(pixels)], pixels)
    shapes = [size for picture in pictures for size in picture.pixels.shape]
    add_input(request, dialect.IMAGE_SHAPES, "INT32", [count, 3], shapes)
    spans = [number for picture in pictures for number in (picture.start, picture.length)]
    add_input(request, dialect.IMAGE_SPANS, "INT32", [count, 2], spans)
    add_input(request, dialect.IMAGE_HASHES, "BYTES", [count], [picture.digest.encode() for picture in pictures])


def _collect(answer: Answer, outputs: Outputs) -> None:
    answer.messages += 1
    answer.tokens += outputs.ints(dialect.TOKEN_IDS)
    if outputs.has(dialect.LOGPROBS):
        answer.logprobs += outputs.floats(dialect.LOGPROBS)
    if outputs.has(dialect.TOP_IDS):
        width = outputs.shape(dialect.TOP_IDS)[1]
        answer.top_ids += _rows(outputs.ints(dialect.TOP_IDS), width)
        answer.top_logprobs += _rows(outputs.floats(dialect.TOP_LOGPROBS), width)
    if outputs.has(dialect.PROMPT_LOGPROBS):
        answer.prompt_logprobs = outputs.floats(dialect.PROMPT_LOGPROBS)
    if outputs.has(dialect.PROMPT_RANKS):
        answer.prompt_ranks = outputs.ints(dialect.PROMPT_RANKS)
    if outputs.has(dialect.PROMPT_TOP_IDS):
        answer.prompt_top_ids = outputs.ints(dialect.PROMPT_TOP_IDS)
    if outputs.has(dialect.FINISH_REASON):
        answer.finish_reason = outputs.texts(dialect.FINISH_REASON)[0].decode()
        (answer.stop_token,) = outputs.ints(dialect.STOP_TOKEN_ID)


def _rows(flat: Sequence[T], width: int) -> list[tuple[T, ...]]:
    return [tuple(flat[start : start + width]) for start in range(0, len(flat), width)]
