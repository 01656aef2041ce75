"""Where a model's files come from, and the tokenizer's settings."""

import re
import unicodedata
from typing import Annotated, ClassVar

from pydantic import Field

from conch_contracts.records import ContentFormat
from conch_contracts.spec.addresses import HttpUrl
from conch_contracts.spec.container import ImageReference
from conch_contracts.spec.fields import DataKey, ObjectName, RelativePath, SpecPart
from conch_contracts.spec.quantities import ByteSize
from conch_contracts.spec.rule_types import Obeys, Rule, fields_set_in, matching, one_of, rule

CLIMBS = (
    "path must stay below /models of the engine's image on a cluster: write it relative to that folder, without a "
    "slash at its start and without parts that are two dots"
)

_INVISIBLE = ("Cc", "Cf", "Zl", "Zp")
"""Categories of Unicode: control and format characters, separators of lines and of paragraphs."""

PathString = Annotated[
    str,
    Field(min_length=1, max_length=4096),
    Obeys(
        Rule(
            cel=r"!self.matches(r'[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]')",
            message="must not hold line breaks or characters that cannot be seen: write the path anew by hand",
            holds=lambda path: not any(unicodedata.category(character) in _INVISIBLE for character in path),
        )
    ),
    Obeys(
        Rule(
            cel=r"!self.matches(r'^[A-Za-z][A-Za-z0-9+.-]*://')",
            message="must be a path and no URL: remove the scheme, or use huggingFace, s3 or oci for what is elsewhere",
            holds=lambda path: re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is None,
        )
    ),
]
RepositoryId = Annotated[
    str,
    Field(max_length=193),
    matching(
        r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?",
        "must be a repository as owner/name, such as Qwen/Qwen3-0.6B, without the Hub's address",
    ),
]
Revision = Annotated[
    str,
    Field(max_length=200),
    matching("[A-Za-z0-9][A-Za-z0-9._/-]*", "must be a branch, a tag or a commit, such as main"),
]
BucketUri = Annotated[
    str,
    Field(max_length=1024),
    matching(
        r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
        r"(/[A-Za-z0-9_@+=!,()&$;*~-]([A-Za-z0-9._@+=!,()&$;*~ -]*[A-Za-z0-9._@+=!,()&$;*~-])?)*/?",
        "must be s3://bucket/folder: a bucket's name has 3 to 63 lower-case letters, digits, dots and dashes, a folder "
        "has ASCII letters, digits, spaces and _@+=!,()&$;*~.-, and no part of it begins with a dot",
    ),
]


class SecretKeyRef(SpecPart):
    """One key of a Secret in the ModelDeployment's namespace."""

    name: ObjectName
    """The Secret's name."""
    key: DataKey = "token"
    """The key in it. Default: token."""


class SecretRef(SpecPart):
    """A Secret in the ModelDeployment's namespace."""

    name: ObjectName
    """The Secret's name."""


class ConfigMapKeyRef(SpecPart):
    """One key of a ConfigMap in the ModelDeployment's namespace."""

    name: ObjectName
    """The ConfigMap's name."""
    key: DataKey
    """The key in it."""


class DownloadCacheSpec(SpecPart):
    """Where downloaded files are kept: on a claim, else in each pod's own space on its node's disk."""

    claim_name: ObjectName | None = None
    """A PersistentVolumeClaim in the ModelDeployment's namespace. Whatever pods mount it share what one has downloaded,
    and find it again later. On a cluster only. Default: each pod downloads for itself."""
    size: ByteSize | None = None
    """The most that a pod may take of its node's disk. On a cluster only. Default: as much as there is."""

    @rule(
        cel="!has(self.claimName) || !has(self.size)",
        message="size is for pods that download for themselves, a claim has its own: remove size or claimName",
    )
    def _claims_have_their_own_size(self) -> bool:
        return self.claim_name is None or self.size is None


class HuggingFaceSource(SpecPart):
    """A model repository on the Hugging Face Hub, or on the mirror that the cluster's settings name."""

    repo: RepositoryId
    """The repository, such as Qwen/Qwen3-0.6B."""
    revision: Revision = "main"
    """A branch, tag or commit; a commit makes every download the same. Default: main."""
    token_secret_ref: SecretKeyRef | None = None
    """The access token for a private or gated repository; on a laptop it is the variable HF_TOKEN. Default: none."""
    cache: DownloadCacheSpec | None = None
    """Where the files are kept. Default: each pod downloads for itself."""

    @rule(
        cel="!self.repo.contains('..') && !self.revision.contains('..')",
        message="repo and revision must not hold two dots in a row: write them as the Hub's page shows them",
    )
    def _no_two_dots(self) -> bool:
        return ".." not in self.repo and ".." not in self.revision


class S3Source(SpecPart):
    """A folder in an S3 bucket, or in a server that speaks its protocol."""

    uri: BucketUri
    """The folder, such as s3://bucket/models/qwen3."""
    endpoint: HttpUrl | None = None
    """The server's URL, such as https://minio.example.com:9000. Default: AWS."""
    credentials_secret_ref: SecretRef | None = None
    """A Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN and AWS_REGION where
    they are needed; on a laptop these are variables. Default: the bucket is read anonymously."""
    cache: DownloadCacheSpec | None = None
    """Where the files are kept. Default: each pod downloads for itself."""


class PvcSource(SpecPart):
    """A folder on a PersistentVolumeClaim in the ModelDeployment's namespace; it is mounted read-only."""

    claim_name: ObjectName
    """The claim's name."""
    path: RelativePath | None = None
    """The folder on the volume. Default: its root."""


class OciSource(SpecPart):
    """A folder in an OCI image."""

    image: ImageReference
    """The image; a digest makes every start the same. It is pulled with engine.imagePullSecrets."""
    path: RelativePath | None = None
    """The folder in the image. Default: its root."""


class SourceSpec(SpecPart):
    """Where the model's files come from; exactly one field is set."""

    hugging_face: HuggingFaceSource | None = None
    """Download from the Hugging Face Hub."""
    s3: S3Source | None = None
    """Download from a bucket."""
    pvc: PvcSource | None = None
    """Read a volume. On a cluster only."""
    oci: OciSource | None = None
    """Read an image. On a cluster only."""
    path: PathString | None = None
    """A Hugging Face folder: relative to the file that names it on a laptop, below the engine image's /models on a
    cluster. With an external engine only its tokenizer and config files are read."""

    one_source: ClassVar[Rule] = one_of("huggingFace", "s3", "pvc", "oci", "path")

    @rule(
        cel=r"!has(self.path) || !self.path.matches(r'^/|(^|/)\.\.(/|$)')",
        message=CLIMBS,
    )
    def _stays_below_models(self) -> bool:
        return True  # On a laptop a path may lead anywhere; the operator on a cluster asks `climbs`.

    @property
    def climbs(self) -> bool:
        """Return whether the path begins at the root or has a part that leads up."""
        return (self.path or "").startswith("/") or ".." in (self.path or "").split("/")

    @property
    def downloaded(self) -> HuggingFaceSource | S3Source | None:
        """Return the source whose files are downloaded; None where they are there already."""
        return self.hugging_face or self.s3

    @property
    def claim_name(self) -> str | None:
        """Return the claim on which the files lie, or are kept; None where there is none."""
        if self.pvc is not None:
            return self.pvc.claim_name
        return self.downloaded.cache.claim_name if self.downloaded and self.downloaded.cache else None

    @property
    def named(self) -> str:
        """Return the name of the field that is set."""
        return fields_set_in(self)[0]


class ChatTemplateSpec(SpecPart):
    """A chat template that replaces the one in the model's folder; exactly one field is set."""

    inline: Annotated[str, Field(min_length=1, max_length=131_072)] | None = None
    """The Jinja template itself."""
    file: PathString | None = None
    """A .jinja file, relative to the file that names it. On a laptop only."""
    config_map_key_ref: ConfigMapKeyRef | None = None
    """A key of a ConfigMap that holds the template. On a cluster only."""

    one_template: ClassVar[Rule] = one_of("inline", "file", "configMapKeyRef")


class TokenizerSpec(SpecPart):
    """Settings of the model's tokenizer."""

    chat_template: ChatTemplateSpec | None = None
    """The chat template to use. Default: the one in the model's folder."""
    content_format: ContentFormat = ContentFormat.AUTO
    """What the chat template gets as the content of a message: string, one text with the parts joined by line breaks;
    openai, a list of parts; auto, what the template takes, which its loops over the content show. Default: auto."""
