"""Turns the figures of speech into rows."""

from bench.options import Part
from bench.report import Comparison, Goal, Row, Section, Unit
from bench.speech.measure import PathFigures
from bench.speech.stages import ROWS, TOKENS_OF_S, StageFigures

_WINDOW, _LONG, _LONG_WORKER = Goal(60.0), Goal(2.0), Goal(1.5)


def sections(paths: PathFigures, stages: StageFigures) -> tuple[Section, ...]:
    """Return what a window takes, and what each stage costs."""
    one, long, unit = paths.window, paths.long, Unit.MILLISECONDS
    latency = (
        Row("a file of 30 s: whole path", unit, one.conch, one.direct, Comparison.ADDED, _WINDOW),
        Row("a file of 30 s: worker alone", unit, one.worker, one.direct, Comparison.ADDED, _WINDOW),
        Row("a file of 30 s: worker alone, as a ratio", unit, one.worker, one.direct),
        Row("a window of 10 minutes: whole path", unit, long.conch, long.direct, goal=_LONG),
        Row("a window of 10 minutes: worker alone", unit, long.worker, long.direct, goal=_LONG_WORKER),
    )
    speed = Unit.AUDIO
    costs = (
        *(Row(f"decoding {kind}, 48 kHz stereo", speed, figure) for kind, figure in stages.decoded.items()),
        Row("loudness of a window", speed, stages.cut),
        Row("spectrogram", speed, stages.mel),
        Row("encoder", speed, stages.encoder),
        Row(f"steps, {TOKENS_OF_S} tokens a second, alone", speed, stages.steps[1]),
        Row(f"steps, {TOKENS_OF_S} tokens a second, {ROWS} windows together", speed, stages.steps[ROWS]),
    )
    return (
        Section(f"{Part.SPEECH.heading}, for each window of 30 s", "direct gRPC", latency),
        Section("Seconds of sound for a second of CPU", "", costs),
    )
