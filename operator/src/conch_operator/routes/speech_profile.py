"""Pure: what a model of speech can do: what the ModelDeployment says, else what its folder shows."""

from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.records import ModelKind, SpeechProfile
from conch_contracts.spec.speech import SpeechSpec
from conch_operator.state import SourceFacts


def speech_profile(spec: ModelSpec, facts: SourceFacts) -> SpeechProfile:
    """Return the profile that goes into a model's route; that of another kind says nothing."""
    if spec.kind is not ModelKind.TRANSCRIPTION:
        return SpeechProfile()
    said, chosen = facts.speech, spec.speech or SpeechSpec()
    return SpeechProfile(
        languages=said.languages,
        translates=said.translates if chosen.translation is None else chosen.translation,
        word_times=said.word_times,
        max_audio_s=chosen.max_audio,
        prompt_ids=said.prompt_ids,
    )
