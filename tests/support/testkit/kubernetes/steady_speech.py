"""Files that are transcribed one after another, whole and as streams, beside whatever happens to a release.

What goes wrong is kept as sentences. Nothing is tried twice, so a client sees every failure.
"""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import openai
import soundfile
from openai import AsyncOpenAI

CLIENTS = 4
WINDOW_S, WINDOWS = 30, 12
ANSWER_S = 60.0


@dataclass
class Load:
    """What the load has seen so far."""

    failures: list[str] = field(default_factory=list)
    answers: int = 0


def repeated(wav: Path) -> bytes:
    """Return a file of several windows, each of which begins with what a wav says."""
    said, rate = soundfile.read(wav, dtype="int16")
    window = np.zeros(WINDOW_S * rate, np.int16)
    window[: len(said)] = said
    file = io.BytesIO()
    soundfile.write(file, np.tile(window, WINDOWS), rate, format="FLAC")
    return file.getvalue()


@asynccontextmanager
async def steady_speech(client: AsyncOpenAI, model: str, wav: Path, language: str) -> AsyncIterator[Load]:
    """Have a file transcribed beside the body; what is in flight at its end is finished, so all of it counts."""
    file, load, stop = repeated(wav), Load(), asyncio.Event()
    expected = await _transcribed(client, model, file, language, stream=False)
    assert expected

    async def ask_until(*, stream: bool) -> None:
        while not stop.is_set():
            try:
                heard = await _transcribed(client, model, file, language, stream=stream)
            except openai.APIError as error:
                load.failures.append(f"{type(error).__name__}: {error.message}")
            else:
                load.answers += 1
                load.failures += [] if heard == expected else [f"heard {heard!r}"]

    async with asyncio.TaskGroup() as tasks:
        for number in range(CLIENTS):
            tasks.create_task(ask_until(stream=number % 2 == 1))
        try:
            yield load
        finally:
            stop.set()


async def _transcribed(client: AsyncOpenAI, model: str, file: bytes, language: str, *, stream: bool) -> str:
    named = ("said.flac", file)
    if not stream:
        answer = await client.audio.transcriptions.create(model=model, language=language, file=named, timeout=ANSWER_S)
        return answer.text
    events = await client.audio.transcriptions.create(
        model=model, language=language, file=named, stream=True, timeout=ANSWER_S
    )
    deltas, whole = "", None
    async for event in events:
        if event.type == "transcript.text.delta":
            deltas += event.delta
        elif event.type == "transcript.text.done":
            whole = event.text
    return deltas if deltas == whole else f"deltas {deltas!r} of {whole!r}"
