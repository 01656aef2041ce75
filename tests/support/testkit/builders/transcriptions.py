"""Requests to a speech-worker, and the vocabulary of speech of tones."""

from typing import Any

from conch_contracts.messages.message import changed
from conch_contracts.messages.transcription import SpeechParameters, SpeechTarget, SpeechTask, TranscribeRequest
from conch_contracts.names import Digest, EngineAddress
from conch_contracts.records import Dialect
from conch_speech_worker.vocabulary import TranscriptVocabulary
from testkit.models.tone_speech import tone_tokenizer

VOCABULARY = TranscriptVocabulary(tone_tokenizer())
FIRST_TIME = VOCABULARY.first_time_id


def transcribe_request(**changes: Any) -> TranscribeRequest:
    """Return a request that names English and wants JSON."""
    target = SpeechTarget(
        grpc=EngineAddress("127.0.0.1:1"),
        model="tones",
        dialect=Dialect.SPEECH,
        tokenizer_digest=Digest("0" * 64),
        context=64,
    )
    request = TranscribeRequest(
        request_id="r1",
        model="tones",
        created=1,
        target=target,
        task=SpeechTask.TRANSCRIBE,
        language="en",
        parameters=SpeechParameters(max_tokens=64),
        file_bytes=0,
    )
    return changed(request, **changes)
