"""Refuses what the dialect of a model of speech cannot obey, before anything is asked of the tokenizer; pure.

The table is `conch_contracts.speech_capabilities`.
"""

from conch_contracts.capabilities import Level
from conch_contracts.openai.audio import SpeechFields
from conch_contracts.records import Route
from conch_contracts.speech_capabilities import HARMLESS, LACKS, SPEECH_CAPABILITIES, SpeechFeature
from conch_gateway.requests.capability_check import check_fields
from conch_kit.errors import InvalidRequest


def check(request: SpeechFields, route: Route) -> None:
    """Raise InvalidRequest for the first parameter that the model's dialect can never obey, or that it lacks."""
    check_fields(request, route.dialect, LACKS, HARMLESS)
    names_none = request.language is None and bool(route.speech.languages)
    detection = SPEECH_CAPABILITIES[route.dialect][SpeechFeature.LANGUAGE_DETECTION]
    if names_none and detection.level is Level.NO:
        raise InvalidRequest(
            f"Missing required parameter: 'language'. Of this model's backend ({route.dialect}): {detection.note}.",
            param="language",
            code="missing_required_parameter",
        )
