"""Turns the figures of embeddings into rows."""

from bench.encoders.inputs import TOKENS
from bench.encoders.measure import BATCH, CLIENTS, EncoderFigures
from bench.options import Part
from bench.report import Comparison, Goal, Row, Section, Unit

_SINGLE, _SINGLE_WORKER = Goal(1.5), Goal(0.5)
_BATCH, _BATCH_WORKER = Goal(1.15), Goal(1.10)
_SHARE = Goal(0.8, at_least=True)


def sections(figures: EncoderFigures) -> tuple[Section, ...]:
    """Return latency and throughput of embeddings."""
    one, batch, unit = figures.single, figures.batch, Unit.MILLISECONDS
    latency = (
        Row("1 input: whole path", unit, one.conch, one.direct, Comparison.ADDED, _SINGLE),
        Row("1 input: worker alone", unit, one.worker, one.direct, Comparison.ADDED, _SINGLE_WORKER),
        Row("1 input: whole path, floats", unit, one.floats, one.direct, Comparison.ADDED),
        Row(f"{BATCH} inputs: whole path", unit, batch.conch, batch.direct, goal=_BATCH),
        Row(f"{BATCH} inputs: worker alone", unit, batch.worker, batch.direct, goal=_BATCH_WORKER),
        Row(f"{BATCH} inputs: whole path, floats", unit, batch.floats, batch.direct),
    )
    name = f"{CLIENTS} clients of one input"
    throughput = Row(name, Unit.INPUTS, figures.many_clients, figures.one_client, goal=_SHARE)
    heading = f"{Part.ENCODERS.heading} of {TOKENS} tokens"
    return (
        Section(heading, "direct gRPC", latency),
        Section(f"{heading}, throughput", f"batches of {BATCH}", (throughput,)),
    )
