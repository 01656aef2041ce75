"""The entry point of `conch-embed-worker`: reads the settings and runs the process."""

import logging
import os
import sys

from conch_embed_worker.process import serve_worker
from conch_embed_worker.settings import Settings
from conch_kit import logs
from conch_kit.service import run
from conch_kit.settings import SettingsError, load, redacted


def main() -> int:
    """Run the worker until it is told to stop."""
    try:
        settings = load(Settings, os.environ)  # noqa: TID251
    except SettingsError as error:
        sys.stderr.write(f"conch-embed-worker: {error}\n")
        return 2
    logs.configure(settings.log_level, stream=sys.stderr)
    logging.getLogger(__name__).info("Settings read.", extra={"settings": redacted(settings)})
    return run(serve_worker(settings))


if __name__ == "__main__":
    sys.exit(main())
