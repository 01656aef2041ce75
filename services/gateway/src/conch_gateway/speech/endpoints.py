"""The two endpoints of speech as data, and the pure way from a form to the work that it asks for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conch_contracts.messages.message import to_json
from conch_contracts.messages.tokenization import PrepareRequest
from conch_contracts.messages.transcription import SpeechTask, TranscriptFormat
from conch_contracts.openai.audio import SpeechFields, TranscriptionRequest, TranslationRequest, VoiceDetection
from conch_contracts.records import ModelKind, Profile, Route
from conch_gateway.errors.bad_request import conflicting, invalid, unsupported, unsupported_by_model
from conch_gateway.http.form_parser import FormField
from conch_gateway.requests.model_lookup import canonical_name, find_route
from conch_gateway.requests.validation import typed
from conch_gateway.speech import capability_check
from conch_gateway.speech.form_document import document_of
from conch_kit.errors import InvalidRequest
from conch_kit.registry.snapshot import Snapshot

STREAMED_FORMATS = (TranscriptFormat.JSON, TranscriptFormat.TEXT)
ONLY_LANGUAGE = "en"
"""That of models which know one: their prompts name none."""

_OPENAI_DETECTION = VoiceDetection(type="server_vad", threshold=0.5, prefix_padding_ms=300, silence_duration_ms=200)
_INSIDE_A_MARK = re.compile(r"(?<=<)(?=\|)")
"""Where every special token of Whisper's tokenizers can be cut, so that it is encoded as the text that it is."""


@dataclass(frozen=True, slots=True)
class ResolvedSpeech:
    """A valid request, and where it goes."""

    route: Route
    name: str
    """The model's name that the answer carries."""
    task: SpeechTask
    request: SpeechFields
    file_bytes: int
    format: TranscriptFormat
    languages: tuple[str, ...]
    """Among which the spoken one is looked for."""
    segments: bool
    words: bool
    logprobs: bool
    preparation: bytes | None
    """What the tokenizer is asked; None: there is nothing for it to do."""
    unknown_fields: int

    @property
    def language(self) -> str | None:
        """The language that the request names."""
        return None if self.request.language is None else self.request.language.lower()

    @property
    def stream(self) -> bool:
        """Whether the answer is a stream."""
        return self.request.stream is True


@dataclass(frozen=True, slots=True)
class SpeechEndpoint:
    """One endpoint."""

    name: str
    task: SpeechTask
    request: type[SpeechFields]

    def resolve(self, fields: Sequence[FormField], file_bytes: int, snapshot: Snapshot) -> ResolvedSpeech:
        """Return what a form asks for whose file has so many bytes; raises a ServiceError that names what is wrong."""
        document = document_of(fields)
        if document.get("response_format") == "diarized_json":
            raise unsupported_by_model("response_format", "no model here tells speakers apart; use 'verbose_json'")
        request, unknown = typed(self.request, document)
        text_format = TranscriptFormat(request.response_format or TranscriptFormat.JSON)
        _check_stream(request, text_format)
        segments, words, logprobs = _details(request, text_format)
        if not file_bytes:
            raise InvalidRequest(
                "Audio file is too short. Minimum audio length is 0.1 seconds.", param="file", code="audio_too_short"
            )
        route = find_route(snapshot, request.model, kinds=(ModelKind.TRANSCRIPTION,))
        self._check_route(request, route, words=words)
        return ResolvedSpeech(
            route=route,
            name=canonical_name(route, request.model),
            task=self.task,
            request=request,
            file_bytes=file_bytes,
            format=text_format,
            languages=_candidates(request, route),
            segments=segments,
            words=words,
            logprobs=logprobs,
            preparation=_preparation(request.prompt, route),
            unknown_fields=unknown,
        )

    def _check_route(self, request: SpeechFields, route: Route, *, words: bool) -> None:
        """Raise InvalidRequest for what this model cannot do."""
        if self.task is SpeechTask.TRANSLATE and not route.speech.translates:
            raise unsupported_by_model("model", "this model was not made to translate")
        if request.language is not None:
            _check_language("language", request.language, route)
        if words and not route.speech.word_times:
            raise unsupported_by_model("timestamp_granularities", "this model does not tell the times of words")
        capability_check.check(request, route)
        if request.stream_continuous_usage_stats and route.profile is not Profile.VLLM:
            raise unsupported_by_model(
                "stream_continuous_usage_stats", "the events of this model's streams tell the usage at the end"
            )


TRANSCRIPTIONS = SpeechEndpoint("transcriptions", SpeechTask.TRANSCRIBE, TranscriptionRequest)
TRANSLATIONS = SpeechEndpoint("translations", SpeechTask.TRANSLATE, TranslationRequest)

SPEECH_PATHS: Mapping[str, SpeechEndpoint] = {
    "/v1/audio/transcriptions": TRANSCRIPTIONS,
    "/v1/audio/translations": TRANSLATIONS,
}
"""What `SpeechHandler` serves, by POST."""


def _check_stream(request: SpeechFields, text_format: TranscriptFormat) -> None:
    if request.stream and text_format not in STREAMED_FORMATS:
        raise conflicting("stream", f"does not go together with 'response_format': '{text_format}'")
    for name, asked in (
        ("stream_include_usage", request.stream_include_usage),
        ("stream_continuous_usage_stats", request.stream_continuous_usage_stats),
    ):
        if asked and not request.stream:
            raise conflicting(name, "needs 'stream': true")


def _details(request: SpeechFields, text_format: TranscriptFormat) -> tuple[bool, bool, bool]:
    """Return whether segments, words and log probabilities are told; raises InvalidRequest where they cannot be."""
    verbose = text_format is TranscriptFormat.VERBOSE_JSON
    if not isinstance(request, TranscriptionRequest):
        return verbose, False, False
    if request.timestamp_granularities and not verbose:
        raise conflicting("timestamp_granularities", "needs 'response_format': 'verbose_json'")
    if request.include and text_format is not TranscriptFormat.JSON:
        raise conflicting("include", "'logprobs' needs 'response_format': 'json'")
    _check_chunking(request.chunking_strategy)
    told = request.timestamp_granularities or ("segment",)
    return verbose and "segment" in told, "word" in told, bool(request.include)


def _check_chunking(strategy: object) -> None:
    """Raise for settings of the detection of voices: audio is cut in silence in a way of its own."""
    if not isinstance(strategy, VoiceDetection):
        return
    for name in ("threshold", "prefix_padding_ms", "silence_duration_ms"):
        if getattr(strategy, name) not in (None, getattr(_OPENAI_DETECTION, name)):
            raise unsupported(f"chunking_strategy.{name}", "audio is always cut in silence")


def _candidates(request: SpeechFields, route: Route) -> tuple[str, ...]:
    """Return among which languages the spoken one is looked for; raises InvalidRequest."""
    asked = request.languages if isinstance(request, TranscriptionRequest) else None
    if not asked:
        return ()
    if request.language is not None:
        raise conflicting("languages", "does not go together with 'language'")
    for code in asked:
        _check_language("languages", code, route)
    return tuple(dict.fromkeys(code.lower() for code in asked))


def _check_language(param: str, code: str, route: Route) -> None:
    known = route.speech.languages or (ONLY_LANGUAGE,)
    if code.lower() not in known:
        raise invalid(param, f"'{code}' is no language of this model; expected a code such as '{known[0]}'")


def _preparation(prompt: str | None, route: Route) -> bytes | None:
    """Return what makes ids of the prompt; a text as the model knows it begins with a space."""
    text = (prompt or "").strip()
    if not text:
        return None
    pieces = _INSIDE_A_MARK.split(f" {text}")
    work = PrepareRequest(
        digest=route.tokenizer_digest,
        # Each piece is a token at least, and of the prompt only what fits the context counts.
        prompts=tuple(pieces[-route.max_model_len :]),
        add_special_tokens=False,
    )
    return to_json(work)
