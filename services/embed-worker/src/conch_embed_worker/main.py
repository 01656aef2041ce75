"""The entry point of `conch-embed-worker`."""

import os
import sys

from conch_embed_worker.process import serve_worker
from conch_embed_worker.settings import EmbedWorkerSettings
from conch_kit.service.entry import enter


def main() -> int:
    """Run the worker until it is told to stop, and return its exit status."""
    return enter("conch-embed-worker", EmbedWorkerSettings, serve_worker, os.environ)  # noqa: TID251


if __name__ == "__main__":
    sys.exit(main())
