"""The entry point of `conch-tokenizer`."""

import os
import sys

from conch_kit.service.entry import enter
from conch_tokenizer.process import serve_tokenizer
from conch_tokenizer.settings import Settings


def main() -> int:
    """Run the tokenizer until it is told to stop, and return its exit status."""
    return enter("conch-tokenizer", Settings, lambda settings: serve_tokenizer(settings, os.environ), os.environ)  # noqa: TID251


if __name__ == "__main__":
    sys.exit(main())
