"""The entry point of `conch-speech-worker`."""

import os
import sys

from conch_kit.service.entry import enter
from conch_speech_worker.process import serve_worker
from conch_speech_worker.settings import SpeechWorkerSettings


def main() -> int:
    """Run the worker until it is told to stop, and return its exit status."""
    return enter("conch-speech-worker", SpeechWorkerSettings, serve_worker, os.environ)  # noqa: TID251


if __name__ == "__main__":
    sys.exit(main())
