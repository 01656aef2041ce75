"""From the ModelDeployments that the API server lists to what is wanted, and what was last said about each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from conch_contracts.modeldeployment import parse_stored
from conch_contracts.names import API_VERSION, KIND, ModelId
from conch_contracts.problems import InvalidObject
from conch_contracts.records import ModelKind
from conch_operator.kubernetes.api.kinds import Object
from conch_operator.reconcile.status import ModelStatus
from conch_operator.state import Desired, DesiredModel, Unreadable


@dataclass(frozen=True, slots=True)
class Wanted:
    """All ModelDeployments of one listing."""

    desired: Desired
    objects: dict[ModelId, Object]
    unknown: dict[ModelId, tuple[str, ...]] = field(default_factory=dict)
    """Fields of some that are ignored: a newer version knows them."""

    @property
    def kinds(self) -> frozenset[ModelKind]:
        """Return the kinds of all models, also of those that cannot be read otherwise."""
        known = {kind.value: kind for kind in ModelKind}
        said = (known.get(str((item.get("spec") or {}).get("kind"))) for item in self.objects.values())
        return frozenset(kind for kind in said if kind is not None)

    def statuses(self, said: Mapping[str, ModelStatus] = MappingProxyType({})) -> dict[ModelId, ModelStatus]:
        """Return what was last said about each: what is in `said` by its uid, else what its object carries."""
        found = (
            (model, said.get(item["metadata"]["uid"]) or read_status(model, item))
            for model, item in self.objects.items()
        )
        return {model: status for model, status in found if status is not None}


@dataclass(frozen=True, slots=True)
class _Read:
    """What an object's spec came to."""

    wanted: DesiredModel | Unreadable
    ignored: tuple[str, ...] = ()


class SpecReader:
    """Reads what objects want, each generation of one once: a round asks for it anew, of each model."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _Read] = {}

    def read(self, items: list[Object], *, namespaced: bool = False) -> Wanted:
        """Return what these objects want; those that are being deleted want nothing any more."""
        models: list[DesiredModel] = []
        objects: dict[ModelId, Object] = {}
        unreadable: dict[ModelId, Unreadable] = {}
        unknown: dict[ModelId, tuple[str, ...]] = {}
        before, self._known = self._known, {}
        for item in items:
            meta = item["metadata"]
            if "deletionTimestamp" in meta:
                continue
            model = ModelId(f"{meta['namespace']}/{meta['name']}")
            objects[model] = item
            key = meta["uid"], meta["generation"]
            read = self._known[key] = before.get(key) or _read(item)
            if isinstance(read.wanted, Unreadable):
                unreadable[model] = read.wanted
                continue
            if read.ignored:
                unknown[model] = read.ignored
            models.append(read.wanted)
        return Wanted(Desired(tuple(models), unreadable, namespaced=namespaced), objects, unknown)


def read_wanted(items: list[Object]) -> Wanted:
    """Return what these objects want, once."""
    return SpecReader().read(items)


def read_status(model: ModelId, item: Object) -> ModelStatus | None:
    """Return the status that an operator has written; None when there is none that can be read.

    Until then the object carries what its definition says, which is about no generation.
    """
    status = item.get("status") or {}
    if not status.get("observedGeneration"):
        return None
    try:
        return ModelStatus(
            model_id=model,
            observed_generation=status["observedGeneration"],
            served_names=status.get("servedNames", ()),
            replicas=status.get("replicas", 0),
            ready_replicas=status.get("readyReplicas", 0),
            updated_replicas=status.get("updatedReplicas", 0),
            wanted_replicas=status.get("wantedReplicas", 0),
            scaling=status.get("scaling"),
            last_progress_time=status.get("lastProgressTime"),
            tokenizer_digest=status.get("tokenizerDigest"),
            conditions=status["conditions"],
        )
    except (KeyError, ValidationError):
        return None


def _read(item: Object) -> _Read:
    meta = item["metadata"]
    try:
        stored = {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": item.get("spec")}
        deployment, ignored = parse_stored(stored)
    except InvalidObject as error:
        return _Read(Unreadable(str(error), meta["generation"]))
    created = int(datetime.fromisoformat(meta["creationTimestamp"]).timestamp())
    return _Read(DesiredModel(deployment, Path("/"), created, meta["generation"], meta["uid"]), ignored)
