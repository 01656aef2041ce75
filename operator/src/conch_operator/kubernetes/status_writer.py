"""Writes the status of each ModelDeployment, and an Event when its readiness changes.

Nothing is written that the object says already.
"""

import hashlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime

from conch_contracts.conditions import Condition, ConditionStatus, ConditionType, Reason, set_condition
from conch_contracts.names import API_VERSION, KIND, OPERATOR, ModelId
from conch_contracts.spec.status import ModelDeploymentStatus
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import EVENT, MODEL_DEPLOYMENT, Object
from conch_operator.kubernetes.desired_models import Wanted, read_status
from conch_operator.reconcile.status import ModelStatus
from conch_operator.resources.metadata import selector_text

log = logging.getLogger(__name__)

_LONGEST_NOTE = 1000
_ON_THE_WAY = (Reason.WAITING, Reason.DOWNLOADING, Reason.ENGINE_STARTING, Reason.ROUTE_PENDING, Reason.NO_REPLICAS)
_REFUSED = (Reason.REJECTED, Reason.NOT_HERE)
"""With these a model can be ready, as it was before the change that is refused."""


class StatusWriter:
    """Writes statuses and Events."""

    def __init__(self, api: KubernetesApi, instance: str) -> None:
        self._api = api
        self._instance = instance

    async def write_first(self, wanted: Wanted) -> None:
        """Write to every object that has no status yet that it has been seen."""
        for model, item in wanted.objects.items():
            if "status" not in item and model not in wanted.invalid:
                patched = await self._patch(item, status_body(first_status(model, item), item))
                wanted.objects[model] = patched or item

    async def write(self, wanted: Wanted, statuses: Mapping[ModelId, ModelStatus]) -> None:
        """Write the statuses that have changed; an object that has gone meanwhile is no error."""
        for model, status in {**statuses, **_invalid(wanted)}.items():
            item = wanted.objects[model]
            body = status_body(status, item)
            if body == _held(item):
                continue
            if await self._patch(item, body) is not None:
                await self._event(item, read_status(model, item), status)

    async def _patch(self, item: Object, body: Object) -> Object | None:
        """Write a status; None when that failed for this object, which is tried again."""
        meta = item["metadata"]
        try:
            return await self._api.patch(MODEL_DEPLOYMENT, meta["namespace"], meta["name"], {"status": body}, "status")
        except ApiError as error:
            if not error.answered:
                raise
            if error.status != 404:
                log.warning("A status was not written.", extra={"model": meta["name"], "error": str(error)})
            return None

    async def _event(self, item: Object, before: ModelStatus | None, status: ModelStatus) -> None:
        ready = status.condition(ConditionType.READY)
        old = before.condition(ConditionType.READY) if before else None
        if ready is None or (old is not None and (old.status, old.reason) == (ready.status, ready.reason)):
            return
        try:
            await self._api.create(EVENT, event_body(item, ready, self._instance))
        except ApiError as error:
            if error.status != 409:  # the same Event was written by a round that did not get to its end
                log.warning("An Event was not written.", extra={"error": str(error)})


def first_status(model: ModelId, item: Object) -> ModelStatus:
    """Return what is said about an object that was just seen: that nothing is known yet."""
    generation = item["metadata"]["generation"]
    conditions = (
        Condition(
            type=kind,
            status=ConditionStatus.UNKNOWN,
            reason=Reason.WAITING,
            message="Conch has just seen the model.",
            last_transition_time=_now(),
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
        tokenizer_digest=None,
        conditions=tuple(conditions),
    )


def status_body(status: ModelStatus, item: Object) -> Object:
    """Return the status as the object is to hold it."""
    full = ModelDeploymentStatus(
        observed_generation=status.observed_generation or item["metadata"]["generation"],
        replicas=status.replicas,
        ready_replicas=status.ready_replicas,
        selector=selector_text(item["metadata"]["name"]),
        served_names=status.served_names,
        tokenizer_digest=status.tokenizer_digest,
        conditions=status.conditions,
    )
    return full.model_dump(mode="json", by_alias=True)


def event_body(item: Object, ready: Condition, instance: str) -> Object:
    """Return the Event that says how a model's readiness has changed; its name stands for this very transition."""
    meta = item["metadata"]
    fails = ready.status is ConditionStatus.FALSE or ready.reason in _REFUSED
    normal = not fails or ready.reason in _ON_THE_WAY
    key = f"{meta['uid']} {ready.status} {ready.reason} {ready.last_transition_time}"
    if ready.status is ConditionStatus.TRUE:  # a refused edit changes the reason of a model that stays ready
        key += f" {ready.observed_generation}"
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {
            "name": f"{meta['name']}.{hashlib.sha256(key.encode()).hexdigest()[:16]}",
            "namespace": meta["namespace"],
        },
        "eventTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "type": "Normal" if normal else "Warning",
        "reason": str(ready.reason),
        "action": "Reconcile",
        "note": (ready.message or "The model serves.")[:_LONGEST_NOTE],
        "reportingController": f"{API_VERSION.split('/')[0]}/{OPERATOR}",
        "reportingInstance": instance[:128],
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        },
    }


def _held(item: Object) -> Object | None:
    """Return the status that the object holds, with the fields that the API server leaves out when they are null."""
    status = item.get("status")
    return None if status is None else {"tokenizerDigest": None, **status}


def _invalid(wanted: Wanted) -> dict[ModelId, ModelStatus]:
    """Return the status of objects that cannot be read."""
    statuses = {}
    now = _now()
    for model, message in wanted.invalid.items():
        generation = wanted.objects[model]["metadata"]["generation"]
        before = read_status(model, wanted.objects[model])
        old = before.condition(ConditionType.READY) if before else None
        same = old is not None and old.status is ConditionStatus.FALSE
        ready = Condition(
            type=ConditionType.READY,
            status=ConditionStatus.FALSE,
            reason=Reason.SPEC_INVALID,
            message=f"{message}. What serves it goes on as it is."[:32_768],
            last_transition_time=old.last_transition_time if old is not None and same else now,
            observed_generation=generation,
        )
        statuses[model] = ModelStatus(
            model_id=model,
            observed_generation=generation,
            served_names=before.served_names if before else (),
            replicas=before.replicas if before else 0,
            ready_replicas=before.ready_replicas if before else 0,
            tokenizer_digest=before.tokenizer_digest if before else None,
            conditions=set_condition(before.conditions if before else (), ready),
        )
    return statuses


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
