"""Turns the figures of the whole path into rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from bench.chain.measure import ANSWER_TOKENS, ChainFigures, Pair, Run, middle
from bench.chain.stack import CLIENT, GATEWAY, OPERATOR, REDIS, SERVER, STUB, TOKENIZER, WORKER
from bench.options import Part
from bench.report import Comparison, Goal, Row, Section, Unit

_FIRST_TOKEN_GOAL = Goal(1.5)
_THROUGHPUT_GOAL = Goal(0.92, at_least=True)
_THROUGHPUT_GOAL_STREAMS = (16, 64)
_CPU_GOAL_STREAMS = 16
_WORKER_TOKEN_GOAL = Goal(650 / ANSWER_TOKENS)
_WORKER_REQUEST_GOAL = Goal(300.0)
_TOGETHER_GOAL = Goal(1.15)
_ROLES = (SERVER, STUB, WORKER, GATEWAY, TOKENIZER, REDIS, OPERATOR, CLIENT)
_DIRECT_ROLES = (SERVER, STUB, CLIENT)

_Spread = Callable[[Run], Mapping[str, float]]


def sections(figures: ChainFigures) -> tuple[Section, ...]:
    """Return speed and CPU time of the whole path."""
    return (
        Section(Part.CHAIN.heading, "direct gRPC", tuple(_speed(figures))),
        Section(
            f"CPU per token, answers of {ANSWER_TOKENS}",
            "direct gRPC",
            tuple(_cpu(figures.answers, Run.cpu_per_token, _WORKER_TOKEN_GOAL)),
        ),
        Section(
            "CPU per request, one token",
            "direct gRPC",
            tuple(_cpu(figures.requests, Run.cpu_per_request, _WORKER_REQUEST_GOAL, _TOGETHER_GOAL)),
        ),
    )


def _speed(figures: ChainFigures) -> Iterable[Row]:
    direct, conch = figures.direct_latency, figures.conch_latency
    yield Row(
        "1 stream: time to first token",
        Unit.MILLISECONDS,
        conch.first_token_s * 1e3,
        direct.first_token_s * 1e3,
        Comparison.ADDED,
        _FIRST_TOKEN_GOAL,
    )
    yield Row(
        f"1 stream: a request of {ANSWER_TOKENS} tokens",
        Unit.MILLISECONDS,
        conch.request_s * 1e3,
        direct.request_s * 1e3,
        Comparison.ADDED,
    )
    for streams, pairs in figures.answers.items():
        pair = middle(pairs)
        goal = _THROUGHPUT_GOAL if streams in _THROUGHPUT_GOAL_STREAMS else None
        yield Row(
            f"{_streams(streams)}: tokens per second",
            Unit.RATE,
            pair.conch.tokens_per_s,
            pair.direct.tokens_per_s,
            goal=goal,
        )
    for streams, pairs in figures.answers.items():
        if streams > 1:
            yield Row(
                f"{_streams(streams)}: time to first token",
                Unit.MILLISECONDS,
                _first_token_ms([pair.conch for pair in pairs]),
                _first_token_ms([pair.direct for pair in pairs]),
                Comparison.ADDED,
            )


def _cpu(
    loads: Mapping[int, Sequence[Pair]], spread: _Spread, worker_goal: Goal, together_goal: Goal | None = None
) -> Iterable[Row]:
    for streams, pairs in loads.items():
        direct = _medians([spread(pair.direct) for pair in pairs])
        conch = _medians([spread(pair.conch) for pair in pairs])
        for role in _ROLES:
            reference = direct[role] if role in _DIRECT_ROLES else None
            bound = worker_goal if role is WORKER and streams == _CPU_GOAL_STREAMS else None
            yield Row(f"{_streams(streams)}: {role}", Unit.MICROSECONDS, conch[role], reference, bound=bound)
        total = sum(direct[role] for role in _DIRECT_ROLES)
        goal = together_goal if streams == _CPU_GOAL_STREAMS else None
        yield Row(f"{_streams(streams)}: together", Unit.MICROSECONDS, sum(conch.values()), total, goal=goal)


def _medians(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {role: median(sample.get(role, 0.0) for sample in samples) for role in _ROLES}


def _first_token_ms(runs: Sequence[Run]) -> float:
    return median(sample for run in runs for sample in run.result.first_token_s) * 1e3


def _streams(count: int) -> str:
    return "1 stream" if count == 1 else f"{count} streams"
