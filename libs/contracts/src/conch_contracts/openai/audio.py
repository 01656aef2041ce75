"""Speech: `POST /v1/audio/transcriptions` and `POST /v1/audio/translations`, whose requests are forms with a file.

These are the fields beside `file`. In a form a list is its field repeated, with or without `[]` behind the name.
"""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel, Options
from conch_contracts.openai.sampling import (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    MAX_USER_CHARS,
    Penalty,
    Priority,
    RequestName,
)

MAX_LANGUAGES = 128
MAX_LANGUAGE_CHARS = 16

LanguageCode = Annotated[str, Field(min_length=1, max_length=MAX_LANGUAGE_CHARS)]


class SpeechFields(ApiModel):
    """What both endpoints take."""

    model: Annotated[str, Field(max_length=10_240)] | None = None
    """A served name; absent, empty or `default` asks for the default model."""
    language: LanguageCode | None = None
    """In which language is spoken, as ISO 639-1 has it, such as `en`; absent: it is found in the first 30 s."""
    prompt: str | None = None
    """What came before, or how names are written; of a long one the end counts. It is plain text: it cannot hold tokens
    that steer the model."""
    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] | None = None
    """The form of the answer, `json` when absent; all of them have the same words."""
    temperature: float | None = Field(default=None, ge=0, le=1)
    """0, or absent: greedy, and up to 1 in steps of 0.2 where what comes repeats itself or is unlikely."""
    stream: bool | None = None
    """Send the text piece by piece, as server-sent events; with the formats `json` and `text`."""
    stream_include_usage: bool | None = None
    """One more frame with the tokens used, for models with the profile `vllm`; others always tell them at the end."""
    stream_continuous_usage_stats: bool | None = None
    """The tokens used so far in every frame, for models with the profile `vllm`."""
    max_completion_tokens: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """The most tokens for each 30 s."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Above temperature 0: draw among the likeliest tokens that have this much of the probability together."""
    top_k: int | None = Field(default=None, ge=-1, le=INT32_MAX)
    """Above temperature 0: draw among so many of the likeliest tokens; -1 and 0 switch it off."""
    min_p: float | None = Field(default=None, ge=0, le=1)
    """Above temperature 0: draw among tokens that are at least so likely, compared to the likeliest."""
    repetition_penalty: float | None = Field(default=None, gt=0, le=100)
    """Above 1 makes tokens less likely that were written, by this factor."""
    frequency_penalty: Penalty | None = None
    """Above 0 makes a token less likely each time that it has been written."""
    presence_penalty: Penalty | None = None
    """Above 0 makes a token less likely once it has been written."""
    seed: int | None = Field(default=None, ge=INT64_MIN, le=INT64_MAX)
    """Of what is drawn above temperature 0."""
    priority: Priority | None = None
    """Of the requests that wait for an engine, those with a lower number go first. From 10 on a request is part of a
    batch, for which no engine is started where none runs."""
    request_id: RequestName | None = None
    """The `x-request-id` of the answer where the request has no such header."""
    user: Annotated[str, Field(max_length=MAX_USER_CHARS)] | None = None
    """Whom the client asks for: a note for the access log."""


class VoiceDetection(Options):
    """OpenAI's voice activity detection. Audio is always cut in silence here, so only its defaults are taken."""

    type: Literal["server_vad"]
    threshold: float | None = Field(default=None, ge=0, le=1)
    prefix_padding_ms: int | None = Field(default=None, ge=0, le=INT32_MAX)
    silence_duration_ms: int | None = Field(default=None, ge=0, le=INT32_MAX)


class TranscriptionRequest(SpeechFields):
    """What a client may ask of `POST /v1/audio/transcriptions`, beside the `file`."""

    timestamp_granularities: list[Literal["word", "segment"]] | None = Field(default=None, max_length=8)
    """What `verbose_json` tells the times of: segments when absent."""
    include: list[Literal["logprobs"]] | None = Field(default=None, max_length=8)
    """Tell each token with its log probability; with the format `json`."""
    languages: Annotated[list[LanguageCode], Field(max_length=MAX_LANGUAGES)] | None = None
    """Among which languages the spoken one is looked for; without `language`."""
    chunking_strategy: Literal["auto"] | VoiceDetection | None = None
    """Audio is always cut in silence, whatever is said here."""


class TranslationRequest(SpeechFields):
    """What a client may ask of `POST /v1/audio/translations`, beside the `file`; the answer is in English."""


class AudioTokens(ApiModel):
    """What the tokens of a request were."""

    audio_tokens: int
    text_tokens: int


class TokensUsed(ApiModel):
    """What a request used, counted in tokens."""

    type: Literal["tokens"]
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: AudioTokens | None = None


class SecondsUsed(ApiModel):
    """What a request used, counted in seconds of audio."""

    type: Literal["duration"]
    seconds: int
    """Those of the file, rounded up."""


class TranscribedToken(ApiModel):
    """A token of the text."""

    token: str
    bytes: list[int]
    logprob: float


class TranscribedSegment(ApiModel):
    """Some words that belong together."""

    id: int
    seek: int
    """Where the window begins in which it was heard, in steps of 10 ms."""
    start: float
    """Seconds."""
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    """How likely nobody speaks in its window; 0 where the model cannot say."""


class TranscribedWord(ApiModel):
    """One word."""

    word: str
    start: float
    """Seconds."""
    end: float


class Transcription(ApiModel):
    """The answer in the format `json`."""

    text: str
    logprobs: list[TranscribedToken] | None = None
    usage: SecondsUsed | None = None


class VerboseTranscription(ApiModel):
    """The answer in the format `verbose_json`."""

    task: Literal["transcribe", "translate"]
    language: str
    """Its English name; with the profile `vllm` its code."""
    duration: float
    """Of the audio, in seconds."""
    text: str
    segments: list[TranscribedSegment] | None = None
    words: list[TranscribedWord] | None = None
    usage: SecondsUsed | None = None


class TranscriptDelta(ApiModel):
    """A piece of the text."""

    type: Literal["transcript.text.delta"]
    delta: str
    logprobs: list[TranscribedToken] | None = None


class TranscriptDone(ApiModel):
    """The whole text, at the end of a stream."""

    type: Literal["transcript.text.done"]
    text: str
    logprobs: list[TranscribedToken] | None = None
    usage: TokensUsed | None = None


TranscriptEvent = Annotated[TranscriptDelta | TranscriptDone, Field(discriminator="type")]
"""An event of a stream."""
