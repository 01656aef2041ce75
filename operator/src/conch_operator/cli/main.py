"""Puts the `conch` command together: arguments, the environment, and how it fails."""

import argparse
import os
import sys
from importlib.metadata import version

INTERRUPTED = 130
"""The exit status after a Ctrl-C that nothing had to be stopped for; shells use it."""


def main() -> int:
    """Run the command line and return its exit status: 0 done, 1 failed, 2 wrong usage."""
    try:
        return _run()
    except KeyboardInterrupt:
        return INTERRUPTED


def _run() -> int:
    # Imported here because that takes a second, and Ctrl-C may come meanwhile.
    from conch_operator.cli import cluster, convert, status, up, validate
    from conch_operator.cli.errors import CommandError

    parser = argparse.ArgumentParser(prog="conch", description="Serve models behind an OpenAI-compatible API.")
    parser.add_argument("--version", action="version", version=f"conch {version('conch-operator')}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    up.add(commands, os.environ)  # noqa: TID251
    validate.add(commands)
    convert.add(commands)
    status.add(commands)
    cluster.add(commands)
    arguments = parser.parse_args()
    try:
        result: int = arguments.run(arguments)
    except CommandError as error:
        for sentence in error.sentences:
            print(f"conch: {sentence}", file=sys.stderr)
        return error.status
    return result
