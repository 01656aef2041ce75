"""`conch validate`: says of each object in some files whether Conch would accept it."""

import argparse
import sys
from pathlib import Path

from conch_operator.manifests import read


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's arguments."""
    parser = commands.add_parser("validate", help="check ModelDeployment files")
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a YAML file with ModelDeployments")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print ok per valid object and one line per fault; exit status 1 when there are faults."""
    files: list[Path] = arguments.files
    reading = read(files)
    for manifest in reading.manifests:
        print(f"{manifest.file}:{manifest.line}: {manifest.deployment.model_id} ok")
    for fault in reading.faults:
        print(fault, file=sys.stderr)
    return 1 if reading.faults else 0
