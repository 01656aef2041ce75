"""The init container that downloads a model's files, from the operator's own image.

Tokens and keys come into it by reference to their Secrets and into nothing else. Its termination message is what the
model's condition says.
"""

from typing import Any

from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.spec.quantities import quantity_value
from conch_operator.download.file_selection import selection_for
from conch_operator.resources.container_resources import DOWNLOADING, resources_beside
from conch_operator.resources.source_volume import SourceVolume
from conch_operator.settings import EngineSettings

Object = dict[str, Any]

DOWNLOAD = "download"
_MESSAGE_FILE = "/dev/termination-log"
_NEEDED_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_FURTHER_KEYS = ("AWS_SESSION_TOKEN", "AWS_REGION")


def download_container(spec: ModelSpec, source: SourceVolume, settings: EngineSettings) -> Object:
    """Return the container, for a source whose files are downloaded."""
    wanted = spec.source.downloaded
    assert wanted is not None
    env = {
        "HOME": "/tmp",
        "CONCH_SOURCE": spec.source.model_dump_json(by_alias=True, exclude_none=True),
        "CONCH_FOLDER": source.agent_folder,
        "CONCH_SELECTION": str(selection_for(spec)),
        "CONCH_MESSAGE_FILE": _MESSAGE_FILE,
        **settings.downloads.env,
    }
    if wanted.cache is not None and wanted.cache.size is not None:
        env["CONCH_LIMIT_BYTES"] = str(int(quantity_value(wanted.cache.size)))
    if settings.downloads.ca_bundle:
        env["CONCH_CA_BUNDLE"] = settings.downloads.ca_bundle
    plain = [{"name": name, "value": value} for name, value in env.items()]
    return {
        "name": DOWNLOAD,
        "image": settings.agent_image,
        "command": ["conch-download"],
        "env": [*plain, *_rules(spec, settings), *_secrets(spec)],
        "resources": resources_beside(DOWNLOADING, settings, spec.engine),
        "volumeMounts": [*source.download_mounts, {"name": "tmp", "mountPath": "/tmp"}],
    }


def _rules(spec: ModelSpec, settings: EngineSettings) -> list[Object]:
    """Return which addresses may be connected to, where the source names a server of its own."""
    if settings.addresses is None or spec.source.s3 is None or spec.source.s3.endpoint is None:
        return []
    return [
        {"name": "CONCH_ADDRESS_RULES", "value": settings.addresses.model_dump_json(by_alias=True)},
        {"name": "CONCH_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
    ]


def _secrets(spec: ModelSpec) -> list[Object]:
    hub, bucket = spec.source.hugging_face, spec.source.s3
    if hub is not None and hub.token_secret_ref is not None:
        return [_from_secret("HF_TOKEN", hub.token_secret_ref.name, hub.token_secret_ref.key)]
    if bucket is not None and bucket.credentials_secret_ref is not None:
        name = bucket.credentials_secret_ref.name
        needed = [_from_secret(key, name, key) for key in _NEEDED_KEYS]
        return needed + [_from_secret(key, name, key, optional=True) for key in _FURTHER_KEYS]
    return []


def _from_secret(variable: str, name: str, key: str, *, optional: bool = False) -> Object:
    reference: Object = {"name": name, "key": key} | ({"optional": True} if optional else {})
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}
