"""Writes the status of each ModelDeployment, and an Event when its readiness changes or its rollout is stuck.

Nothing is written that the object says already. A turn, such as that a model serves or why it cannot, is written at
once; what is only said on the way waits for more of it, so that a model that starts quickly is not written of again and
again. What gets no answer is tried again, and holds up no other model.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from conch_contracts.conditions import ON_THE_WAY, Condition, ConditionStatus, ConditionType, Reason
from conch_contracts.names import ModelId
from conch_contracts.spec.status import ModelDeploymentStatus
from conch_operator.kubernetes.api import object_events
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, Object
from conch_operator.kubernetes.desired_models import Wanted, read_status
from conch_operator.reconcile.calls_in_flight import AGAIN_S, AWAITED, Background, CallsInFlight
from conch_operator.reconcile.status import ModelStatus
from conch_operator.resources.metadata import selector_text

log = logging.getLogger(__name__)

WORDS_S = 1.0
"""How long what is said of a model waits for more, where it is no turn."""
WORDS_PER_S = 5.0
"""So many words of all models on their way are written at most, the longest waiting first: of many that start at once
most serve before their turn. Where a model has come to stay, at rest for instance, is said after `WORDS_S`."""
SAVED_S = 10.0
"""For so long words that were not written count for later ones."""

TOLD_FOR_S = 3600.0
"""How long an Event is there that was told, by default of the API server (`--event-ttl`)."""

_UNSAID = ConditionStatus.UNKNOWN, Reason.WAITING
"""What the definition says of a model until an operator has said something."""


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a comparison of an object with its status came to, where that tells of no turn."""

    item: Object
    status: ModelStatus
    waits_since_s: float | None
    """Since when words about the object wait; None where it holds the status."""

    def is_of(self, item: Object, status: ModelStatus) -> bool:
        """Return whether nothing has changed since."""
        return self.item is item and self.status is status

    def left_s(self, words_s: float, now_s: float) -> float:
        """Return how much longer its words wait, where those about models on their way wait for `words_s`."""
        if self.waits_since_s is None:
            return math.inf
        return self.waits_since_s + (WORDS_S if self.status.settled else words_s) - now_s


class StatusWriter:
    """Writes statuses and Events, those of one model without waiting for another's."""

    def __init__(
        self,
        api: KubernetesApi,
        instance: str,
        background: Background = AWAITED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._instance = instance
        self._background = background
        self._clock = clock
        self._words_at_s = -math.inf
        """When a word about a model on its way was last written."""
        self._looked: dict[str, _Looked] = {}
        """Objects, by their uids, about which nothing was to be written when they were last looked at."""
        self._writing: CallsInFlight[ModelId, None] = CallsInFlight(background)
        self._telling: CallsInFlight[str, bool] = CallsInFlight(background)
        """Events by their names; the next status of a model does not wait for them."""
        self._untold: dict[str, Object] = {}
        self._told: dict[str, float] = {}
        """When each Event that is there was told, by their names, the oldest first."""

    async def write(self, wanted: Wanted, statuses: Mapping[ModelId, ModelStatus]) -> None:
        """Write the statuses that have changed; an object that has gone meanwhile is no error."""
        due = self._due(wanted, statuses)
        await self._writing.run({model: partial(self._write, *change) for model, change in due.items()})
        await self._tell()

    async def _tell(self) -> None:
        """Tell what is not told yet: a model that rests and comes back again and again says the same each time."""
        now_s = self._clock()
        while self._told and next(iter(self._told.values())) <= now_s - TOLD_FOR_S:
            del self._told[next(iter(self._told))]
        events, self._untold = self._untold, {}
        new = {
            name: partial(object_events.tell, self._api, event)
            for name, event in events.items()
            if name not in self._told
        }
        said = await self._telling.run(new)
        self._told |= dict.fromkeys((name for name, is_there in said.items() if is_there), now_s)

    def _due(
        self, wanted: Wanted, statuses: Mapping[ModelId, ModelStatus]
    ) -> dict[ModelId, tuple[Object, ModelStatus]]:
        """Return what is to be written now; a later round sees to the rest."""
        now, before, due = self._clock(), self._looked, {}
        self._looked = {}
        words_s = max(WORDS_S, sum(one.waits_since_s is not None for one in before.values()) / WORDS_PER_S)
        soonest_s, late = math.inf, list[tuple[float, ModelId]]()
        for model, status in statuses.items():
            item = wanted.objects[model]
            uid = item["metadata"]["uid"]
            looked = _looked(model, item, status, before.get(uid), now)
            left_s = 0.0 if looked is None else looked.left_s(words_s, now)
            if looked is None or (left_s <= 0 and status.settled):
                due[model] = item, status
                continue
            self._looked[uid] = looked
            if left_s > 0:
                soonest_s = min(soonest_s, left_s)
            else:
                late.append((left_s, model))
        in_turn = self._in_turn(late, now)
        for model in in_turn:
            due[model] = wanted.objects[model], statuses[model]
            del self._looked[wanted.objects[model]["metadata"]["uid"]]
        if len(in_turn) < len(late):
            soonest_s = min(soonest_s, WORDS_S)
        if soonest_s < math.inf:
            self._background.changed_in(soonest_s)
        return due

    def _in_turn(self, late: list[tuple[float, ModelId]], now_s: float) -> list[ModelId]:
        """Return of which of these models on their way something is said now; each comes with how long it may wait."""
        allowed = int(min(now_s - self._words_at_s, SAVED_S) * WORDS_PER_S)
        chosen = [model for _, model in sorted(late)[:allowed]]
        if chosen:
            self._words_at_s = now_s
        return chosen

    async def _write(self, item: Object, status: ModelStatus) -> None:
        """Write a status, and note which Events are to tell of it; one that fails is tried again."""
        meta, change = item["metadata"], {"status": status_body(status, item)}
        try:
            await self._api.patch(MODEL_DEPLOYMENT, meta["namespace"], meta["name"], change, "status")
        except ApiError as error:
            if not error.answered:
                self._background.changed_in(AGAIN_S)
            if error.status != 404:
                log.warning("A status was not written.", extra={"model": meta["name"], "error": str(error)})
            return
        said = news(read_status(status.model_id, item), status)
        events = [event_body(item, condition, self._instance) for condition in said]
        self._untold |= {event["metadata"]["name"]: event for event in events}


def _looked(model: ModelId, item: Object, status: ModelStatus, known: _Looked | None, now_s: float) -> _Looked | None:
    """Compare an object with its status, once; None where that tells of a turn. `known`: the look before this one."""
    if known is not None and known.is_of(item, status):
        return known
    if status_body(status, item) == _held(item):
        return _Looked(item, status, None)
    if is_turn(read_status(model, item), status):
        return None
    waits_since_s = None if known is None else known.waits_since_s
    return _Looked(item, status, now_s if waits_since_s is None else waits_since_s)


def is_turn(before: ModelStatus | None, status: ModelStatus) -> bool:
    """Return whether somebody may wait for what is new in a status; else it tells how far a model is on its way."""
    if before is None:
        ready = status.condition(ConditionType.READY)
        return ready is None or ready.reason not in ON_THE_WAY
    if before.observed_generation != status.observed_generation:
        return True
    if before.ready != status.ready or (status.ready and before.served_names != status.served_names):
        return True
    for kind in (ConditionType.READY, ConditionType.PROGRESSING):
        old, new = before.condition(kind), status.condition(kind)
        if old is None or new is None:
            turned = old is not new
        else:
            turned = new.reason is not old.reason and new.reason not in ON_THE_WAY
        if turned:
            return True
    return False


def news(before: ModelStatus | None, status: ModelStatus) -> tuple[Condition, ...]:
    """Return the conditions of which an Event is to tell: each change of Ready, and a rollout that is stuck."""
    changed = []
    for kind in (ConditionType.READY, ConditionType.STALLED):
        old, new = before.condition(kind) if before else None, status.condition(kind)
        known = _UNSAID if old is None else (old.status, old.reason)
        if new is not None and (new.status, new.reason) != known:
            changed.append(new)
    return tuple(
        one for one in changed if one.type is ConditionType.READY or one.reason is Reason.PROGRESS_DEADLINE_EXCEEDED
    )


def status_body(status: ModelStatus, item: Object) -> Object:
    """Return the status as the object is to hold it."""
    full = ModelDeploymentStatus(
        observed_generation=status.observed_generation or item["metadata"]["generation"],
        replicas=status.replicas,
        ready_replicas=status.ready_replicas,
        updated_replicas=status.updated_replicas,
        wanted_replicas=status.wanted_replicas,
        last_progress_time=status.last_progress_time,
        selector=selector_text(item["metadata"]["name"]),
        served_names=status.served_names,
        tokenizer_digest=status.tokenizer_digest,
        conditions=status.conditions,
    )
    return full.model_dump(mode="json", by_alias=True) | {"scaling": _scaling_body(status)}


def _scaling_body(status: ModelStatus) -> Object | None:
    """Return that part without what is not known: the API server leaves that out of what it holds."""
    said = status.scaling
    return None if said is None else said.model_dump(mode="json", by_alias=True, exclude_none=True)


def event_body(item: Object, said: Condition, instance: str) -> Object:
    """Return the Event that says how a model has changed; its name stands for this very transition."""
    normal = said.reason is Reason.READY or said.reason in ON_THE_WAY or said.status is ConditionStatus.UNKNOWN
    key = f"{said.status} {said.reason} {said.last_transition_time}"
    if said.holds:  # an edit that fails changes the reason of a model that stays ready
        key += f" {said.observed_generation}"
    return object_events.event_body(
        object_events.reference_to(MODEL_DEPLOYMENT, item),
        key,
        instance,
        normal=normal,
        reason=str(said.reason),
        note=said.message or "The model serves.",
    )


def _held(item: Object) -> Object | None:
    """Return the status that the object holds, with the fields that the API server leaves out when they are null."""
    status = item.get("status")
    return None if status is None else {"tokenizerDigest": None, "lastProgressTime": None, "scaling": None, **status}
