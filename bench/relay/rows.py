"""Turns the figures of the two relays into rows."""

from collections.abc import Iterable, Sequence
from statistics import median

from bench.options import Part
from bench.relay.measure import CONNECTIONS, CROWDS, FEW, EventWindow, RelayFigures, RequestWindow
from bench.relay.stack import GATEWAY, NGINX, TOKENIZER
from bench.report import Comparison, Goal, Row, Section, Unit

_EVENT_GOAL = Goal(1.6)
_REQUEST_GOAL = Goal(8.0)
_ALONE_GOAL = Goal(12.0)
_TOKENIZER_GOAL = Goal(9.0)
_STREAM_KIB = Goal(25.0)
_IDLE_MIB = Goal(45.0)
_START_S = Goal(0.5)


def section(nginx: RelayFigures, gateway: RelayFigures, *, start_s: float, idle_mib: float) -> Section:
    """Return CPU time per event and per request beside nginx's, and what the gateway itself takes."""
    own = (
        Row("the gateway's start", Unit.SECONDS, start_s, bound=_START_S),
        Row("the idle gateway's memory", Unit.MEBIBYTES, idle_mib, bound=_IDLE_MIB),
    )
    return Section(Part.RELAY.heading, "nginx", (*_rows(nginx, gateway), *own))


def shared_section(one: Sequence[RequestWindow], two: Sequence[RequestWindow]) -> Section:
    """Return what a second gateway brings and costs; worker, tokenizer, client and cores stay the same."""
    name = f"{CONNECTIONS} connections"
    rows = (
        Row(f"{name}: requests per second", Unit.REQUESTS, _rate(two), _rate(one)),
        Row(f"{name}: the gateways' CPU per request", Unit.MICROSECONDS, _cpu(two, GATEWAY), _cpu(one, GATEWAY)),
    )
    return Section("Two gateways", "1 gateway", rows, subject="2 gateways")


def _rows(nginx: RelayFigures, gateway: RelayFigures) -> Iterable[Row]:
    for paced in (FEW, *CROWDS):
        yield Row(
            f"{paced.streams} streams of {paced.events_per_s} events/s: CPU per event",
            Unit.MICROSECONDS,
            _cpu(gateway.events[paced], GATEWAY),
            _cpu(nginx.events[paced], NGINX),
            goal=_EVENT_GOAL if paced is FEW else None,
        )
    yield Row(
        f"{FEW.streams} streams: events per read at the client",
        Unit.COUNT,
        median(window.events_per_read for window in gateway.events[FEW]),
        median(window.events_per_read for window in nginx.events[FEW]),
    )
    most = CROWDS[-1]
    yield Row(
        f"{most.streams} streams: memory of one",
        Unit.KIBIBYTES,
        max(window.grown_kib[GATEWAY] for window in gateway.events[most]),
        max(window.grown_kib[NGINX] for window in nginx.events[most]),
        bound=_STREAM_KIB,
    )
    yield Row(
        f"{CONNECTIONS} connections: CPU per request",
        Unit.MICROSECONDS,
        _cpu(gateway.requests, GATEWAY),
        _cpu(nginx.requests, NGINX),
        goal=_REQUEST_GOAL,
    )
    yield Row(
        f"{CONNECTIONS} connections: the tokenizer's CPU per request",
        Unit.MICROSECONDS,
        _cpu(gateway.requests, TOKENIZER),
        _cpu(nginx.requests, NGINX),
        goal=_TOKENIZER_GOAL,
    )
    yield Row(
        "1 connection: CPU per request",
        Unit.MICROSECONDS,
        _cpu(gateway.alone, GATEWAY),
        _cpu(nginx.alone, NGINX),
        goal=_ALONE_GOAL,
    )
    yield Row(
        "1 connection: time of a request",
        Unit.MILLISECONDS,
        _time_ms(gateway.alone),
        _time_ms(nginx.alone),
        Comparison.ADDED,
    )


def _cpu(windows: Sequence[EventWindow | RequestWindow], role: str) -> float:
    return median(window.cpu[role] for window in windows)


def _rate(windows: Sequence[RequestWindow]) -> float:
    return median(window.requests_per_s for window in windows)


def _time_ms(windows: Sequence[RequestWindow]) -> float:
    return median(window.median_s for window in windows) * 1e3
