"""The entry point of `conch-tokenizer`: read the settings, run the process."""

import logging
import os
import sys

from conch_kit import logs
from conch_kit.service import run
from conch_kit.settings import SettingsError, load, redacted
from conch_tokenizer.process import serve_tokenizer
from conch_tokenizer.settings import Settings


def main() -> int:
    """Run the tokenizer until it is told to stop."""
    try:
        settings = load(Settings, os.environ)  # noqa: TID251
    except SettingsError as exc:
        print(f"conch-tokenizer: {exc}", file=sys.stderr)  # noqa: T201
        return 2
    logs.configure(settings.log_level, stream=sys.stderr)
    logging.getLogger(__name__).info("Settings read.", extra={"settings": redacted(settings)})
    return run(serve_tokenizer(settings, os.environ))  # noqa: TID251


if __name__ == "__main__":
    sys.exit(main())
