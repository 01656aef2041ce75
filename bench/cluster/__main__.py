"""Runs the benchmark of a cluster: `make bench-cluster`, after `eval "$(make -s cluster)"`."""

import asyncio
import os
import sys
import time

from bench import machine
from bench.cluster import ingress_delay, time_to_first_token
from bench.cluster.access import ClusterAccess
from bench.processes import CannotMeasure
from bench.report import Report, render

_ROUNDS = 3
_PAIRS = 4


async def _measure() -> Report:
    cluster = await ClusterAccess.find(os.environ)  # noqa: TID251 - the edge of the benchmark
    sections = (await time_to_first_token.section(cluster, _ROUNDS), await ingress_delay.section(cluster, _PAIRS))
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
