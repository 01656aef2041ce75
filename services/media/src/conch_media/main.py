"""The entry point of `conch-media`."""

import os
import sys

from conch_kit.service.entry import enter
from conch_media.process import serve_media
from conch_media.settings import MediaSettings


def main() -> int:
    """Run the process until it is told to stop, and return its exit status."""
    return enter("conch-media", MediaSettings, serve_media, os.environ)  # noqa: TID251


if __name__ == "__main__":
    sys.exit(main())
