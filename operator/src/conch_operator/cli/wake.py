"""`conch wake`: asks for a model that rests to be awake, and says when it will be."""

import argparse
import json
import math
from collections.abc import Mapping
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from conch_contracts.spec.fields import parse_duration
from conch_operator.cli.errors import CommandError
from conch_operator.cli.status import DEFAULT_STATE
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.status_file import read_report

_TIMEOUT_S = 30.0


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", environ: Mapping[str, str]) -> None:
    """Add the command's arguments."""
    parser = commands.add_parser(
        "wake", help="have a model that rests start an engine (CONCH_API_KEY: the key, where keys are needed)"
    )
    parser.add_argument("name", help="a name under which the model is served")
    parser.add_argument("--for", dest="for_s", type=_seconds, default=600, metavar="DURATION",
                        help="how long it stays awake without a request, once it is, such as 30m (10m)")  # fmt: skip
    parser.add_argument("--url", help="the gateway; default: that of a running conch up")
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE, help="the folder that conch up uses (.conch)")
    parser.set_defaults(run=partial(run, environ=environ))


def run(arguments: argparse.Namespace, *, environ: Mapping[str, str]) -> int:
    """Ask the gateway and print what it says; raises CommandError."""
    url = arguments.url or _running(arguments.state_dir)
    said = _ask(url, arguments.name, arguments.for_s, environ.get("CONCH_API_KEY"))
    if said["state"] == "failed":
        raise CommandError([f"{arguments.name} cannot be started: {said.get('reason') or 'see its status.'}"])
    state = "is ready" if said["state"] == "ready" else f"is starting{_when(said.get('ready_in_s'))}"
    print(f"{arguments.name} {state}")
    return 0


def _when(left_s: float | None) -> str:
    if left_s is None:
        return ""
    return f", ready in about {math.ceil(left_s)} s" if left_s > 0 else ", and should be ready by now"


def _running(state_dir: Path) -> str:
    state = StateFolder(state_dir)
    report = read_report(state.status) if state.is_held() else None
    if report is None or report.url is None:
        raise CommandError([f"Nothing serves with the state folder {state.path}; name the gateway with --url."])
    return report.url


def _ask(url: str, name: str, for_s: int, key: str | None) -> dict[str, Any]:
    address = f"{url.rstrip('/').removesuffix('/v1')}/conch/v1/models/{quote(name)}/wake"
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        request = Request(address, json.dumps({"for_s": for_s}).encode(), headers)
        with urlopen(request, timeout=_TIMEOUT_S) as answer:
            said: dict[str, Any] = json.load(answer)
            return said
    except HTTPError as error:
        raise CommandError([f"The gateway refuses to wake {name}: {_message(error)}"]) from error
    except (OSError, HTTPException, ValueError) as error:
        raise CommandError([f"{address} does not answer: {error}"]) from error


def _message(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"status {error.code}"


def _seconds(text: str) -> int:
    try:
        return max(1, round(parse_duration(text)))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
