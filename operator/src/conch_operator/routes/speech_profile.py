"""Pure: what a model of speech can do: what the ModelDeployment says, else what its folder shows."""

from conch_contracts.capabilities import Level
from conch_contracts.dialects.whisper_bls import WINDOW_TOKENS
from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.records import Dialect, ModelKind, SpeechProfile
from conch_contracts.spec.runtimes import ExternalEngineSpec
from conch_contracts.spec.speech import SpeechSpec
from conch_contracts.speech_capabilities import SPEECH_CAPABILITIES, SpeechFeature
from conch_operator.state import SourceFacts


def speech_profile(spec: ModelSpec, facts: SourceFacts, dialect: Dialect) -> SpeechProfile:
    """Return the profile that goes into the route of a model with that dialect; that of another kind says nothing."""
    if spec.kind is not ModelKind.TRANSCRIPTION:
        return SpeechProfile()
    said, chosen = facts.speech, spec.speech or SpeechSpec()
    word_times = SPEECH_CAPABILITIES[dialect][SpeechFeature.WORD_TIMES].level is not Level.NO
    return SpeechProfile(
        languages=said.languages,
        translates=said.translates if chosen.translation is None else chosen.translation,
        word_times=said.word_times and word_times,
        max_audio_s=chosen.max_audio,
        prompt_ids=said.prompt_ids,
        window_tokens=_window_tokens(spec.engine.external) if dialect is Dialect.WHISPER_BLS else None,
    )


def _window_tokens(external: ExternalEngineSpec | None) -> int:
    return (external and external.window_tokens) or WINDOW_TOKENS
