"""Reads the JSON files of a model's folder. Blocks on the disk."""

import json
from collections.abc import Mapping
from pathlib import Path

from conch_contracts.conditions import Reason
from conch_operator.model_folder.errors import SourceError

Json = Mapping[str, object]


def read_object(path: Path, reason: Reason = Reason.FILES_INVALID) -> Json | None:
    """Return the object in a file, None when there is no such file; raises SourceError with this reason."""
    try:
        found = _load(path, reason)
    except FileNotFoundError:
        return None
    if not isinstance(found, dict):
        raise SourceError(reason, f"{path} does not hold a JSON object.")
    return found


def read_objects(path: Path) -> list[Json]:
    """Return the list of objects in a file, an empty one when there is no such file; raises SourceError."""
    if not path.is_file():
        return []
    found = _load(path, Reason.FILES_INVALID)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise SourceError(Reason.FILES_INVALID, f"{path} does not hold a list of JSON objects.")
    return found


def _load(path: Path, reason: Reason) -> object:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise SourceError(reason, f"{path} cannot be read: {error}") from error
