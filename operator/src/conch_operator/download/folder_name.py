"""Pure: the name of the folder that a download goes to. Models that need the same files of one source share it."""

import hashlib
import json
import re

from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.spec.source import S3Source
from conch_operator.download.file_selection import selection_for

_OF_THE_COPY = {"cache", "tokenSecretRef", "credentialsSecretRef"}
"""Fields that say nothing about the files."""


def folder_name(spec: ModelSpec) -> str:
    """Return the name of the folder for a model's files, recognisable and unlike that of any other files."""
    source = spec.source.downloaded
    assert source is not None
    described = source.model_dump(mode="json", by_alias=True, exclude_none=True)
    identity = {name: value for name, value in described.items() if name not in _OF_THE_COPY}
    text = json.dumps([spec.source.named, identity, selection_for(spec)], sort_keys=True)
    title = source.uri.removeprefix("s3://") if isinstance(source, S3Source) else source.repo
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", title)[-60:].strip("-.")
    return f"{slug}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
