"""A file in a child that has no memory for it: the client is told which of its bounds was met."""

import tempfile

import numpy as np
import pytest
import soundfile

from conch_kit.errors import InvalidRequest
from conch_speech_worker.audio.child_messages import DecodingLimits
from conch_speech_worker.audio.child_pool import DecodingChildren

LONG_S = 120.0


async def test_a_file_that_takes_too_much_memory_is_refused_by_the_child_itself() -> None:
    limits = DecodingLimits(max_audio_s=LONG_S, memory_bytes=512 * 1024, cpu_s=int(LONG_S), silence_s=LONG_S)
    with tempfile.TemporaryFile() as file:
        soundfile.write(file, np.zeros((320_000, 8), np.int16), 48_000, format="WAV")
        file.flush()
        async with DecodingChildren() as children, children.decoding(file.fileno(), limits) as sound:
            with pytest.raises(InvalidRequest, match=r"takes too much memory\.$"):
                await sound.read()
