"""The ConfigMap with an engine's Triton model repository, and how a pod mounts it."""

from collections.abc import Mapping, Sequence
from typing import Any

from conch_operator.resources.metadata import child_name, metadata
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.state import DesiredModel

Object = dict[str, Any]

REPOSITORY_MOUNT = "/conch/repository"
_COMPONENT = "repository"
_VOLUME = "repository"
_FILES = "repository-files"
_FILES_MOUNT = "/conch/repository-files"


def make_repository(model: DesiredModel, files: Mapping[str, str]) -> Object:
    """Return the ConfigMap that holds these files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(model, child_name(model, _COMPONENT)),
        "data": {_key(path): content for path, content in files.items()},
    }


def repository_volumes(model: DesiredModel, server: RuntimeServer) -> list[Object]:
    """Return the volumes on which each file has its path."""
    items = [{"key": _key(path), "path": path} for path in server.repository]
    files = {"configMap": {"name": child_name(model, _COMPONENT), "items": items}}
    if server.version_folder is None:
        return [{"name": _VOLUME, **files}]
    return [{"name": _FILES, **files}, {"name": _VOLUME, "emptyDir": {"sizeLimit": "16Mi"}}]


def linking_container(server: RuntimeServer, image: str, mounts: Sequence[Object]) -> Object:
    """Return the init container that makes the user's folder version 1 of the model, by a link."""
    name, folder = server.contract.triton_model, server.version_folder
    script = f'cp -rL {_FILES_MOUNT}/. {REPOSITORY_MOUNT}/ && ln -sfn "$1" "{REPOSITORY_MOUNT}/{name}/1"'
    return {
        "name": "repository",
        "image": image,
        "command": ["/bin/sh", "-c", script, "repository", folder],
        "volumeMounts": [
            *mounts,
            {"name": _FILES, "mountPath": _FILES_MOUNT, "readOnly": True},
            {"name": _VOLUME, "mountPath": REPOSITORY_MOUNT},
        ],
    }


def _key(path: str) -> str:
    return path.replace("/", ".")
