"""The entry point of `conch-llm-worker`."""

import os
import sys

from conch_kit.service.entry import enter
from conch_llm_worker.process import serve_worker
from conch_llm_worker.settings import LlmWorkerSettings


def main() -> int:
    """Run the worker until it is told to stop, and return its exit status."""
    return enter("conch-llm-worker", LlmWorkerSettings, serve_worker, os.environ)  # noqa: TID251


if __name__ == "__main__":
    sys.exit(main())
