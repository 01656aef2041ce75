"""Turns the figures of a peer, and of nginx beside it, into rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.peers.table import Peer
from bench.relay.measure import CONNECTIONS, FEW, RelayFigures
from bench.relay.stack import NGINX
from bench.report import Row, Section, Unit

_NOTES = (
    "Peers do other work than the gateway: they neither tokenize nor check what the gateway checks.",
    "Each ran as one process with the settings of bench/peers/table.py, in turns with nginx before the same worker.",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a peer took, and nginx in the same minutes."""

    peer: Peer
    nginx: RelayFigures
    figures: RelayFigures


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """A peer that could not be installed, started or measured."""

    peer: Peer
    why: str


def section(results: Sequence[Measured | NotMeasured]) -> Section:
    """Return the rows of all peers, and a line for each that has none."""
    rows: list[Row] = []
    notes = list(_NOTES)
    for result in results:
        match result:
            case Measured():
                rows += _rows(result)
            case NotMeasured(peer, why):
                notes.append(f"{peer.title}: not measured: {' '.join(why.split())[:300]}")
    return Section("Peers", "nginx", tuple(rows), subject="peer", notes=tuple(notes))


def _rows(measured: Measured) -> Iterator[Row]:
    title, role = measured.peer.title, measured.peer.name

    def row(name: str, unit: Unit, figure: Callable[[RelayFigures, str], float]) -> Row:
        return Row(f"{title}: {name}", unit, figure(measured.figures, role), figure(measured.nginx, NGINX))

    yield row("CPU per event", Unit.MICROSECONDS, lambda of, role: median(w.cpu[role] for w in of.events[FEW]))
    yield row(
        f"{CONNECTIONS} connections: CPU per request",
        Unit.MICROSECONDS,
        lambda of, role: median(w.cpu[role] for w in of.requests),
    )
    yield row(
        "1 connection: CPU per request", Unit.MICROSECONDS, lambda of, role: median(w.cpu[role] for w in of.alone)
    )
    yield row("time of a request", Unit.MILLISECONDS, lambda of, _: median(w.median_s for w in of.alone) * 1e3)
