"""The work on one request: each of its choices is one engine call that writes its own part of the answer.

With one choice it runs in the request's own task; with several each has a task, as many run at once as the engine has
slots for the request, and the first that fails soon ends the others. Nothing is queued between engine and client: a
slow reader stops the reading of the engine's stream. An answer that has ended does not wait for the end of that stream.
The beams of a search are choices that one call makes together.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from math import inf

from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.messages.generation import Api, GenerateRequest, PreparedPrompt, Usage
from conch_contracts.messages.message import changed
from conch_kit.side_by_side import together
from conch_kit.timed_waits import wait_at_most
from conch_kit.triton.errors import EngineError, MalformedResponse
from conch_kit.triton.tensors import is_final
from conch_llm_worker.answer_writer import AnswerWriter
from conch_llm_worker.dialects.engine_call import DeltaReader, EngineCall
from conch_llm_worker.dialects.token_deltas import TokenDelta, split, split_text
from conch_llm_worker.engine.calls import EngineCalls, Responses
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate
from conch_llm_worker.generation.id_generation import IdGeneration, prompt_entries
from conch_llm_worker.generation.parsed_generation import Generation, ParsedGeneration
from conch_llm_worker.generation.text_generation import TextGeneration
from conch_llm_worker.text.vocabulary import Vocabulary

_END_OF_STREAM_S = 5.0
"""How long an engine may take to end its stream after the last token: longer than a pause of its machine.

Nobody waits for it."""
_CUT_SHORT_S = 0.05
"""How long it may take when only the worker knows that the answer has ended; then its request is cancelled."""
_FAIL_TOGETHER_S = 0.3
"""How long those that still run may take to end by themselves when one has failed: most often they fail as well, and
Triton 24.10 crashes when a cancellation meets an engine's error."""


_PART_TOKENS = 32
_PART_CHARS = 2048
"""What is taken at a time of a message, in tokens or characters: an engine may send a whole answer at once."""
_TURN_S = 0.005
"""How long one message is read before the other requests have a turn."""


class Choices:
    """All choices of one request."""

    def __init__(
        self, request: GenerateRequest, vocabulary: Vocabulary, engines: EngineCalls, answer: AnswerWriter
    ) -> None:
        self._request = request
        self._details = request.details
        self._vocabulary = vocabulary
        self._rules = ChoiceRules.of(request, vocabulary)
        self._engines = engines
        self._answer = answer
        self._width = request.sampling.beams or 1
        self._calls = len(request.prompts) * request.candidates // self._width
        self._generations: dict[int, Generation] = {}
        self._parsed: list[ParsedGeneration] = []
        self._entries_of_texts = request.api is Api.RESPONSES and request.logprobs and request.parsing is not None
        """Whether log probabilities are shown of texts alone: then tokens are read one by one, however they come."""
        self._under_way = 0
        self._failure: EngineError | None = None
        self._none_under_way = asyncio.Event()

    async def run(self) -> None:
        """Run every choice to its end; raise the first failure."""
        if self._calls == 1:
            await self._run(0)
            return
        slots = asyncio.Semaphore(max(1, self._request.target.slots // self._width))
        try:
            await together(*(self._run_in(slots, call * self._width) for call in range(self._calls)))
        except EngineError as error:
            raise self._failure or error from None

    def usage(self) -> Usage:
        """Return what the request has used so far; a prompt counts once, however many choices it has."""
        return Usage(
            prompt_tokens=sum(len(prompt.ids) for prompt in self._request.prompts),
            completion_tokens=sum(generation.completion_tokens for generation in self._generations.values()),
            reasoning_tokens=self._reasoning_tokens(),
        )

    async def _run_in(self, slots: asyncio.Semaphore, index: int) -> None:
        async with slots:
            if self._failure is not None:
                return
            self._under_way += 1
            try:
                await self._run(index)
            except EngineError as error:
                self._failure = self._failure or error
                self._end_one()
                await wait_at_most(self._none_under_way, _FAIL_TOGETHER_S)
                raise
            self._end_one()

    def _end_one(self) -> None:
        self._under_way -= 1
        if self._under_way == 0:
            self._none_under_way.set()

    async def _run(self, index: int) -> None:
        request = self._request
        if request.sampling.max_tokens == 0 and not request.logprobs and request.sampling.prompt_logprobs is None:
            for choice in range(index, index + self._width):
                echo = IdGeneration(self._rules, self._vocabulary, self._beginning(choice)).echo(None)
                await self._answer.add(choice, echo._replace(finish=ChoiceFinish("length")))
            return
        try:
            await self._generate(index)
        except EngineError:
            self._engines.forget(request)
            raise

    async def _generate(self, index: int) -> None:
        call = await self._engines.prepare(self._request, index, self._vocabulary)
        if call.beam_readers:
            await self._search(index, call)
            return
        generation = self._generations[index] = self._generation(call, index)
        responses = self._engines.responses(self._request, call)
        try:
            finish = await self._answer_with(index, generation, call.reader, responses)
        except BaseException:
            await responses.aclose()
            raise
        # No cancellation of an engine that is done: Triton 24.10 crashes when one meets its final response.
        responses.finish_in_background(_CUT_SHORT_S if self._cut_short(call, generation, finish) else _END_OF_STREAM_S)

    async def _search(self, first: int, call: EngineCall) -> None:
        """Make the call of a search and write its beams as choices; nothing before its last message is certain."""
        responses = self._engines.responses(self._request, call)
        try:
            with self._engines.span("wait"):
                last = await _last(responses, streamed=call.streamed)
            for index, reader in enumerate(call.beam_readers, first):
                generation = self._generations[index] = self._generation(call, index)
                await self._open(index, generation, self._feeding(generation), reader.read(last))
        except BaseException:
            await responses.aclose()
            raise
        responses.finish_in_background(_END_OF_STREAM_S)

    async def _answer_with(
        self, index: int, generation: Generation, reader: DeltaReader, responses: Responses
    ) -> ChoiceFinish:
        with self._engines.span("wait"):
            opening = await anext(aiter(responses), None)
        if opening is None:
            raise MalformedResponse("The engine's stream is empty.")
        with self._engines.span("work"):
            return await self._write(index, generation, reader, opening, responses)

    def _generation(self, call: EngineCall, index: int) -> Generation:
        beginning = self._beginning(index)
        if call.answers_text:
            return TextGeneration(self._request, self._rules, self._vocabulary, beginning)
        return IdGeneration(self._rules, self._vocabulary, beginning)

    def _beginning(self, index: int) -> PreparedPrompt | None:
        """Return what a choice's text begins with before the engine adds to it."""
        if self._request.echo:
            return self._prompt(index)
        prefix = "" if self._details is None else self._details.prefix
        return PreparedPrompt(ids=(), text=prefix) if prefix else None

    def _prompt(self, index: int) -> PreparedPrompt:
        return self._request.prompts[index // self._request.candidates]

    async def _write(
        self,
        index: int,
        generation: Generation,
        reader: DeltaReader,
        opening: ModelInferResponse,
        responses: Responses,
    ) -> ChoiceFinish:
        """Add what each message brings to the answer until one of them ends it."""
        feed = self._feeding(generation)
        finish = await self._open(index, generation, feed, reader.read(opening))
        if finish is not None:
            return finish
        async for response in responses:
            finish = await self._add(index, feed, reader.read(response))
            if finish is not None:
                return finish
        raise MalformedResponse("The engine's stream ended without a reason.")

    async def _open(
        self, index: int, generation: Generation, feed: Callable[[TokenDelta], ChoiceUpdate], delta: TokenDelta
    ) -> ChoiceFinish | None:
        """Add the first message to the answer, after what comes before it."""
        if generation.echoes:
            await self._answer.add(index, generation.echo(delta.prompt))
        if self._details is not None and self._details.prompt_logprobs is not None:
            entries = prompt_entries(self._prompt(index).ids, delta.prompt, self._details.prompt_logprobs)
            await self._answer.add(index, ChoiceUpdate("", prompt=entries))
        return await self._add(index, feed, delta, opening=True)

    async def _add(
        self, index: int, feed: Callable[[TokenDelta], ChoiceUpdate], delta: TokenDelta, *, opening: bool = False
    ) -> ChoiceFinish | None:
        """Add one message to the answer; the opening one even if it has nothing to show."""
        parts = self._parts(delta)
        ends_s = time.monotonic() + _TURN_S if len(parts) > 1 else inf
        for part in parts:
            if time.monotonic() >= ends_s:
                await asyncio.sleep(0)
                ends_s = time.monotonic() + _TURN_S
            update = feed(part)
            if update.text or update.entries or update.events or update.tokens or opening or update.finish is not None:
                await self._answer.add(index, update)
            else:
                await self._answer.working()
            if update.finish is not None:
                return update.finish
        return None

    def _parts(self, delta: TokenDelta) -> Sequence[TokenDelta]:
        """Return what an engine sent together in pieces of the size that the client wants."""
        wanted = None if self._details is None else self._details.max_frame_tokens
        most = _PART_TOKENS if wanted is None else min(wanted, _PART_TOKENS)
        most = 1 if self._entries_of_texts else most
        if len(delta.ids) > most:
            return split(delta, most)
        if len(delta.text) <= _PART_CHARS or delta.logprobs is not None:
            return (delta,)
        # Where stop strings count from some token on, the text and its tokens belong together.
        whole = self._rules.min_tokens > 0 and bool(self._rules.stop or self._request.backend.stop_words)
        return (delta,) if whole else split_text(delta, _PART_CHARS)

    def _feeding(self, generation: Generation) -> Callable[[TokenDelta], ChoiceUpdate]:
        """Return what takes the engine's messages: the generation itself, or the one that parses its text."""
        parsing = self._request.parsing
        if parsing is None:
            return generation.feed
        if self._request.api is Api.MESSAGES and parsing.thinking is not None:
            # Blocks tell of thinking whose text is not shown: `MessageContent` leaves that out.
            parsing = changed(parsing, thinking=changed(parsing.thinking, show=True))
        parsed = ParsedGeneration.of(
            generation,
            parsing,
            self._vocabulary,
            report_tokens=self._rules.report_tokens,
            entries_of_texts=self._entries_of_texts,
        )
        self._parsed.append(parsed)
        return parsed.feed

    def _reasoning_tokens(self) -> int | None:
        parsing = self._request.parsing
        if parsing is None or parsing.thinking is None:
            return None
        return sum(parsed.reasoning_tokens for parsed in self._parsed)

    def _cut_short(self, call: EngineCall, generation: Generation, finish: ChoiceFinish) -> bool:
        """Tell whether the engine would go on if it were let: it may not know the string that ended the answer."""
        if not isinstance(finish.stop_reason, str) or generation.completion_tokens >= self._request.sampling.max_tokens:
            return False
        return not call.stop_words_sent or finish.stop_reason in self._request.stop


async def _last(responses: Responses, *, streamed: bool) -> ModelInferResponse:
    """Return the last message of a call that holds anything."""
    last = None
    async for response in responses:
        if response.outputs:
            last = response
        if streamed and is_final(response):
            break
    if last is None:
        raise MalformedResponse("The engine's stream is empty.")
    return last
