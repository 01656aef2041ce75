"""What only models of speech have."""

from conch_contracts.spec.fields import Duration, Flag, SpecPart


class SpeechSpec(SpecPart):
    """What a model of speech is asked for."""

    translation: Flag | None = None
    """Whether it translates into English. Default: as the folder shows; models that know one language do not, and
    turbo ones, which have lost it."""
    max_audio: Duration = 7200.0
    """The longest file that is taken. Default: 2h."""
