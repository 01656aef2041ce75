"""From a resolved request to the message for a worker; pure."""

from dataclasses import dataclass
from typing import Literal

from conch_contracts.messages.message import from_json
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.messages.transcription import SpeechParameters, SpeechTarget, TranscribeRequest, head_of
from conch_contracts.openai.audio import SpeechFields
from conch_contracts.records import Engine, Profile, Route
from conch_gateway.speech.endpoints import ResolvedSpeech

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Tried one after the other where a request leaves it to the model; these and the thresholds are Whisper's."""
COMPRESSION_RATIO_THRESHOLD = 2.4
LOGPROB_THRESHOLD = -1.0
NO_SPEECH_THRESHOLD = 0.6


@dataclass(frozen=True, slots=True)
class SpeechJob:
    """A request whose prompt is counted: all but the engine is decided."""

    resolved: ResolvedSpeech
    prompt_ids: tuple[int, ...]
    request_id: str
    created: int

    @classmethod
    def of(cls, resolved: ResolvedSpeech, prepared: bytes | None, request_id: str, created: int) -> "SpeechJob":
        """Return the job of a request whose prompt is this, as the tokenizer wrote it."""
        prompts = () if prepared is None else from_json(PrepareResponse, prepared).prompts
        return cls(resolved, tuple(token for prompt in prompts for token in prompt.ids), request_id, created)

    def head(self, engine: Engine, timeout_s: float) -> bytes:
        """Return what goes before the file to have a worker run this job on `engine`."""
        resolved, route = self.resolved, self.resolved.route
        request = resolved.request
        message = TranscribeRequest(
            request_id=self.request_id,
            model=resolved.name,
            created=self.created,
            target=SpeechTarget(
                grpc=engine.grpc,
                named_in=engine.named_in,
                model=engine.model or route.engine_model,
                dialect=route.dialect,
                tokenizer_digest=route.tokenizer_digest,
                context=route.max_model_len,
                multilingual=bool(route.speech.languages),
                window_tokens=route.speech.window_tokens,
                model_id=route.model_id,
            ),
            task=resolved.task,
            language=resolved.language,
            languages=resolved.languages,
            prompt_ids=self.prompt_ids,
            parameters=parameters(request, route),
            format=resolved.format,
            segments=resolved.segments,
            words=resolved.words,
            logprobs=resolved.logprobs,
            stream=_stream(resolved),
            include_usage=request.stream_include_usage is True,
            continuous_usage=request.stream_continuous_usage_stats is True,
            max_audio_s=route.speech.max_audio_s,
            profile=route.profile,
            file_bytes=resolved.file_bytes,
            timeout_s=timeout_s,
            first_token_timeout_s=route.routing.first_token_timeout_s,
            inter_token_timeout_s=route.routing.inter_token_timeout_s,
        )
        return head_of(message)


def parameters(request: SpeechFields, route: Route) -> SpeechParameters:
    """Return how tokens are chosen; those of a window that the model's context has no room for are not asked for."""
    asked = request.max_completion_tokens or route.max_model_len
    return SpeechParameters(
        max_tokens=min(asked, route.max_model_len),
        temperatures=(request.temperature,) if request.temperature else TEMPERATURES,
        compression_ratio_threshold=COMPRESSION_RATIO_THRESHOLD,
        logprob_threshold=LOGPROB_THRESHOLD,
        no_speech_threshold=NO_SPEECH_THRESHOLD,
        top_p=1.0 if request.top_p is None else request.top_p,
        top_k=max(0, request.top_k or 0),
        min_p=request.min_p or 0.0,
        repetition_penalty=1.0 if request.repetition_penalty is None else request.repetition_penalty,
        frequency_penalty=request.frequency_penalty or 0.0,
        presence_penalty=request.presence_penalty or 0.0,
        seed=request.seed,
    )


def _stream(resolved: ResolvedSpeech) -> Literal["openai", "vllm"] | None:
    if not resolved.stream:
        return None
    return "vllm" if resolved.route.profile is Profile.VLLM else "openai"
