import pytest

from conch_contracts.messages.message import changed
from conch_contracts.records import Dialect
from conch_kit.errors import UpstreamError
from conch_kit.triton.client import TritonClient
from conch_speech_worker.engine.calls import calls_for
from conch_speech_worker.engine.speech import SpeechCalls
from conch_speech_worker.engine.whisper_bls import WhisperCalls
from testkit.builders.transcriptions import VOCABULARY, transcribe_request


def calls(dialect: Dialect) -> object:
    request = transcribe_request()
    spoken = changed(request, target=changed(request.target, dialect=dialect, window_tokens=50))
    return calls_for(TritonClient(), spoken, VOCABULARY, lambda: None)


def test_each_dialect_has_its_own_calls() -> None:
    assert isinstance(calls(Dialect.SPEECH), SpeechCalls)
    assert isinstance(calls(Dialect.WHISPER_BLS), WhisperCalls)
    with pytest.raises(UpstreamError, match="does not speak the vllm dialect"):
        calls(Dialect.VLLM)
