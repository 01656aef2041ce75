"""Which dialect an engine is spoken with in; each has a module of its own here."""

from collections.abc import Callable, Sequence
from typing import Protocol

from conch_contracts.messages.transcription import TranscribeRequest
from conch_contracts.records import Dialect
from conch_kit.errors import UpstreamError
from conch_kit.triton.client import TritonClient
from conch_speech_worker.engine.speech import SpeechCalls
from conch_speech_worker.engine.whisper_bls import WhisperCalls
from conch_speech_worker.transcript.segments import HeardWindow
from conch_speech_worker.vocabulary import TranscriptVocabulary
from conch_speech_worker.windows.loudness import Samples


class WindowCalls(Protocol):
    """Makes the engine calls of one request."""

    async def hear(self, samples: Samples, prompt: Sequence[int], timeout_s: float) -> HeardWindow:
        """Return what one window holds; raises EngineError. Whoever is cancelled in it has cancelled the call."""
        ...


def calls_for(
    triton: TritonClient, request: TranscribeRequest, vocabulary: TranscriptVocabulary, alive: Callable[[], None]
) -> WindowCalls:
    """Return what speaks with the request's engine; `alive` hears of each message of an engine.

    Raises InvalidRequest for what its dialect cannot express.
    """
    match request.target.dialect:
        case Dialect.SPEECH:
            return SpeechCalls(triton, request, vocabulary, alive)
        case Dialect.WHISPER_BLS:
            return WhisperCalls(triton, request, vocabulary, alive)
        case other:
            raise UpstreamError(f"This worker does not speak the {other} dialect.")
