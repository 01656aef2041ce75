"""The ConfigMap with an engine's Triton model repository, and how a pod mounts it."""

from collections.abc import Mapping
from typing import Any

from conch_operator.resources.metadata import child_name, metadata
from conch_operator.state import DesiredModel

Object = dict[str, Any]

REPOSITORY_MOUNT = "/conch/repository"
_COMPONENT = "repository"


def make_repository(model: DesiredModel, files: Mapping[str, str]) -> Object:
    """Return the ConfigMap that holds these files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(model, child_name(model, _COMPONENT)),
        "data": {_key(path): content for path, content in files.items()},
    }


def repository_volume(model: DesiredModel, files: Mapping[str, str]) -> Object:
    """Return the volume on which each file has its path."""
    items = [{"key": _key(path), "path": path} for path in files]
    return {"name": "repository", "configMap": {"name": child_name(model, _COMPONENT), "items": items}}


def _key(path: str) -> str:
    return path.replace("/", ".")
