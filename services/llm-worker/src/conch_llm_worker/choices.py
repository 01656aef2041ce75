"""The work on one request: each of its choices is one engine call that writes its own part of the answer.

With one choice it runs in the request's own task; with several each has a task, as many run at once as the engine has
slots for the request, and the first that fails ends the others. Nothing is queued between engine and client: a slow
reader stops the reading of the engine's stream.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress

from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.generation import GenerateRequest, PreparedPrompt, Usage
from conch_kit.triton.errors import EngineError, MalformedResponse
from conch_llm_worker.answers import Answer
from conch_llm_worker.dialects.deltas import Dispatch, Reader, TokenDelta
from conch_llm_worker.engine_calls import EngineCalls, Responses
from conch_llm_worker.generation import Finish, Generation, Rules, Step
from conch_llm_worker.parsing.ids import call_ids
from conch_llm_worker.parsing.reader import AnswerReader
from conch_llm_worker.reading import Reading
from conch_llm_worker.text_generation import TextGeneration
from conch_llm_worker.vocabulary import Vocabulary

AnyGeneration = Generation | TextGeneration

_LAST_WORD_S = 0.5
"""How long an engine may take to end its stream after the last token."""


class Choices:
    """All choices of one request."""

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary, engines: EngineCalls, answer: Answer) -> None:
        self._request = request
        self._vocabulary = vocabulary
        self._rules = Rules.of(request, vocabulary)
        self._engines = engines
        self._answer = answer
        self._count = len(request.prompts) * request.n
        self._generations: dict[int, AnyGeneration] = {}
        self._readings: list[Reading] = []

    async def run(self) -> None:
        """Run every choice to its end; raise the first failure."""
        if self._count == 1:
            await self._run(0)
            return
        try:
            async with asyncio.TaskGroup() as group:
                slots = asyncio.Semaphore(max(1, self._request.target.slots))
                for index in range(self._count):
                    group.create_task(self._run_in(slots, index))
        except BaseExceptionGroup as failures:
            raise _first(failures) from None

    def usage(self) -> Usage:
        """Return what the request has used so far; a prompt counts once, however many choices it has."""
        return Usage(
            prompt_tokens=sum(len(prompt.ids) for prompt in self._request.prompts),
            completion_tokens=sum(generation.completion_tokens for generation in self._generations.values()),
            reasoning_tokens=self._reasoning_tokens(),
        )

    async def _run_in(self, slots: asyncio.Semaphore, index: int) -> None:
        async with slots:
            await self._run(index)

    async def _run(self, index: int) -> None:
        request = self._request
        if request.sampling.max_tokens == 0 and not request.logprobs:
            echo = Generation(self._rules, self._vocabulary, self._echoed(index)).echo(None)
            await self._answer.add(index, echo._replace(finish=Finish("length")))
            return
        try:
            await self._generate(index)
        except EngineError:
            self._engines.forget(request)
            raise

    async def _generate(self, index: int) -> None:
        call = await self._engines.prepare(self._request, index, self._vocabulary)
        generation = self._generations[index] = self._generation(call, index)
        async with aclosing(self._engines.responses(self._request, call)) as responses:
            with self._engines.span("wait"):
                opening = await anext(aiter(responses), None)
            if opening is None:
                raise MalformedResponse("The engine's stream is empty.")
            with self._engines.span("work"):
                finish = await self._write(index, generation, call.reader, opening, responses)
                if not self._cut_short(call, generation, finish):
                    await _last_word(responses)

    def _generation(self, call: Dispatch, index: int) -> AnyGeneration:
        echoed = self._echoed(index)
        if call.text:
            return TextGeneration(self._request, self._rules, self._vocabulary, echoed)
        return Generation(self._rules, self._vocabulary, echoed)

    def _echoed(self, index: int) -> PreparedPrompt | None:
        return self._request.prompts[index // self._request.n] if self._request.echo else None

    async def _write(
        self, index: int, generation: AnyGeneration, reader: Reader, opening: ModelInferResponse, responses: Responses
    ) -> Finish:
        """Add what each message brings to the answer until one of them ends it."""
        answer, delta = self._answer, reader.read(opening)
        if self._request.echo:
            await answer.add(index, generation.echo(delta.prompt))
        feed = self._feeding(generation)
        step = feed(delta)
        await answer.add(index, step)
        if step.finish is not None:
            return step.finish
        async for response in responses:
            step = feed(reader.read(response))
            if step.text or step.entries or step.events or step.finish is not None:
                await answer.add(index, step)
            if step.finish is not None:
                return step.finish
        raise MalformedResponse("The engine's stream ended without a reason.")

    def _feeding(self, generation: AnyGeneration) -> Callable[[TokenDelta], Step]:
        """Return what takes the engine's messages: the choice itself, or the reader of its text."""
        parsing = self._request.parsing
        if parsing is None:
            return generation.feed
        reading = Reading(generation, AnswerReader(parsing, call_ids(parsing)))
        self._readings.append(reading)
        return reading.feed

    def _reasoning_tokens(self) -> int | None:
        parsing = self._request.parsing
        if parsing is None or parsing.thinking is None:
            return None
        return sum(reading.reasoning_tokens for reading in self._readings)

    def _cut_short(self, call: Dispatch, generation: AnyGeneration, finish: Finish) -> bool:
        """Tell whether the engine would go on if it were let: it may not know the string that ended the answer."""
        if not isinstance(finish.stop_reason, str) or generation.completion_tokens >= self._request.sampling.max_tokens:
            return False
        return not call.told_words or finish.stop_reason in self._request.stop


async def _last_word(responses: Responses) -> None:
    """Let an engine that is done say so: Triton 24.10 crashes when a cancellation meets its final response."""
    with suppress(TimeoutError, EngineError):
        async with asyncio.timeout(_LAST_WORD_S):
            async for _ in responses:
                pass


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure inside a group."""
    failure: BaseException = failures
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
