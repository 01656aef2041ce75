"""An engine's Triton model repository: a pod has its files as annotations, and mounts them from there.

So each pod has those that it was made with, also when it starts again while a newer one comes.
"""

from collections.abc import Sequence
from typing import Any

from conch_contracts.names import GROUP
from conch_operator.resources.runtimes.runtime_server import RuntimeServer

Object = dict[str, Any]

REPOSITORY_MOUNT = "/conch/repository"
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


def repository_annotations(server: RuntimeServer) -> dict[str, str]:
    """Return the annotations that hold the files."""
    return {_annotation(number): content for number, content in enumerate(server.repository.values())}


def repository_volumes(server: RuntimeServer) -> list[Object]:
    """Return the volumes on which each file has its path."""
    fields = (f"metadata.annotations['{_annotation(number)}']" for number in range(len(server.repository)))
    held = zip(server.repository, fields, strict=True)
    files = {"downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": field}} for path, field in held]}}
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


def _annotation(number: int) -> str:
    """Return the annotation of a file; its path may hold more, and other, characters than a name of Kubernetes may."""
    return f"{GROUP}/repository-{number}"
