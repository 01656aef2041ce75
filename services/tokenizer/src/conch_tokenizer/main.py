"""The entry point of `conch-tokenizer`."""

import os
import sys

from conch_kit.service.entry import enter
from conch_tokenizer.process import serve_tokenizer
from conch_tokenizer.settings import TokenizerSettings


def main() -> int:
    """Run the tokenizer until it is told to stop, and return its exit status."""
    environ = os.environ  # noqa: TID251
    return enter("conch-tokenizer", TokenizerSettings, lambda settings: serve_tokenizer(settings, environ), environ)


if __name__ == "__main__":
    sys.exit(main())
