"""How many tokens an answer to a window may have beside its prompt."""

import pytest

from conch_contracts.messages.transcription import SpeechParameters
from conch_speech_worker.engine.prompts import window_parameters
from testkit.builders.transcriptions import VOCABULARY, transcribe_request

CONTEXT = transcribe_request().target.context


@pytest.mark.parametrize(
    ("asked", "prompt", "room"), [(3, 10, 3), (448, 10, CONTEXT - 10), (448, CONTEXT - 1, 1), (448, CONTEXT + 5, 1)]
)
def test_it_is_what_was_asked_for_or_what_is_left_and_one_at_least(asked, prompt, room):
    request = transcribe_request(parameters=SpeechParameters(max_tokens=asked))
    assert window_parameters(request, prompt, VOCABULARY).max_tokens == room
