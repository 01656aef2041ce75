"""Runs the benchmark of a cluster: `make bench-cluster`, after `eval "$(make -s cluster)"`."""

import asyncio
import os
import sys
import time

from bench import machine
from bench.cluster import appearance, events
from bench.cluster.place import Place
from bench.processes import CannotMeasure
from bench.report import Report, render

_APPEARANCES = 3
_PAIRS = 4


async def _measure() -> Report:
    place = await Place.find(os.environ)  # noqa: TID251 - the edge of the benchmark
    sections = (await appearance.section(place, _APPEARANCES), await events.section(place, _PAIRS))
    return Report(time.strftime("%-d %B %Y"), str(machine.this_machine()), quick=False, sections=sections)


def main() -> int:
    """Measure and print the table; the exit status is 1 when something could not be measured."""
    try:
        print(render(asyncio.run(_measure())))
    except CannotMeasure as error:
        print(f"bench-cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
