"""What the node says about a pod that does not start, where its own status says nothing: volumes and pull secrets.

Only such pods are asked about, and seldom, all of a namespace at once: for each list the API server reads all Events
there are. Secrets are not read: the node's Events name those that it misses.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from conch_contracts.conditions import Reason
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import CORE_EVENT, Object
from conch_operator.kubernetes.pods.pod_status import missing_object, one_line, pod_fault, statuses_of, was_started
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.state import EngineName, Fault

ASK_AGAIN_S = 5.0
FIRST_S = 1.0
"""After which a pod that waits is asked about: most wait for less. No namespace is asked more often than this."""
_OF_PODS = "involvedObject.kind=Pod,type=Warning"
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
        self._questions: CallsInFlight[str, list[Object] | None] = CallsInFlight(background)
        self._asked_at_s: dict[str, float] = {}
        """When the Events of each namespace were last asked for that may not be asked again yet."""
        self._answers: dict[EngineName, _Answer] = {}
        self._waiting_since_s: dict[EngineName, float] = {}

    async def faults(self, pods: Mapping[EngineName, Object]) -> dict[EngineName, Fault]:
        """Return what stops these pods from starting, as far as Events tell."""
        waiting = {name: pod for name, pod in pods.items() if is_waiting(pod)}
        self._answers = {name: answer for name, answer in self._answers.items() if name in waiting}
        now = self._clock()
        self._waiting_since_s = {name: self._waiting_since_s.get(name, now) for name in waiting}
        self._asked_at_s = {place: at_s for place, at_s in self._asked_at_s.items() if now - at_s < FIRST_S}
        due = {pod["metadata"]["namespace"] for name, pod in waiting.items() if self._is_due(name, pod, now)}
        said = await self._questions.run({namespace: partial(self._ask, namespace) for namespace in due})
        for namespace, events in said.items():
            self._note(namespace, events, waiting, now)
        return {name: answer.fault for name, answer in self._answers.items() if answer.fault is not None}

    def _is_due(self, name: EngineName, pod: Object, now: float) -> bool:
        if pod["metadata"]["namespace"] in self._asked_at_s:
            return False
        answer = self._answers.get(name)
        return self._has_waited(name, now) if answer is None else now - answer.at_s >= ASK_AGAIN_S

    def _has_waited(self, name: EngineName, now: float) -> bool:
        return now - self._waiting_since_s[name] >= FIRST_S

    async def _ask(self, namespace: str) -> list[Object] | None:
        self._asked_at_s[namespace] = self._clock()
        try:
            return await self._api.list_all(CORE_EVENT, namespace, fields=_OF_PODS)
        except ApiError:
            return None  # the status of each pod says what it can without them

    def _note(
        self, namespace: str, events: list[Object] | None, waiting: Mapping[EngineName, Object], now: float
    ) -> None:
        """Keep what Events say about each pod that has waited there; without them, what was known of it."""
        about: dict[str, list[Object]] = {}
        for event in events or ():
            about.setdefault(event["involvedObject"].get("uid", ""), []).append(event)
        for name, pod in waiting.items():
            if pod["metadata"]["namespace"] != namespace or not self._has_waited(name, now):
                continue
            before = self._answers.get(name)
            known = None if before is None else before.fault
            fault = known if events is None else event_fault(pod, about.get(pod["metadata"]["uid"], ()))
            self._answers[name] = _Answer(fault, now)


def is_waiting(pod: Object) -> bool:
    """Return whether a pod has a node but none of its containers has run, or its image cannot be pulled."""
    if "deletionTimestamp" in pod["metadata"] or pod.get("status", {}).get("phase") != "Pending":
        return False
    fault = pod_fault(pod)
    if fault is not None:
        return fault.reason is Reason.IMAGE_PULL_FAILED
    return not any(was_started(status.get("state", {})) for status in statuses_of(pod))


def event_fault(pod: Object, events: Iterable[Object]) -> Fault | None:
    """Return what the last Event of a pod that names a cause says; a mount counts once it has failed twice.

    One that failed before an image was pulled has succeeded since.
    """
    pull = pod_fault(pod)
    for event in sorted(events, key=_when, reverse=True):
        message = one_line(str(event.get("message", "")))
        if event.get("reason") in _MOUNT_REASONS and _count(event) > 1 and pull is None:
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
