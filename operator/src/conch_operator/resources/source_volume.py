"""How a model's folder comes into an engine's pod, and where every container of the pod finds it.

A `path` is a folder inside the engine's own image, which the agent's container cannot see, so its small files are
copied for the agent. All other sources are volumes; what is downloaded lies on a claim, or in the pod's own space.
"""

from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from conch_contracts.dialects.encoder import ONNX_FILES
from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.spec.quantities import quantity_value
from conch_contracts.spec.source import DownloadCacheSpec
from conch_kit.bundles.archive import TOKENIZER_FILES
from conch_operator.download.folder_name import folder_name
from conch_operator.model_folder.encoder_files import SENTENCE_FILES
from conch_operator.model_folder.reader import needs_of
from conch_operator.resources.container_resources import COPYING, resources_beside
from conch_operator.resources.metadata import digest
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel

Object = dict[str, Any]

IMAGE_MODELS = "/models"
"""Below it an engine image may hold models."""
SOURCE_MOUNT = "/conch/source"
"""Where the agent finds the folder."""
_COPIED = (*TOKENIZER_FILES, *SENTENCE_FILES)
SOURCE_VOLUME = "source"
"""The name of the volume with the folder."""
_NOTES_BYTES = 64 * 1024 * 1024
"""Room for what a download leaves beside the files; a pod that takes more than its limit is evicted."""


@dataclass(frozen=True, slots=True)
class SourceVolume:
    """One model's folder, as pods see it."""

    engine_folder: str
    """In the engine's container."""
    agent_folder: str
    """In the agent's container."""
    volumes: tuple[Object, ...]
    engine_mounts: tuple[Object, ...] = ()
    agent_mounts: tuple[Object, ...] = ()
    download_mounts: tuple[Object, ...] = ()
    """In the container that downloads, where one does."""
    copies_from_image: bool = False
    """Whether an init container with the engine's image copies the small files for the agent."""


def source_volume(spec: ModelSpec) -> SourceVolume:
    """Return how a model's source comes into a pod."""
    source = spec.source
    if source.path is not None:
        return SourceVolume(
            engine_folder=f"{IMAGE_MODELS}/{source.path.lstrip('/')}",
            agent_folder=f"{SOURCE_MOUNT}/found",
            volumes=({"name": SOURCE_VOLUME, "emptyDir": {"sizeLimit": "512Mi"}},),
            agent_mounts=({"name": SOURCE_VOLUME, "mountPath": SOURCE_MOUNT, "readOnly": True},),
            copies_from_image=True,
        )
    if source.pvc is not None:
        # One claim is one volume; its mounts are read-only, but for that of what an engine compiles.
        kept_there = spec.compile_claim == source.pvc.claim_name
        claim = {"claimName": source.pvc.claim_name} | ({} if kept_there else {"readOnly": True})
        return _mounted({"name": SOURCE_VOLUME, "persistentVolumeClaim": claim}, source.pvc.path)
    if source.oci is not None:
        image = {"reference": source.oci.image, "pullPolicy": "IfNotPresent"}
        return _mounted({"name": SOURCE_VOLUME, "image": image}, source.oci.path)
    assert source.downloaded is not None
    mounted = _mounted(_download_volume(source.downloaded.cache), folder_name(spec))
    return replace(mounted, download_mounts=({"name": SOURCE_VOLUME, "mountPath": SOURCE_MOUNT},))


def source_hash(model: DesiredModel) -> str:
    """Return a short name for what the agent in a model's pod reads: two models with equal ones read the same.

    A `path` lies in the engine's image, so it is another folder in another image that the spec names.
    """
    spec = model.deployment.spec
    needs = needs_of(spec)
    image = spec.engine.image if spec.source.path is not None else None
    return digest([spec.source.model_dump(mode="json"), *needs.marks, image])


def copying_container(spec: ModelSpec, image: str, settings: EngineSettings) -> Object:
    """Return the init container that copies the small files of a folder in the engine's image for the agent.

    Weights are only named, by empty files, so that the agent can tell whether there are any. What is missing is for the
    agent to say, so this never fails because of the model.
    """
    found = f"{SOURCE_MOUNT}/found"
    folders = sorted({str(PurePosixPath(found, name).parent) for name in (*_COPIED, *ONNX_FILES)})
    script = (
        f'cd "$1" 2>/dev/null || {{ rmdir {found} 2>/dev/null; exit 0; }}; mkdir -p {" ".join(folders)}; '
        f'for name in {" ".join(_COPIED)}; do if [ -f "$name" ]; then cp "$name" "{found}/$name"; fi; done; '
        f'for name in *.safetensors {" ".join(ONNX_FILES)}; do if [ -f "$name" ]; then : >"{found}/$name"; fi; done'
    )
    return {
        "name": "files",
        "image": image,
        "command": ["/bin/sh", "-c", script, "files", f"{IMAGE_MODELS}/{(spec.source.path or '').lstrip('/')}"],
        "resources": resources_beside(COPYING, settings, spec.engine),
        "volumeMounts": [{"name": SOURCE_VOLUME, "mountPath": SOURCE_MOUNT}],
    }


def _download_volume(cache: DownloadCacheSpec | None) -> Object:
    if cache is not None and cache.claim_name is not None:
        return {"name": SOURCE_VOLUME, "persistentVolumeClaim": {"claimName": cache.claim_name}}
    if cache is not None and cache.size is not None:
        limit = int(quantity_value(cache.size)) + _NOTES_BYTES
        return {"name": SOURCE_VOLUME, "emptyDir": {"sizeLimit": str(limit)}}
    return {"name": SOURCE_VOLUME, "emptyDir": {}}


def _mounted(volume: Object, path: str | None) -> SourceVolume:
    folder = f"{SOURCE_MOUNT}/{path}" if path else SOURCE_MOUNT
    mount = {"name": SOURCE_VOLUME, "mountPath": SOURCE_MOUNT, "readOnly": True}
    return SourceVolume(folder, folder, (volume,), (mount,), (mount,))
