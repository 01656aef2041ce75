"""What the node says about a pod that does not start, where its own status says nothing: volumes and pull secrets.

Only such pods are asked about, and seldom. Secrets are not read: the node's Events name those that it misses.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from conch_contracts.conditions import Reason
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import CORE_EVENT, Object
from conch_operator.kubernetes.pods.pod_status import missing_object, one_line, pod_fault, statuses_of
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.state import EngineName, Fault

ASK_AGAIN_S = 5.0
FIRST_S = 1.0
"""After which a pod that waits is asked about: most wait for less, and for each question the API server reads all
Events of the namespace."""
_MOUNT_REASONS = ("FailedMount", "FailedAttachVolume")
_PULL_SECRET_REASON = "FailedToRetrieveImagePullSecret"
_SECRET_NAMES = re.compile(r"secrets? \((?P<names>[^)]+)\)")


@dataclass(frozen=True, slots=True)
class _Answer:
    fault: Fault | None
    at_s: float


class PodEvents:
    """Asks for the Events of pods that wait for something."""

    def __init__(
        self, api: KubernetesApi, clock: Callable[[], float] = time.monotonic, background: Background = AWAITED
    ) -> None:
        self._api = api
        self._clock = clock
        self._questions: CallsInFlight[EngineName, _Answer] = CallsInFlight(background)
        self._answers: dict[EngineName, _Answer] = {}
        self._waiting_since_s: dict[EngineName, float] = {}

    async def faults(self, pods: Mapping[EngineName, Object]) -> dict[EngineName, Fault]:
        """Return what stops these pods from starting, as far as Events tell."""
        waiting = {name: pod for name, pod in pods.items() if is_waiting(pod)}
        self._answers = {name: answer for name, answer in self._answers.items() if name in waiting}
        now = self._clock()
        self._waiting_since_s = {name: self._waiting_since_s.get(name, now) for name in waiting}
        due = {name: pod for name, pod in waiting.items() if self._is_due(name, now)}
        answers = await self._questions.run({name: partial(self._ask, name, pod, now) for name, pod in due.items()})
        self._answers |= {name: answer for name, answer in answers.items() if name in waiting}
        return {name: answer.fault for name, answer in self._answers.items() if answer.fault is not None}

    def _is_due(self, name: EngineName, now: float) -> bool:
        answer = self._answers.get(name)
        if answer is None:
            return now - self._waiting_since_s[name] >= FIRST_S
        return now - answer.at_s >= ASK_AGAIN_S

    async def _ask(self, name: EngineName, pod: Object, now: float) -> _Answer:
        meta, before = pod["metadata"], self._answers.get(name)
        try:
            events = await self._api.list_all(CORE_EVENT, meta["namespace"], fields=f"involvedObject.uid={meta['uid']}")
        except ApiError:
            fault = before.fault if before is not None else None  # the pod's status says what it can without them
            return _Answer(fault, now)
        return _Answer(event_fault(pod, events), now)


def is_waiting(pod: Object) -> bool:
    """Return whether a pod has a node but none of its containers has run, or its image cannot be pulled."""
    if "deletionTimestamp" in pod["metadata"] or pod.get("status", {}).get("phase") != "Pending":
        return False
    fault = pod_fault(pod)
    if fault is not None:
        return fault.reason is Reason.IMAGE_PULL_FAILED
    return not any(
        state in status.get("state", {}) for status in statuses_of(pod) for state in ("running", "terminated")
    )


def event_fault(pod: Object, events: Iterable[Object]) -> Fault | None:
    """Return what the last Event of a pod that names a cause says; a mount counts once it has failed twice."""
    pull = pod_fault(pod)
    for event in sorted(events, key=_when, reverse=True):
        message = one_line(str(event.get("message", "")))
        if event.get("reason") in _MOUNT_REASONS and _count(event) > 1:
            return missing_object(message) or Fault(Reason.VOLUME_NOT_MOUNTED, message)
        if event.get("reason") == _PULL_SECRET_REASON and pull is not None:
            found = _SECRET_NAMES.search(message)
            names = found["names"] if found is not None else "for its image"
            return Fault(Reason.SECRET_NOT_FOUND, f"The Secret {names} is missing. Create it. {pull.message}")
    return None


def _when(event: Object) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")


def _count(event: Object) -> int:
    return max(int(event.get("count") or 1), int((event.get("series") or {}).get("count") or 1))
