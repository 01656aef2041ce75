"""How every service begins: its settings are read, its log is set up, and its main coroutine runs until it ends."""

import logging
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TypeVar

from conch_kit import logs
from conch_kit.service.serve import run
from conch_kit.settings import ServiceSettings, StartupError, load, redacted

S = TypeVar("S", bound=ServiceSettings)


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
    logging.getLogger(__name__).info("Settings read.", extra={"service": name, "settings": redacted(given)})
    return run(serve(given))
