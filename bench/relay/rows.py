"""Turns the figures of the two relays into rows."""

from collections.abc import Iterable, Sequence
from statistics import median

from bench.options import Part
from bench.relay.measure import CONNECTIONS, EVENTS_PER_S, STREAMS, EventWindow, RelayFigures, RequestWindow
from bench.relay.stack import GATEWAY, NGINX, TOKENIZER
from bench.report import Comparison, Goal, Row, Section, Unit

_EVENT_GOAL = Goal(2.2)
_REQUEST_GOAL = Goal(25.0)


def section(nginx: RelayFigures, gateway: RelayFigures) -> Section:
    """Return CPU time per event and per request beside nginx's."""
    return Section(Part.RELAY.heading, "nginx", tuple(_rows(nginx, gateway)))


def _rows(nginx: RelayFigures, gateway: RelayFigures) -> Iterable[Row]:
    yield Row(
        f"{STREAMS} streams of {EVENTS_PER_S:g} events/s: CPU per event",
        Unit.MICROSECONDS,
        _cpu(gateway.events, GATEWAY),
        _cpu(nginx.events, NGINX),
        goal=_EVENT_GOAL,
    )
    yield Row(
        f"{STREAMS} streams: events per read at the client",
        Unit.COUNT,
        median(window.events_per_read for window in gateway.events),
        median(window.events_per_read for window in nginx.events),
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
    )
    yield Row(
        "1 connection: CPU per request", Unit.MICROSECONDS, _cpu(gateway.alone, GATEWAY), _cpu(nginx.alone, NGINX)
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


def _time_ms(windows: Sequence[RequestWindow]) -> float:
    return median(window.median_s for window in windows) * 1e3
