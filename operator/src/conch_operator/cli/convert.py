"""`conch convert`: prints an older JSON file as ModelDeployments in YAML."""

import argparse
import sys
from pathlib import Path

import yaml

from conch_operator.cli.input_files import parse_conversion, read_model_config


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's arguments."""
    parser = commands.add_parser("convert", help="print an older model_config.json as ModelDeployments")
    parser.add_argument("file", metavar="FILE", type=Path, help="the JSON file; keep the YAML beside it")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one YAML document per model on stdout and warnings on stderr."""
    file: Path = arguments.file
    conversion = read_model_config(file)
    parse_conversion(file, conversion)
    for warning in conversion.warnings:
        print(f"{file}: {warning}", file=sys.stderr)
    print(yaml.safe_dump_all(conversion.objects, sort_keys=False, allow_unicode=True, default_flow_style=None), end="")
    return 0
