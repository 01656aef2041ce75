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
_LINKING = 'cp -rL "$1/." "$2/" && ln -sfn "$0" "$2/$3/1"'
"""Makes the user's folder version 1 of the model."""
_COPYING = (
    'if [ ! -f "$0/config.pbtxt" ]; then echo "The image has no $0: name one that has it in spec.engine.image." >&2; '
    'exit 1; fi; mkdir -p "$2/$3" && cp -r "$0/." "$2/$3/" && cp -rfL "$1/." "$2/" && '
    'sed -i "s/^name:.*/name: \\"$3\\"/" "$2/$3/config.pbtxt"'
)
"""Takes the image's model, under the name that it is asked by, with our settings for it."""


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
    if server.version_folder is None and server.image_folder is None:
        return [{"name": _VOLUME, **files}]
    return [{"name": _FILES, **files}, {"name": _VOLUME, "emptyDir": {"sizeLimit": "16Mi"}}]


def repository_container(server: RuntimeServer, image: str, mounts: Sequence[Object], resources: Object) -> Object:
    """Return the init container that puts together what lies in the image or the user's folder, and our own files."""
    if server.image_folder is None:
        script, folder = _LINKING, server.version_folder
    else:
        script, folder = _COPYING, server.image_folder
    return {
        "name": "repository",
        "image": image,
        "command": ["/bin/sh", "-c", script, folder, _FILES_MOUNT, REPOSITORY_MOUNT, server.contract.triton_model],
        "resources": resources,
        "volumeMounts": [
            *mounts,
            {"name": _FILES, "mountPath": _FILES_MOUNT, "readOnly": True},
            {"name": _VOLUME, "mountPath": REPOSITORY_MOUNT},
        ],
    }


def _key(path: str) -> str:
    return path.replace("/", ".")
