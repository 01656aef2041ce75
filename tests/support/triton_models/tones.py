"""Hears words that are tones, for stand-ins of engines of speech; `testkit.models.tone_speech` makes such sound.

A word lasts 200 ms: a tone of 160 ms, whose frequency says which word it is, and 40 ms of silence.
"""

import numpy

RATE = 16_000
FRAME = 80
LOUD, SHORTEST = 150.0, 0.08
LOWEST_HZ, STEP_HZ, WORDS = 300, 40, 64


def heard(pcm):
    """Return each word with the seconds at which it begins and ends."""
    frames = pcm[: len(pcm) // FRAME * FRAME].reshape(-1, FRAME).astype(numpy.float64)
    loud = numpy.sqrt((frames**2).mean(axis=1)) > LOUD
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[0], loud.astype(numpy.int8), [0]])))
    words = []
    for first, after in zip(edges[::2], edges[1::2], strict=True):
        start, end = first * FRAME, after * FRAME
        if (end - start) / RATE < SHORTEST:
            continue
        run = pcm[start:end].astype(numpy.float64) * numpy.hanning(end - start)
        spectrum = numpy.abs(numpy.fft.rfft(run, 32_768))
        hertz = float(spectrum.argmax()) * RATE / 32_768
        word = round((hertz - LOWEST_HZ) / STEP_HZ)
        if 0 <= word < WORDS:
            words.append((word, start / RATE, end / RATE))
    return words
