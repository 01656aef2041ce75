"""What a file of sound may be, whatever library reads it, and the words with which one is refused."""

from conch_speech_worker.audio.child_messages import FileRefusal

LEAST_RATE, MOST_RATE = 4_000, 192_000
MOST_CHANNELS = 8
LEAST_S = 0.1
_MISSING_S, _MISSING_SHARE = 0.5, 0.1
"""So much less than a file says may come out of it before it counts as broken."""
_ROUNDED_S = 1e-6
"""More than the rounding of sums of seconds comes to."""


class FileRefused(Exception):
    """The file is not taken."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.refusal = FileRefusal(code=code, message=message)


class SoundLength:
    """How much has come out of a file, which may be several files one behind the other."""

    def __init__(self, most_s: float) -> None:
        """`most_s` is the model's `maxAudio`."""
        self._most_s = most_s
        self._heard_s = 0.0

    @property
    def heard_s(self) -> float:
        """All that has come."""
        return self._heard_s

    def expect(self, seconds: float) -> None:
        """Raise FileRefused where so much more is too much."""
        if self._heard_s + seconds > self._most_s + _ROUNDED_S:
            raise FileRefused("audio_too_long", f"Expected at most {self._most_s:g} seconds of audio.")

    def add(self, seconds: float) -> None:
        """Count what has come; raises FileRefused where it is too much."""
        self.expect(seconds)
        self._heard_s += seconds

    def check_end(self) -> None:
        """Raise FileRefused where nobody can have said anything in all that has come."""
        if self._heard_s + _ROUNDED_S < LEAST_S:
            raise too_short()


def check_rate_and_channels(rate: int, channels: int) -> None:
    """Raise FileRefused for a sample rate or a number of channels that nobody records speech with."""
    if not LEAST_RATE <= rate <= MOST_RATE:
        raise FileRefused("invalid_audio", f"Expected from {LEAST_RATE} to {MOST_RATE} samples a second, found {rate}.")
    if not 1 <= channels <= MOST_CHANNELS:
        raise FileRefused("invalid_audio", f"Expected at most {MOST_CHANNELS} channels, found {channels}.")


def check_whole(found_s: float, said_s: float) -> None:
    """Raise FileRefused where much less came out of a file than it says that it holds: libraries pass over faults."""
    if found_s < said_s - _MISSING_S and found_s < said_s * (1 - _MISSING_SHARE):
        raise broken(f"only {found_s:.1f} of its {said_s:.1f} seconds can be read")


def broken(why: str) -> FileRefused:
    """Return what a file is refused with that is of a known kind and cannot be decoded."""
    return FileRefused(
        "invalid_audio",
        f"The audio file cannot be decoded: {why}. Check that it is whole and plays, or convert it to flac, mp3 or "
        "wav.",
    )


def too_short() -> FileRefused:
    """Return what a file is refused with in which nobody can have said anything."""
    return FileRefused("audio_too_short", f"Audio file is too short. Minimum audio length is {LEAST_S} seconds.")
