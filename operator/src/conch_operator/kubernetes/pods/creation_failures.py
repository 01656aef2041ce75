"""Why a Deployment's pods are not made: a quota, or a RuntimeClass that does not exist, shows in no pod.

The Deployment says it in a condition. Only one that lacks pods is asked, and seldom.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from conch_contracts.conditions import Reason
from conch_contracts.names import SPEC_HASH_LABEL
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import DEPLOYMENT, REPLICA_SET, Object
from conch_operator.kubernetes.pods.pod_status import one_line
from conch_operator.state import Fault

ASK_AGAIN_S = 5.0
SOON_S = 1.0
"""The same while it lacks pods and says nothing: a refusal is there a moment after the Deployment."""
_NO_LIMITS = "must specify limits"
"""A quota on limits says so; every container has requests, and all but the engine's have limits."""
_SET_LIMITS = "Set spec.engine.resources.limits for what it names; the pods are made then."
_NEXT_STEP = "Raise what limits them or correct what it names; they are made then."


@dataclass(frozen=True, slots=True)
class _Answer:
    spec_hash: str
    complete: bool
    fault: Fault | None
    at_s: float


class CreationFailures:
    """Asks Deployments that lack pods."""

    def __init__(self, api: KubernetesApi, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._answers: dict[tuple[str, str], _Answer] = {}

    async def fault(self, made: Object, present: int) -> Fault | None:
        """Return why pods of a Deployment are not made, if it says so; `present`: its pods that stay."""
        meta = made["metadata"]
        key, spec_hash = (meta["namespace"], meta["name"]), meta["labels"][SPEC_HASH_LABEL]
        answer, now = self._answers.get(key), self._clock()
        if self.is_complete(made, present):
            return None
        if answer is not None and answer.spec_hash == spec_hash:
            told = answer.complete or answer.fault is not None
            if now - answer.at_s < (ASK_AGAIN_S if told else SOON_S):
                return answer.fault
        try:
            live = await self._api.get(DEPLOYMENT, *key)
            complete = live is not None and is_complete(live)
            fault = await self._creation_failure(live) if live is not None else None
        except ApiError:  # what its pods say does not depend on it
            return answer.fault if answer is not None and answer.spec_hash == spec_hash else None
        self._answers[key] = _Answer(spec_hash, complete, fault, now)
        return fault

    def is_complete(self, made: Object, present: int) -> bool:
        """Return whether a Deployment is known to have got all its pods, and has them; `present` as in `fault`."""
        meta = made["metadata"]
        answer = self._answers.get((meta["namespace"], meta["name"]))
        known = answer is not None and answer.complete and answer.spec_hash == meta["labels"][SPEC_HASH_LABEL]
        return known and present >= made["spec"]["replicas"]

    async def _creation_failure(self, deployment: Object) -> Fault | None:
        """Return why pods of a Deployment's last change are not made: its own condition may tell of one before."""
        if creation_failure(deployment) is None:
            return None
        meta, labels = deployment["metadata"], deployment["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        sets = await self._api.list_all(REPLICA_SET, meta["namespace"], labels=selector)
        own = [each for each in sets if _is_owned(each, meta["uid"])]
        return refusal_of(max(own, key=_revision)) if own else creation_failure(deployment)

    def keep_only(self, made: set[tuple[str, str]]) -> None:
        """Forget all Deployments but these, by namespace and name."""
        self._answers = {key: answer for key, answer in self._answers.items() if key in made}


def is_complete(deployment: Object) -> bool:
    """Return whether all pods of a Deployment have been made after its last change."""
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    return _is_seen(deployment) and min(status.get("updatedReplicas", 0), status.get("replicas", 0)) >= wanted


def creation_failure(deployment: Object) -> Fault | None:
    """Return why pods that a Deployment lacks cannot be made; None where none lacks or nothing is known."""
    if not _is_seen(deployment) or is_complete(deployment):
        return None
    return refusal_of(deployment)


def refusal_of(item: Object) -> Fault | None:
    """Return why a Deployment or a ReplicaSet says that its pods cannot be made."""
    for condition in item.get("status", {}).get("conditions", ()):
        if (condition["type"], condition["status"]) == ("ReplicaFailure", "True"):
            cause = one_line(condition.get("message", "")).rstrip(".")
            step = _SET_LIMITS if _NO_LIMITS in cause else _NEXT_STEP
            return Fault(Reason.REJECTED, f"The API server refuses the engine's pods: {cause}. {step}")
    return None


def _is_owned(item: Object, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", ()))


def _revision(item: Object) -> int:
    return int(item["metadata"].get("annotations", {}).get("deployment.kubernetes.io/revision", 0))


def _is_seen(deployment: Object) -> bool:
    """Return whether the status is about the last change."""
    seen: int = deployment.get("status", {}).get("observedGeneration", 0)
    return seen >= int(deployment["metadata"]["generation"])
