"""Pure: what a model of speech can do: what the ModelDeployment says, else what its folder shows."""

from conch_contracts.dialects.whisper_bls import WINDOW_TOKENS
from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.records import Dialect, ModelKind, SpeechProfile
from conch_contracts.spec.runtimes import ExternalEngineSpec
from conch_contracts.spec.speech import SpeechSpec
from conch_contracts.speech_capabilities import SpeechFeature, has
from conch_operator.state import SourceFacts


def speech_profile(spec: ModelSpec, facts: SourceFacts) -> SpeechProfile:
    """Return the profile that goes into a model's route; that of another kind says nothing."""
    if spec.kind is not ModelKind.TRANSCRIPTION:
        return SpeechProfile()
    said, chosen = facts.speech, spec.speech or SpeechSpec()
    external = spec.engine.external
    dialect = Dialect.SPEECH if external is None else external.dialect or Dialect.SPEECH
    return SpeechProfile(
        languages=said.languages,
        translates=said.translates if chosen.translation is None else chosen.translation,
        word_times=said.word_times and has(SpeechFeature.WORD_TIMES, dialect),
        max_audio_s=chosen.max_audio,
        prompt_ids=said.prompt_ids,
        window_tokens=_window_tokens(external),
    )


def _window_tokens(external: ExternalEngineSpec | None) -> int | None:
    if external is None or external.dialect is not Dialect.WHISPER_BLS:
        return None
    return external.window_tokens or WINDOW_TOKENS
