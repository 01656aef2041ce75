"""The entry point of `conch-speech-worker`.

It imports the worker when it is called: multiprocessing has every child run the main module again, and a child that
decodes a file would spend more on that than on the file.
"""

import os
import sys


def main() -> int:
    """Run the worker until it is told to stop, and return its exit status."""
    from conch_kit.service.entry import enter
    from conch_speech_worker.process import serve_worker
    from conch_speech_worker.settings import SpeechWorkerSettings

    return enter("conch-speech-worker", SpeechWorkerSettings, serve_worker, os.environ)  # noqa: TID251


if __name__ == "__main__":
    sys.exit(main())
