"""`conch up`: serves ModelDeployments on this machine until Ctrl-C."""

import argparse
import asyncio
import logging
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from conch_contracts.names import GATEWAY_PORT
from conch_kit import logs
from conch_operator.cli.errors import CommandError, UsageError
from conch_operator.cli.input_files import load_models
from conch_operator.cli.status import DEFAULT_STATE
from conch_operator.local.console import Console
from conch_operator.local.engines import EngineServer
from conch_operator.local.ports import CannotListen, check_free, free_ports
from conch_operator.local.redis_binary import RedisBinaryMissing, find
from conch_operator.local.services import ServiceOptions
from conch_operator.local.state_folder import StateFolder, StateInUse, StateUnusable
from conch_operator.local.tritonserver import TritonUnavailable, find_triton
from conch_operator.local.up_session import GatewayRefused, UpOptions, UpSession
from conch_operator.local.watched_model_files import DesiredModels, InvalidFiles
from conch_operator.local.welcome import Caller
from conch_operator.manifests.yaml_files import ParsedManifests
from conch_operator.model_folder.reader import read_source
from conch_operator.state import SourceFault

LOG_LEVELS = ("CRITICAL", "FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET")
_REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
_OWN_SETTINGS = frozenset({"CONCH_REDIS_URL"})


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment says to `conch up`."""

    redis_url: str | None
    log_level: str
    for_gateway: Mapping[str, str]
    """CONCH_* settings that are passed on to the gateway."""
    for_processes: Mapping[str, str]
    """Everything that is no setting of Conch."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", environ: Mapping[str, str]) -> None:
    """Add the command's arguments."""
    parser = commands.add_parser("up", help="serve models on this machine until Ctrl-C")
    add_file = parser.add_argument
    add_file("-f", "--file", dest="files", metavar="FILE", type=Path, action="append", default=[],
             help="a YAML file with ModelDeployments; may be given again; edits apply at once")  # fmt: skip
    add_file("--config-file", type=Path, metavar="JSON", help="an older model_config.json; see conch convert")
    parser.add_argument("--host", default="localhost", help="where to listen (localhost)")
    parser.add_argument("--port", type=_port, default=GATEWAY_PORT, help=f"which port to listen on ({GATEWAY_PORT})")
    parser.add_argument("--verbose", action="store_true", help="log at DEBUG level and say why each step is taken")
    parser.add_argument("--uvicorn-log-level", choices=["debug", "info", "warning", "error", "critical", "trace"],
                        help="log level of the gateway with its web server")  # fmt: skip
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE, help="where logs and caches go (.conch)")
    parser.set_defaults(run=partial(run, environ=environ))


def run(arguments: argparse.Namespace, *, environ: Mapping[str, str]) -> int:
    """Serve until told to stop; raises CommandError when it cannot start."""
    if not arguments.files and arguments.config_file is None:
        raise UsageError(["Name what to serve: conch up -f FILE, or --config-file model_config.json."])
    environment = _read_environment(environ, arguments)
    console = Console(sys.stderr, sys.stdout, _caller(environment))
    state = StateFolder(arguments.state_dir)
    try:
        with state.held(), state.log("operator").open("w") as log:
            logs.configure(environment.log_level, stream=log)
            if arguments.verbose:
                logging.getLogger("conch_operator").addHandler(logging.StreamHandler(sys.stderr))
            models = _first_models(arguments, state, console)
            check_free(arguments.host, arguments.port)
            server = EngineServer(find_triton(), environment.for_processes)
            options = UpOptions(_watched(arguments), _service_options(arguments, environment), server)
            asyncio.run(UpSession(options, state, models, console).run())
    except StateInUse as error:
        sentence = f"Another conch up (process {error}) uses the state folder {state.path}"
        raise CommandError([f"{sentence}; stop it, or choose another with --state-dir."]) from error
    except (StateUnusable, CannotListen, InvalidFiles, TritonUnavailable, RedisBinaryMissing, GatewayRefused) as error:
        raise CommandError(str(error).splitlines()) from error
    return 0


def _first_models(arguments: argparse.Namespace, state: StateFolder, console: Console) -> DesiredModels:
    """Read the files, and refuse to start on a model whose folder cannot be served."""

    def load() -> ParsedManifests:
        try:
            found, warnings = load_models(arguments.files, arguments.config_file)
        except CommandError as error:
            raise InvalidFiles(error.sentences) from error
        for warning in warnings:
            console.change(warning, f"{arguments.config_file}: {warning}")
        return found

    models = DesiredModels(load, state)
    models.reload()
    served = [m for m in models.current.models if m.deployment.spec.source.downloaded is None]
    faults = [(model, found) for model in served if isinstance(found := read_source(model), SourceFault)]
    if faults:
        raise CommandError([f"{model.deployment.metadata.name}: {fault.message}" for model, fault in faults])
    return models


def _watched(arguments: argparse.Namespace) -> tuple[Path, ...]:
    return (*arguments.files, *([arguments.config_file] if arguments.config_file else []))


def _service_options(arguments: argparse.Namespace, environment: Environment) -> ServiceOptions:
    binary, url = None, environment.redis_url
    redis_port, media_port = free_ports(2)
    if url is None:
        binary, url = find(environment.for_processes.get("PATH")), f"redis://127.0.0.1:{redis_port}/0"
    gateway_settings = dict(environment.for_gateway)
    if arguments.uvicorn_log_level:
        level = arguments.uvicorn_log_level.upper()
        gateway_settings["CONCH_LOG_LEVEL"] = "DEBUG" if level == "TRACE" else level
    return ServiceOptions(
        host=arguments.host,
        port=arguments.port,
        log_level=environment.log_level,
        redis_url=url,
        redis_binary=binary,
        media_port=media_port,
        internal_token=secrets.token_urlsafe(24),
        environment=environment.for_processes,
        gateway_settings=gateway_settings,
    )


def _read_environment(environ: Mapping[str, str], arguments: argparse.Namespace) -> Environment:
    level = environ.get("LOG_LEVEL", "INFO").upper()
    if level not in LOG_LEVELS:
        raise CommandError([f"LOG_LEVEL must be one of {', '.join(LOG_LEVELS)}, found {level}."])
    redis_url = environ.get("CONCH_REDIS_URL") or None
    if redis_url is not None and not redis_url.startswith(_REDIS_SCHEMES):
        raise CommandError([f"CONCH_REDIS_URL must begin with one of {', '.join(_REDIS_SCHEMES)}."])
    settings = {name: value for name, value in environ.items() if name.startswith("CONCH_")}
    return Environment(
        redis_url=redis_url,
        log_level="DEBUG" if arguments.verbose else level,
        for_gateway={name: value for name, value in settings.items() if name not in _OWN_SETTINGS},
        for_processes={name: value for name, value in environ.items() if name not in settings},
    )


def _caller(environment: Environment) -> Caller:
    python, here = Path(sys.executable), Path.cwd()
    shown = python.relative_to(here) if python.is_relative_to(here) else python
    return Caller(shown, environment.for_gateway.get("CONCH_API_KEYS_FILE") or None)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"must be between 0 and 65535, found {text}")
    return int(text)
