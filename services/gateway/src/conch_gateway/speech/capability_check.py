"""Refuses what the dialect of a model of speech cannot obey, before anything is asked of the tokenizer; pure.

The table is `conch_contracts.speech_capabilities`.
"""

from conch_contracts.capabilities import refusal
from conch_contracts.openai.audio import SpeechFields
from conch_contracts.records import Route
from conch_contracts.speech_capabilities import SpeechFeature, asks_for_nothing, has, lacks, reason_of
from conch_kit.errors import InvalidRequest


def check(request: SpeechFields, route: Route) -> None:
    """Raise InvalidRequest for the first parameter that the model's dialect can never obey, or that it lacks."""
    dialect, given = route.dialect, request.model_fields_set
    for param, reason in lacks(dialect).items():
        if param in given and not asks_for_nothing(param, getattr(request, param)):
            raise InvalidRequest(refusal(param, dialect, reason), param=param, code="unsupported_parameter")
    names_none = request.language is None and bool(route.speech.languages)
    if names_none and not has(SpeechFeature.LANGUAGE_DETECTION, dialect):
        reason = reason_of(SpeechFeature.LANGUAGE_DETECTION, dialect)
        raise InvalidRequest(
            f"Missing required parameter: 'language'. Of this model's backend ({dialect}): {reason}.",
            param="language",
            code="missing_required_parameter",
        )
