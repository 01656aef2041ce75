"""Tells the pods that were made for a model from others that have the same labels, which anybody may give to a pod.

A model's pod is controlled by a ReplicaSet, that by a Deployment of the same labels, and that is a ModelDeployment's.
The same is true of the pod of an EnginePool.
A pod may be seen a little before its ReplicaSet. A pod that was told once stays told as long as it has the same
ReplicaSet: when a model is deleted, its Deployment goes before the pods have ended.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from conch_contracts.names import (
    COMPONENT_LABEL,
    GROUP,
    KIND,
    MODEL_LABEL,
    POOL_KIND,
    POOL_LABEL,
)
from conch_operator.kubernetes.api.client import KubernetesApi
from conch_operator.kubernetes.api.kinds import DEPLOYMENT, REPLICA_SET, Kind, Object
from conch_operator.kubernetes.api.owned_objects import selector_of
from conch_operator.state import EngineName

log = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""How long the ReplicaSet of a pod may not be known before the pod is called foreign."""

_Told = tuple[str, str]
"""The uid of a pod and that of its ReplicaSet."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """What is made for objects of one kind, and has a label with the name of its owner."""

    kind: str
    label: str

    @property
    def selector(self) -> str:
        """Return the label selector of all that we made for such objects."""
        return selector_of(self.label)


OF_MODELS = Labelled(KIND, MODEL_LABEL)
OF_POOLS = Labelled(POOL_KIND, POOL_LABEL)


class PodOwners:
    """Remembers which pods are models'."""

    def __init__(
        self,
        api: KubernetesApi,
        namespaces: Sequence[str | None],
        clock: Callable[[], float] = time.monotonic,
        labelled: Labelled = OF_MODELS,
    ) -> None:
        self._api = api
        self._labelled = labelled
        self._namespaces = namespaces
        self._clock = clock
        self._deployments: dict[str, str] = {}
        """The uid of each ReplicaSet with that of the Deployment that controls it."""
        self._owners: Mapping[str, Object] = {}
        """The Deployments that are models', by their uids, when they were last looked at."""
        self._told: set[_Told] = set()
        self._unknown_since_s: dict[str, float] = {}
        self._foreign: set[str] = set()

    async def only_models(
        self, pods: Mapping[EngineName, Object], deployments: Iterable[Object]
    ) -> dict[EngineName, Object]:
        """Return those pods that are models'; `deployments`: those that are there.

        Raises ApiError when the ReplicaSets are not known completely.
        """
        owners = self._owners = {item["metadata"]["uid"]: item for item in deployments if self._is_of_ours(item)}
        self._told &= {told for pod in pods.values() if (told := _told(pod)) is not None}
        if not all(self._is_known(pod, owners) for pod in pods.values()):
            self._deployments = await self._controllers()
        found = {name: pod for name, pod in pods.items() if self._is_known(pod, owners)}
        self._told |= {told for pod in found.values() if (told := _told(pod)) is not None}
        self._note_foreign({name: pod for name, pod in pods.items() if name not in found})
        return found

    def is_models(self, pod: Object) -> bool:
        """Return whether a pod is known to be a model's, by what was looked at last."""
        return self._is_known(pod, self._owners)

    def _is_known(self, pod: Object, owners: Mapping[str, Object]) -> bool:
        told = _told(pod)
        if told is None:
            return False
        owner = owners.get(self._deployments.get(told[1], ""))
        return told in self._told or (owner is not None and self._place(owner) == self._place(pod))

    def _is_of_ours(self, deployment: Object) -> bool:
        owners = deployment["metadata"].get("ownerReferences", ())
        return any(owner["kind"] == self._labelled.kind and _group(owner) == GROUP for owner in owners)

    def _place(self, item: Object) -> tuple[str, str | None, str | None]:
        labels = item["metadata"].get("labels", {})
        return item["metadata"]["namespace"], labels.get(self._labelled.label), labels.get(COMPONENT_LABEL)

    async def _controllers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for namespace in self._namespaces:
            for item in await self._api.list_watched(
                REPLICA_SET, namespace, labels=self._labelled.selector, metadata_only=True
            ):
                if (controller := _controller(item, DEPLOYMENT)) is not None:
                    found[item["metadata"]["uid"]] = controller
        return found

    def _note_foreign(self, pods: Mapping[EngineName, Object]) -> None:
        """Log each once, when its ReplicaSet has had time to be seen; one that ends may be a deleted model's."""
        staying = {name: pod["metadata"] for name, pod in pods.items() if "deletionTimestamp" not in pod["metadata"]}
        now, uids = self._clock(), {name: meta["uid"] for name, meta in staying.items()}
        self._unknown_since_s = {uid: self._unknown_since_s.get(uid, now) for uid in uids.values()}
        foreign = {uid for uid, since_s in self._unknown_since_s.items() if now - since_s >= PATIENCE_S}
        for name, uid in uids.items():
            if uid in foreign - self._foreign:
                log.warning(
                    "A pod has the labels of a model's pod, but was not made for it: it is asked nothing and gets no "
                    "requests. Take the labels away, or delete the pod.",
                    extra={"pod": name},
                )
        self._foreign = foreign


def _told(pod: Object) -> _Told | None:
    controller = _controller(pod, REPLICA_SET)
    return None if controller is None else (pod["metadata"]["uid"], controller)


def _controller(item: Object, kind: Kind) -> str | None:
    """Return the uid of what controls an object, if that is of this kind."""
    for owner in item["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and owner["kind"] == kind.name and _group(owner) == kind.group:
            uid: str = owner["uid"]
            return uid
    return None


def _group(owner: Object) -> str:
    return str(owner["apiVersion"]).rpartition("/")[0]
