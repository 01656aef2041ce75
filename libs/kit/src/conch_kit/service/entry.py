"""The edge of a service process: settings and logs at its beginning, one log line and an exit status at its end."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TypeVar

import uvloop

from conch_kit import logs
from conch_kit.settings import ServerSettings, StartupError, load, redacted

log = logging.getLogger(__name__)

S = TypeVar("S", bound=ServerSettings)


def enter(
    name: str,
    settings: type[S],
    serve: Callable[[S], Coroutine[object, object, None]],
    environ: Mapping[str, str],
) -> int:
    """Run a service with the settings that its environment holds, and return the exit status of its process."""
    try:
        given = load(settings, environ)
    except StartupError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 2
    logs.configure(given.log_level, stream=sys.stderr)
    log.info("Settings read.", extra={"service": name, "settings": redacted(given)})
    return run(serve(given))


def run(main: Coroutine[object, object, None]) -> int:
    """Run the process's main coroutine on uvloop and return its exit status."""
    try:
        uvloop.run(main)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    except Exception as error:
        if (reason := _startup_error(error)) is not None:
            log.error("%s", reason)
        else:
            log.exception("The process ends because of an error.")
        return 1
    return 0


def _startup_error(error: BaseException) -> StartupError | None:
    """Return why a process could not start; a task group around it has wrapped even a single error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, StartupError) else None
