"""Pure: what the decoder of a model of speech is given, and how it chooses."""

from conch_contracts.dialects.speech import FIND_LANGUAGE
from conch_contracts.messages.message import changed
from conch_contracts.messages.transcription import SpeechParameters, TranscribeRequest
from conch_kit.errors import InvalidRequest
from conch_speech_worker.vocabulary import TranscriptVocabulary


def prompt_of(request: TranscribeRequest, language_id: int | None, vocabulary: TranscriptVocabulary) -> tuple[int, ...]:
    """Return the ids before an answer; it is always one with times.

    Without a language the engine finds it. Raises InvalidRequest for what the model has no id for.
    """
    begin: tuple[int, ...] = (vocabulary.start_id,)
    if request.target.multilingual:
        task = vocabulary.task_ids[request.task.value]
        if task is None:
            raise InvalidRequest(
                f"This model cannot {request.task.value}.", param="model", code="unsupported_parameter"
            )
        begin = (vocabulary.start_id, FIND_LANGUAGE if language_id is None else language_id, task)
    if not request.prompt_ids or vocabulary.previous_id is None:
        return begin
    room = request.target.context // 2 - 1
    return (vocabulary.previous_id, *request.prompt_ids[-room:], *begin)


def language_id_of(request: TranscribeRequest, vocabulary: TranscriptVocabulary) -> int | None:
    """Return the id of the language that a request names; None where it names none. Raises InvalidRequest."""
    if request.language is None or not request.target.multilingual:
        return None
    return _language_id("language", request.language, vocabulary)


def candidate_ids(request: TranscribeRequest, vocabulary: TranscriptVocabulary) -> tuple[int, ...]:
    """Return the ids among which the language is looked for; none where it may be any. Raises InvalidRequest."""
    return tuple(_language_id("languages", code, vocabulary) for code in request.languages)


def window_parameters(
    request: TranscribeRequest, prompt_ids: int, vocabulary: TranscriptVocabulary
) -> SpeechParameters:
    """Return the parameters of one window behind so many ids of a prompt; raises InvalidRequest."""
    given = request.parameters
    return changed(
        given,
        max_tokens=max(1, min(given.max_tokens, request.target.context - prompt_ids)),
        languages=candidate_ids(request, vocabulary),
        word_times=request.words,
    )


def _language_id(param: str, code: str, vocabulary: TranscriptVocabulary) -> int:
    found = vocabulary.languages.get(code)
    if found is None:
        raise InvalidRequest(f"This model does not know the language '{code}'.", param=param, code="invalid_value")
    return found
