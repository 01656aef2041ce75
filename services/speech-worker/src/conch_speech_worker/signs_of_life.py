"""Tells the gateway now and then that engines work, while there is nothing to show."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from conch_speech_worker.transcript_writer import TranscriptWriter

_LOOK_EVERY_S = 0.5


class SignsOfLife:
    """Notes the messages of engines, and has the answer say so."""

    def __init__(self) -> None:
        self._seen = False

    def note(self) -> None:
        """Take note of a message."""
        self._seen = True

    @asynccontextmanager
    async def telling(self, answer: TranscriptWriter) -> AsyncIterator[None]:
        """Have `answer` tell of what is noted while the body runs."""
        task = asyncio.create_task(self._tell(answer))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _tell(self, answer: TranscriptWriter) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if self._seen:
                self._seen = False
                await answer.working()
