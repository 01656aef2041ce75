"""Runs the benchmark: measures, prints the table, and leaves nothing running."""

import asyncio
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

import orjson

from bench import docs_page, machine, parsing, pictures, plots
from bench.chain import run as chain
from bench.encoders import run as encoders
from bench.options import FULL, QUICK, Effort, Options, Part, parse
from bench.peers.table import PEERS
from bench.processes import CannotMeasure
from bench.relay import run as relay
from bench.report import Report, Section, render
from bench.speech import run as speech


async def _sections(part: Part, folder: Path, effort: Effort, *, peers: bool) -> tuple[Section, ...]:
    match part:
        case Part.CHAIN:
            return await chain.sections(folder, effort)
        case Part.RELAY:
            return await relay.sections(folder, effort, PEERS if peers else ())
        case Part.ENCODERS:
            return await encoders.sections(folder, effort)
        case Part.SPEECH:
            return await speech.sections(folder, effort)
        case Part.PICTURES:
            return await pictures.sections(folder, effort)
        case Part.PARSING:
            return parsing.sections(effort)


async def _measure(options: Options) -> Report:
    effort = QUICK if options.quick else FULL
    found: list[Section] = []
    for part in options.parts:
        with tempfile.TemporaryDirectory(prefix=f"conch-bench-{part}-") as name:
            try:
                found += await _sections(part, Path(name), effort, peers=options.peers)
            except CannotMeasure as exc:
                found.append(Section(part.heading, "", missing=str(exc)))
    return Report(
        date=time.strftime("%-d %B %Y"),
        machine=str(machine.this_machine()),
        quick=options.quick,
        sections=tuple(found),
    )


async def _run(options: Options) -> int:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    report = await _measure(options)
    print(render(report))
    if options.json_file is not None:
        options.json_file.write_bytes(orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2))
    if options.plots is not None:
        plots.write(report, options.plots)
    if options.write_docs:
        docs_page.write(report)
    return 0 if report.complete and (report.reached or not options.check) else 1


def main() -> int:
    """Measure what the command line asks for; the exit status is 1 when something could not be measured.

    With `--check` it is 1, too, when a goal was missed.
    """
    options = parse(sys.argv[1:])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # thousands of streams are as many descriptors
    try:
        return asyncio.run(_run(options))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; everything that was started is stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
