"""`conch status`: shows each model of a running `conch up` with its conditions, the reasons and the next step."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from conch_contracts.conditions import ConditionStatus, ConditionType
from conch_operator.local.exit_cause import one_line
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.status_file import Report, read_report
from conch_operator.reconcile.status import ModelStatus

_REPEATED = (ConditionType.RECONCILING, ConditionType.STALLED)
"""Progressing says it already; these are for programs."""
DEFAULT_STATE = Path(".conch")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's arguments."""
    parser = commands.add_parser("status", help="show the models of a running conch up")
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE, help="the folder that conch up uses (.conch)")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table", help="how to print (table)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the status; exit status 0 when every model is Ready, else 1."""
    state = StateFolder(arguments.state_dir)
    report = read_report(state.status) if state.is_held() else None
    if report is None:
        print(f"Nothing runs with the state folder {state.path}; start it with: conch up -f FILE", file=sys.stderr)
        return 1
    if arguments.output == "json":
        print(report.model_dump_json(by_alias=True, indent=2))
    else:
        print("\n".join(_table(report)))
    return 0 if all(model.ready for model in report.models) else 1


def _table(report: Report) -> Iterator[str]:
    yield f"conch up (process {report.pid}) serves at {report.url or '(not yet)'}"
    rows = [("MODEL", "SERVED NAMES", "ENGINES", "READY", "REASON")]
    rows += [_row(model) for model in report.models]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for model in report.models:
        yield ""
        yield f"{model.model_id}"
        for condition in (one for one in model.conditions if one.type not in _REPEATED):
            mark = {ConditionStatus.TRUE: "ok  ", ConditionStatus.FALSE: "FAIL"}.get(condition.status, "wait")
            if condition.type is ConditionType.PROGRESSING and condition.holds and not model.rolled_out:
                mark = "wait"
            text = f"{condition.reason}: {one_line(condition.message)}" if condition.message else str(condition.reason)
            yield f"  {mark}  {condition.type:<15} {text}"


def _row(model: ModelStatus) -> tuple[str, str, str, str, str]:
    ready = model.condition(ConditionType.READY)
    names = ", ".join(model.served_names) or "(none)"
    engines = f"{model.ready_replicas}/{model.replicas}"
    return (
        (model.model_id, names, engines, str(ready.status), str(ready.reason))
        if ready
        else (*(model.model_id, names, engines), "Unknown", "")
    )
