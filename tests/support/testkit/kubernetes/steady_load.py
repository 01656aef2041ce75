"""Steady load on a release: long paced streams that never pause, and short requests of two kinds beside them.

What goes wrong is kept as sentences. Nothing is tried twice, so a client sees every failure.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import openai
from openai import AsyncOpenAI

from testkit.models.encoder_golden import TOLERANCE, encoder_golden
from testkit.models.golden import Item, load_golden

STREAMS = 20
REQUESTS_PER_S = 5
ANSWER_S = 60.0


@dataclass
class Load:
    """What the load has seen so far."""

    failures: list[str] = field(default_factory=list)
    streaming: int = 0
    """Streams that have begun to answer and have not ended."""
    streams: int = 0
    requests: int = 0
    rankings: int = 0
    began: float = field(default_factory=time.monotonic)

    def fail(self, what: str) -> None:
        """Keep what went wrong, with its time."""
        self.failures.append(f"after {time.monotonic() - self.began:.1f} s: {what}")


@asynccontextmanager
async def steady_load(client: AsyncOpenAI, model: str, reranker: str) -> AsyncIterator[Load]:
    """Load a chat model and the example's reranker beside the body; what is in flight at its end is finished, too."""
    load, stop = Load(), asyncio.Event()
    story = load_golden().named("story")
    ranking = encoder_golden("tiny-reranker")[0]
    async with asyncio.TaskGroup() as tasks:
        for _ in range(STREAMS):
            tasks.create_task(_stream_until(stop, client, model, story, load))
        for ask in (partial(_ask, client, model, load), partial(_rank, client, reranker, ranking, load)):
            tasks.create_task(_ask_until(stop, ask, tasks))
        try:
            yield load
        finally:
            stop.set()


async def _stream_until(stop: asyncio.Event, client: AsyncOpenAI, model: str, story: Item, load: Load) -> None:
    while not stop.is_set():
        await _stream(client, model, story, load)


async def _stream(client: AsyncOpenAI, model: str, story: Item, load: Load) -> None:
    messages: Any = story.messages
    text, reason, began = "", None, False
    try:
        stream = await client.chat.completions.create(
            model=model,
            messages=messages,
            temperature=0,
            stream=True,
            timeout=ANSWER_S,
        )
        async for chunk in stream:
            load.streaming += not began
            began = True
            text += chunk.choices[0].delta.content or ""
            reason = chunk.choices[0].finish_reason or reason
    except openai.APIError as error:
        load.fail(f"a stream {'broke' if began else 'failed'}: {_sentence(error)}, after {text[-40:]!r}")
    else:
        if (text, reason) != (story.text, story.finish_reason):
            load.fail(f"a stream ended with {reason} after {text[-40:]!r}")
    finally:
        load.streaming -= began
        load.streams += 1


async def _ask_until(
    stop: asyncio.Event, ask: Callable[[], Coroutine[Any, Any, None]], tasks: asyncio.TaskGroup
) -> None:
    while not stop.is_set():
        tasks.create_task(ask())
        await asyncio.sleep(1 / REQUESTS_PER_S)


async def _ask(client: AsyncOpenAI, model: str, load: Load) -> None:
    question: Any = {"role": "user", "content": "Hello!"}
    try:
        await client.chat.completions.create(
            model=model,
            messages=[question],
            max_tokens=2,
            timeout=ANSWER_S,
        )
    except openai.APIError as error:
        load.fail(f"a request failed: {_sentence(error)}")
    load.requests += 1


async def _rank(client: AsyncOpenAI, reranker: str, item: dict[str, Any], load: Load) -> None:
    pairs = {"model": reranker, "query": item["query"], "documents": item["documents"]}
    try:
        answer: Any = await client.post("/rerank", body=pairs, cast_to=object, options={"timeout": ANSWER_S})
    except openai.APIError as error:
        load.fail(f"a ranking failed: {_sentence(error)}")
    else:
        scores = {result["index"]: result["relevance_score"] for result in answer["results"]}
        if any(abs(scores.get(index, -1) - score) > TOLERANCE for index, score in enumerate(item["scores"])):
            load.fail(f"a ranking has the scores {scores}")
    load.rankings += 1


def _sentence(error: openai.APIError) -> str:
    cause = f" because of {error.__cause__!r}" if error.__cause__ else ""
    return f"{type(error).__name__}: {error.message}{cause}"
