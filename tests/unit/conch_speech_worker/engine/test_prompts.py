import pytest

from conch_contracts.messages.message import changed
from conch_contracts.messages.transcription import SpeechParameters, SpeechTask
from conch_kit.errors import InvalidRequest
from conch_speech_worker.engine.prompts import candidate_ids, language_id_of, prompt_of, window_parameters
from testkit.builders.transcriptions import VOCABULARY, transcribe_request
from testkit.models.tone_speech import tone_tokenizer

ONE_LANGUAGE = changed(transcribe_request().target, multilingual=False)
CONTEXT = transcribe_request().target.context
TOKENS = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|translate|>", "<|startofprev|>")
START, EN, TRANSCRIBE, TRANSLATE, PREVIOUS = map(tone_tokenizer().token_to_id, TOKENS)


@pytest.mark.parametrize(
    ("changes", "language", "prompt"),
    [
        ({}, None, (START, -1, TRANSCRIBE)),
        ({}, EN, (START, EN, TRANSCRIBE)),
        ({"task": SpeechTask.TRANSLATE}, EN, (START, EN, TRANSLATE)),
        ({"prompt_ids": (1, 2)}, EN, (PREVIOUS, 1, 2, START, EN, TRANSCRIBE)),
        ({"prompt_ids": tuple(range(40))}, EN, (PREVIOUS, *range(9, 40), START, EN, TRANSCRIBE)),
        ({"target": ONE_LANGUAGE}, None, (START,)),
    ],
)
def test_a_prompt_is_what_whisper_takes(changes, language, prompt):
    assert prompt_of(transcribe_request(**changes), language, VOCABULARY) == prompt


def test_a_language_is_one_of_the_models():
    assert language_id_of(transcribe_request(), VOCABULARY) == EN
    assert language_id_of(transcribe_request(language=None), VOCABULARY) is None
    assert language_id_of(transcribe_request(target=ONE_LANGUAGE), VOCABULARY) is None
    with pytest.raises(InvalidRequest, match="'fr'") as refusal:
        language_id_of(transcribe_request(language="fr"), VOCABULARY)
    assert refusal.value.param == "language"


def test_a_language_may_be_among_those_of_the_model_alone():
    assert candidate_ids(transcribe_request(languages=("de",)), VOCABULARY) == (VOCABULARY.languages["de"],)
    with pytest.raises(InvalidRequest, match="'xx'") as refusal:
        candidate_ids(transcribe_request(languages=("de", "xx")), VOCABULARY)
    assert refusal.value.param == "languages"


def test_an_answer_has_the_room_that_its_prompt_leaves():
    request = transcribe_request(words=True, languages=("de",), parameters=SpeechParameters(max_tokens=448))
    found = window_parameters(request, 10, VOCABULARY)
    assert (found.max_tokens, found.word_times, found.languages) == (54, True, (VOCABULARY.languages["de"],))


@pytest.mark.parametrize(
    ("asked", "prompt", "room"), [(3, 10, 3), (448, 10, CONTEXT - 10), (448, CONTEXT - 1, 1), (448, CONTEXT + 5, 1)]
)
def test_the_room_is_what_was_asked_for_or_what_is_left_and_one_at_least(asked, prompt, room):
    request = transcribe_request(parameters=SpeechParameters(max_tokens=asked))
    assert window_parameters(request, prompt, VOCABULARY).max_tokens == room
