"""Why a Deployment's pods are not made: a quota, or a RuntimeClass that does not exist, shows in no pod.

The Deployment says it in a condition. Only one that lacks pods is asked, once they have had time to come, and seldom.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from conch_contracts.conditions import Reason
from conch_contracts.names import SPEC_HASH_LABEL
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import DEPLOYMENT, REPLICA_SET, Object
from conch_operator.kubernetes.pods.pod_status import one_line
from conch_operator.resources.metadata import template_hash
from conch_operator.state import Fault

SOON_S = 2.0
"""Until one that lacks pods is asked: most have them in less."""
ASK_AGAIN_S = 5.0
"""Until one that said why is asked again."""
SELDOM_S = 30.0
"""Between two questions to one that says nothing, at most; each comes after as long again as it has lacked pods."""
_REVISION = "deployment.kubernetes.io/revision"
_NO_LIMITS = "must specify limits"
"""A quota on limits says so; every container has requests, and all but the engine's have limits."""
_SET_LIMITS = "Set spec.engine.resources.limits for what it names; the pods are made then."
_NEXT_STEP = "Raise what limits them or correct what it names; they are made then."


@dataclass(frozen=True, slots=True)
class _Lacking:
    """A Deployment without all its pods."""

    spec_hash: str
    since_s: float
    ask_at_s: float
    fault: Fault | None = None


class CreationFailures:
    """Asks Deployments that lack pods."""

    def __init__(self, api: KubernetesApi, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._lacking: dict[tuple[str, str], _Lacking] = {}

    async def fault(self, made: Object, templates: Sequence[str], *, found: bool) -> Fault | None:
        """Return why pods of a Deployment are not made, if it says so; `templates`: the hash of each that stays.

        `found`: whether it was there before this operator, so that there may be a refusal already.
        """
        meta = made["metadata"]
        key, spec_hash, now = (meta["namespace"], meta["name"]), meta["labels"][SPEC_HASH_LABEL], self._clock()
        if has_all_pods(made, templates):
            self._lacking.pop(key, None)
            return None
        lacking = self._lacking.get(key)
        if lacking is None or lacking.spec_hash != spec_hash:
            lacking = self._lacking[key] = _Lacking(spec_hash, now, now if found else now + SOON_S)
        if now < lacking.ask_at_s:
            return lacking.fault
        try:
            live = await self._api.get(DEPLOYMENT, *key)
            fault = await self._creation_failure(live) if live is not None else None
        except ApiError:  # what its pods say does not depend on it
            fault = lacking.fault
        pause_s = ASK_AGAIN_S if fault is not None else min(SELDOM_S, max(SOON_S, now - lacking.since_s))
        self._lacking[key] = replace(lacking, ask_at_s=now + pause_s, fault=fault)
        return fault

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
        self._lacking = {key: lacking for key, lacking in self._lacking.items() if key in made}


def has_replica_set(annotations: Mapping[str, str]) -> bool:
    """Return whether a ReplicaSet was made for a Deployment with these annotations; before, it can tell of no pod."""
    return _REVISION in annotations


def has_all_pods(made: Object, templates: Sequence[str]) -> bool:
    """Return whether a Deployment has all its pods; `templates`: the hash of each that stays."""
    wanted: int = made["spec"]["replicas"]
    return templates.count(template_hash(made)) >= wanted


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
    return int(item["metadata"].get("annotations", {}).get(_REVISION, 0))


def _is_seen(deployment: Object) -> bool:
    """Return whether the status is about the last change."""
    seen: int = deployment.get("status", {}).get("observedGeneration", 0)
    return seen >= int(deployment["metadata"]["generation"])
