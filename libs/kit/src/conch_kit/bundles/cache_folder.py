"""The folder in which a process keeps what it fetched, so that it need not fetch it again: tokenizer bundles."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def cache_folder(configured: Path | None, *, name: str) -> Iterator[Path]:
    """Give the configured folder, else a private one that goes with the process.

    Never a folder that others could have made first: whoever can write there chooses what is loaded from it.
    """
    if configured is not None:
        yield configured
        return
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        yield Path(folder)
