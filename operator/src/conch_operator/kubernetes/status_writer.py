"""Writes the status of each ModelDeployment, and an Event when its readiness changes or its rollout is stuck.

Nothing is written that the object says already.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from conch_contracts.conditions import ON_THE_WAY, Condition, ConditionStatus, ConditionType, Reason
from conch_contracts.names import ModelId
from conch_contracts.spec.status import ModelDeploymentStatus
from conch_operator.kubernetes.api import object_events
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, Object
from conch_operator.kubernetes.desired_models import Wanted, read_status, read_wanted
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.reconcile.status import ModelStatus
from conch_operator.resources.metadata import selector_text
from conch_operator.timestamps import timestamp

log = logging.getLogger(__name__)


class StatusWriter:
    """Writes statuses and Events, those of one model without waiting for another's."""

    def __init__(self, api: KubernetesApi, instance: str, background: Background = AWAITED) -> None:
        self._api = api
        self._instance = instance
        self._first: CallsInFlight[str, Object | None] = CallsInFlight(background)
        self._firsts: dict[str, Object] = {}
        """The first status of each object that has none yet, by its uid; it is on its way."""
        self._writing: CallsInFlight[ModelId, None] = CallsInFlight(background)
        self._telling: CallsInFlight[str, bool] = CallsInFlight(background)
        """Events by their names; the next status of a model does not wait for them."""
        self._untold: dict[str, Object] = {}

    def note(self, item: Object) -> None:
        """Begin to note on an object without a status, which a watch tells of, that it has been seen."""
        if "status" not in item:
            self._first.start(self._first_writes(read_wanted([item])))

    async def write_first(self, wanted: Wanted) -> None:
        """Note on every object without a status, which no watch has told of, that it has been seen.

        In `wanted` each has that status, though it may still be on its way: what is said next follows on it.
        """
        await self._first.run(self._first_writes(wanted))
        new = {model: item for model, item in wanted.objects.items() if "status" not in item}
        there = self._first.waiting | {item["metadata"]["uid"] for item in new.values()}
        self._firsts = {uid: status for uid, status in self._firsts.items() if uid in there}
        for model, item in new.items():
            if (status := self._firsts.get(item["metadata"]["uid"])) is not None:
                wanted.objects[model] = item | {"status": status}

    async def write(self, wanted: Wanted, statuses: Mapping[ModelId, ModelStatus]) -> None:
        """Write the statuses that have changed; an object that has gone meanwhile is no error."""
        changed = {
            model: (wanted.objects[model], status)
            for model, status in statuses.items()
            if status_body(status, wanted.objects[model]) != _held(wanted.objects[model])
        }
        await self._writing.run({model: partial(self._write, *change) for model, change in changed.items()})
        events, self._untold = self._untold, {}
        await self._telling.run({name: partial(object_events.tell, self._api, event) for name, event in events.items()})

    def _first_writes(self, wanted: Wanted) -> dict[str, Callable[[], Awaitable[Object | None]]]:
        new = {
            model: item
            for model, item in wanted.objects.items()
            if "status" not in item and model not in wanted.desired.unreadable
        }
        for model, item in new.items():
            self._firsts.setdefault(item["metadata"]["uid"], status_body(first_status(model, item), item))
        return {item["metadata"]["uid"]: partial(self._write_first, item) for item in new.values()}

    async def _write_first(self, item: Object) -> Object | None:
        """Write the first status, unless anything has been written since: that is newer."""
        meta = item["metadata"]
        change = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": self._firsts[meta["uid"]]}
        return await self._patch(item, change, expected=(404, 409))

    async def _write(self, item: Object, status: ModelStatus) -> None:
        if await self._patch(item, {"status": status_body(status, item)}) is not None:
            said = news(read_status(status.model_id, item), status)
            events = [event_body(item, condition, self._instance) for condition in said]
            self._untold |= {event["metadata"]["name"]: event for event in events}

    async def _patch(self, item: Object, change: Object, expected: Collection[int] = (404,)) -> Object | None:
        """Write a status; None when that failed for this object, which is tried again."""
        meta = item["metadata"]
        try:
            return await self._api.patch(MODEL_DEPLOYMENT, meta["namespace"], meta["name"], change, "status")
        except ApiError as error:
            if not error.answered:
                raise
            if error.status not in expected:
                log.warning("A status was not written.", extra={"model": meta["name"], "error": str(error)})
            return None


def news(before: ModelStatus | None, status: ModelStatus) -> tuple[Condition, ...]:
    """Return the conditions of which an Event is to tell: each change of Ready, and a rollout that is stuck."""
    changed = []
    for kind in (ConditionType.READY, ConditionType.STALLED):
        old, new = before.condition(kind) if before else None, status.condition(kind)
        if new is not None and (old is None or (old.status, old.reason) != (new.status, new.reason)):
            changed.append(new)
    return tuple(
        one for one in changed if one.type is ConditionType.READY or one.reason is Reason.PROGRESS_DEADLINE_EXCEEDED
    )


def first_status(model: ModelId, item: Object) -> ModelStatus:
    """Return what is said about an object that was just seen: that nothing is known yet."""
    generation = item["metadata"]["generation"]
    conditions = (
        Condition(
            type=kind,
            status=ConditionStatus.TRUE if kind is ConditionType.RECONCILING else ConditionStatus.UNKNOWN,
            reason=Reason.WAITING,
            message="Conch has just seen the model.",
            last_transition_time=timestamp(),
            observed_generation=generation,
        )
        for kind in ConditionType
    )
    return ModelStatus(
        model_id=model,
        observed_generation=generation,
        served_names=(),
        replicas=0,
        ready_replicas=0,
        last_progress_time=timestamp(),
        tokenizer_digest=None,
        conditions=tuple(conditions),
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
