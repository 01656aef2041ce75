"""Parameters of speech that this API does not have, or has at one of its two endpoints only.

They are OpenAI's and vLLM's.
"""

from collections.abc import Mapping

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.audio import TranscriptionRequest, TranslationRequest
from conch_gateway.requests.refusals.parameter_refusal import ParameterRefusal

_HINTS = "write names and rare words into 'prompt'"
_SPEAKERS = "no model here tells speakers apart"
_TRANSCRIPTIONS = "it is one of POST /v1/audio/transcriptions"

_OF_BOTH: Mapping[str, ParameterRefusal] = {
    "hotwords": ParameterRefusal(_HINTS),
    "include_stop_str_in_output": ParameterRefusal("", (False,)),
    "keywords": ParameterRefusal(_HINTS, ([],)),
    "known_speaker_names": ParameterRefusal(_SPEAKERS, ([],)),
    "known_speaker_references": ParameterRefusal(_SPEAKERS, ([],)),
    "length_penalty": ParameterRefusal("there is no beam search", (1,)),
    "n": ParameterRefusal("a request has one answer", (1,)),
    "penalty_decay": ParameterRefusal(),
    "use_beam_search": ParameterRefusal("there is no beam search", (False,)),
    "vllm_xargs": ParameterRefusal("engines take no arguments of their own here", ({},)),
}

OF_SPEECH: Mapping[type[ApiModel], Mapping[str, ParameterRefusal]] = {
    TranscriptionRequest: {
        **_OF_BOTH,
        "to_language": ParameterRefusal("a translation is one of POST /v1/audio/translations"),
    },
    TranslationRequest: {
        **_OF_BOTH,
        "chunking_strategy": ParameterRefusal(_TRANSCRIPTIONS, ("auto",)),
        "include": ParameterRefusal(_TRANSCRIPTIONS, ([],)),
        "languages": ParameterRefusal("name the one that is spoken in 'language'", ([],)),
        "timestamp_granularities": ParameterRefusal(_TRANSCRIPTIONS, ([], ["segment"])),
        "to_language": ParameterRefusal("models translate into English", ("en",)),
    },
}
"""What each of the two endpoints says where its type has no such field."""
