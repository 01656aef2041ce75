"""Tells the gateway now and then that engines work, while there is nothing to show."""

from contextlib import AbstractAsyncContextManager

from conch_speech_worker.recurring_calls import calling_every
from conch_speech_worker.transcript_writer import TranscriptWriter

_LOOK_EVERY_S = 0.5


class SignsOfLife:
    """Notes the messages of engines, and has the answer say so."""

    def __init__(self) -> None:
        self._seen = False

    def note(self) -> None:
        """Take note of a message."""
        self._seen = True

    def telling(self, answer: TranscriptWriter) -> AbstractAsyncContextManager[None]:
        """Have `answer` tell of what is noted while the body runs; what it raises then ends the body."""

        async def tell() -> None:
            if self._seen:
                self._seen = False
                await answer.working()

        return calling_every(_LOOK_EVERY_S, tell)
