"""Writes the files of a Triton model repository that others have rendered."""

from collections.abc import Mapping
from pathlib import Path


def write_repository(repository: Path, files: Mapping[str, str]) -> None:
    """Write these texts, by their paths in the repository; raises OSError."""
    for path, content in files.items():
        file = repository / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
