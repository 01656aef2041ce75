"""`conch operator`: runs the operator in a cluster; its settings come from the environment."""

import argparse


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, which takes no arguments."""
    parser = commands.add_parser("operator", help="run the operator of a cluster (settings: CONCH_* variables)")
    parser.set_defaults(run=run)


def run(_arguments: argparse.Namespace) -> int:
    """Run until a signal comes."""
    from conch_operator.main import main  # kopf and the Kubernetes client take a second to load

    return main()
