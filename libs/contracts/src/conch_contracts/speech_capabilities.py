"""What each dialect of speech can obey, as one table: the gateway refuses by it, and docs/backends.md shows it.

A feature that a dialect lacks is a 400 that names the parameter and gives the reason that stands here.
"""

from collections.abc import Mapping

from conch_contracts.capabilities import Askable, Level, Support, lacks
from conch_contracts.records import Dialect


class SpeechFeature(Askable):
    """What a model of speech can be asked for."""

    LANGUAGE_DETECTION = ("languages",)
    """A request that names no `language` asks for it too."""
    PROMPT = ("prompt",)
    TEMPERATURE = ("temperature",)
    SAMPLING = ("top_p", "top_k", "min_p", "seed")
    PENALTIES = ("repetition_penalty", "frequency_penalty", "presence_penalty")
    MAX_TOKENS = ("max_completion_tokens",)
    LOGPROBS = ("include",)
    WORD_TIMES = ("timestamp_granularities",)
    """Of words; the route of a model says whether it has them."""
    LANGUAGE = ("language",)
    FORM = ("response_format", "stream")
    CHUNKING = ("chunking_strategy",)
    STREAM_USAGE = ("stream_include_usage", "stream_continuous_usage_stats")


HARMLESS: Mapping[str, tuple[object, ...]] = {
    "languages": ([],),
    "prompt": ("",),
    "temperature": (0,),
    "top_p": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "repetition_penalty": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "include": ([],),
}
"""The values of a parameter, beside null, that ask for nothing."""

_GREEDY = "it always takes the likeliest token"


def _no(reason: str) -> Support:
    return Support(Level.NO, reason)


_FOR_ALL: Mapping[SpeechFeature, Support] = {
    SpeechFeature.LANGUAGE: Support(Level.ENGINE, "of those that the model knows"),
    SpeechFeature.FORM: Support(Level.WORKER),
    SpeechFeature.CHUNKING: Support(
        Level.WORKER, "`auto`, or `server_vad` with its defaults: audio is always cut in silence"
    ),
    SpeechFeature.STREAM_USAGE: Support(Level.WORKER, "for models of the profile `vllm`"),
}

SPEECH_CAPABILITIES: Mapping[Dialect, Mapping[SpeechFeature, Support]] = {
    Dialect.SPEECH: {
        **dict.fromkeys(SpeechFeature, Support(Level.ENGINE)),
        **_FOR_ALL,
        SpeechFeature.LANGUAGE_DETECTION: Support(Level.ENGINE, "of those that the model knows"),
        SpeechFeature.PROMPT: Support(Level.ENGINE, "its last tokens, half of the model's context"),
        SpeechFeature.MAX_TOKENS: Support(Level.ENGINE, "for each window of 30 s"),
        SpeechFeature.LOGPROBS: Support(Level.ENGINE, "`logprobs`, with the format `json`"),
        SpeechFeature.WORD_TIMES: Support(
            Level.DECLARED, "`alignment_heads` in generation_config.json, for `word`; `segment` always"
        ),
    },
    Dialect.WHISPER_BLS: {
        **_FOR_ALL,
        SpeechFeature.LANGUAGE_DETECTION: _no("it does not find the language: name it in 'language'"),
        SpeechFeature.PROMPT: _no("its decoder has no room for what came before"),
        SpeechFeature.TEMPERATURE: _no(_GREEDY),
        SpeechFeature.SAMPLING: _no(_GREEDY),
        SpeechFeature.PENALTIES: _no("its engine has no such parameter"),
        SpeechFeature.MAX_TOKENS: _no("its model has a fixed number of tokens for each window"),
        SpeechFeature.LOGPROBS: _no("it gives text alone"),
        SpeechFeature.WORD_TIMES: _no("it gives text alone"),
    },
}
"""Every dialect of speech, with every feature."""

LACKS = lacks(SPEECH_CAPABILITIES, elsewhere=SpeechFeature.WORD_TIMES)
"""The parameters that a dialect can never obey, each with the reason; of the times of words the route tells."""
