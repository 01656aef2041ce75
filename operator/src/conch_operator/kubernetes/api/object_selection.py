"""Which objects are listed and watched together, and what lists and watches say of them."""

from dataclasses import dataclass

from conch_operator.kubernetes.api.kinds import Kind, Object

_LIST_OF_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """The objects of a kind, in a namespace or everywhere, that have some labels."""

    kind: Kind
    namespace: str | None
    labels: str | None = None
    """A selector of `name=value` and `name`, with commas between."""
    metadata_only: bool = False

    @property
    def path(self) -> str:
        """Return where the API serves them."""
        return self.kind.path(self.namespace)

    @property
    def query(self) -> dict[str, str]:
        """Return what chooses them there."""
        return {"labelSelector": self.labels} if self.labels else {}

    def headers(self, *, watch: bool) -> dict[str, str]:
        """Return in which form they are asked for."""
        if not self.metadata_only:
            return {}
        return {"Accept": _METADATA if watch else _LIST_OF_METADATA}

    def has(self, item: Object) -> bool:
        """Return whether an object, which says its kind, is one of them."""
        if (item.get("apiVersion"), item.get("kind")) != (self.kind.api_version, self.kind.name):
            return False
        meta = item["metadata"]
        if self.namespace not in (None, meta["namespace"]):
            return False
        return all(_is_met(part, meta.get("labels", {})) for part in (self.labels or "").split(",") if part)

    def trimmed(self, item: Object) -> Object:
        """Return of an object what is worth keeping: nobody here reads who manages its fields."""
        meta = {name: value for name, value in item["metadata"].items() if name != "managedFields"}
        return {"metadata": meta} if self.metadata_only else item | {"metadata": meta}


@dataclass(frozen=True, slots=True)
class Listed:
    """A complete list, and the version of the collection that it shows."""

    items: list[Object]
    version: str


@dataclass(frozen=True, slots=True)
class Event:
    """What a watch says of one object; a bookmark has a version and nothing else."""

    type: str
    object: Object


def _is_met(part: str, labels: dict[str, str]) -> bool:
    name, equals, value = part.partition("=")
    return name in labels and (not equals or labels[name] == value)
