"""Puts the `conch` command together: arguments, the environment, and how it fails."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

INTERRUPTED = 130
"""The exit status after a Ctrl-C that nothing had to be stopped for; shells use it."""


def main() -> int:
    """Run the command line and return its exit status: 0 done, 1 failed, 2 wrong usage."""
    try:
        return _run()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run() -> int:
    with _ended_by_ctrl_c():  # imported here because that takes a second
        from conch_operator.cli import convert, status, up, validate, wake
        from conch_operator.cli.errors import CommandError

    parser = argparse.ArgumentParser(prog="conch", description="Serve models behind an OpenAI-compatible API.")
    parser.add_argument("--version", action="version", version=f"conch {version('conch-operator')}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    up.add(commands, os.environ)  # noqa: TID251
    validate.add(commands)
    convert.add(commands)
    status.add(commands)
    wake.add(commands, os.environ)  # noqa: TID251
    operator = commands.add_parser("operator", help="run the operator of a cluster (settings: CONCH_* variables)")
    operator.set_defaults(run=_run_operator)
    retire = commands.add_parser("retire", help="take statuses back, which is the chart's hook before an uninstall")
    some = retire.add_mutually_exclusive_group()
    some.add_argument("--left", metavar="NAMESPACE", nargs="+", default=(),
                      help="only those of these namespaces, which are to be served no more")  # fmt: skip
    some.add_argument("--staying", metavar="NAMESPACE", nargs="+", default=(),
                      help="those of all namespaces but these")  # fmt: skip
    retire.set_defaults(run=_run_retirement)
    arguments = parser.parse_args()
    try:
        result: int = arguments.run(arguments)
    except CommandError as error:
        for sentence in error.sentences:
            print(f"conch: {sentence}", file=sys.stderr)
        return error.status
    return result


def _run_operator(_arguments: argparse.Namespace) -> int:
    from conch_operator.main import main as run_operator  # the Kubernetes client takes a second to load

    return run_operator()


def _run_retirement(arguments: argparse.Namespace) -> int:
    from conch_operator.retirement import main as run_retirement  # as above

    return run_retirement(arguments.left, arguments.staying)


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """End the process at once on Ctrl-C: nothing has begun, and an import would make another error of the interrupt."""
    before = signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
