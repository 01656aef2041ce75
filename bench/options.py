"""What the command line asks for."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Part(StrEnum):
    """The parts of the measurement."""

    CHAIN = "chain"
    RELAY = "relay"
    ENCODERS = "encoders"
    SPEECH = "speech"
    PICTURES = "pictures"
    PARSING = "parsing"

    @property
    def heading(self) -> str:
        """Return how the table names it."""
        return {
            Part.CHAIN: "Whole path",
            Part.RELAY: "Gateway's relay",
            Part.ENCODERS: "Embeddings",
            Part.SPEECH: "Speech",
            Part.PICTURES: "Pictures",
            Part.PARSING: "Answers taken apart",
        }[self]


@dataclass(frozen=True, slots=True)
class Options:
    """One run of the benchmark."""

    parts: tuple[Part, ...]
    quick: bool
    """Seconds instead of minutes: proves that everything runs, measures nothing reliably."""
    json_file: Path | None
    write_docs: bool
    check: bool
    """Whether a goal that is missed fails the run."""
    peers: bool = False
    """Whether routers of the field are installed and measured, too."""
    plots: Path | None = None
    """The folder that gets a chart of each section."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how often everything is measured; reference and Conch take turns, and medians count."""

    pairs: int
    """Turns of each load on the whole path."""
    load_s: float
    """Length of one such load."""
    latency_requests: int
    """Requests in one block that measures latency at one stream."""
    relay_pairs: int
    """Turns of each load on the relays: many and short, because other work on the machine comes in waves."""
    window_s: float
    """Length of one such load."""
    crowds: int
    """Turns of the loads with hundreds and thousands of streams, which take long to open."""
    parsing_rounds: int
    """How often an answer is taken apart; the fastest time counts."""


FULL = Effort(pairs=3, load_s=4.0, latency_requests=40, relay_pairs=9, window_s=1.3, crowds=3, parsing_rounds=25)
QUICK = Effort(pairs=1, load_s=0.5, latency_requests=8, relay_pairs=1, window_s=0.7, crowds=1, parsing_rounds=2)


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure Conch against references in the same run.")
    parser.add_argument("--only", choices=[part.value for part in Part], help="measure one part")
    parser.add_argument("--quick", action="store_true", help="take seconds; the figures then mean little")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--check", action="store_true", help="end with status 1 when a goal is missed")
    parser.add_argument("--peers", action="store_true", help="install and measure routers of the field, too")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write a bar chart of each section into FOLDER")
    parsed = parser.parse_args(arguments)
    return Options(
        parts=(Part(parsed.only),) if parsed.only else tuple(Part),
        quick=parsed.quick,
        json_file=parsed.json,
        write_docs=parsed.write_docs,
        check=parsed.check,
        peers=parsed.peers,
        plots=parsed.plots,
    )
