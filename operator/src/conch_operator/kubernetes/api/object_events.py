"""Events: what has happened to an object, told where `kubectl describe` of it shows it."""

import hashlib
import logging

from conch_contracts.names import API_VERSION, OPERATOR
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import EVENT, Kind, Object
from conch_operator.timestamps import micro_timestamp

log = logging.getLogger(__name__)

_LONGEST_NOTE = 1000
_TOLD_ALREADY = 409


def reference_to(kind: Kind, item: Object) -> Object:
    """Return what names an object in an Event; of the item its metadata is read."""
    named = {name: item["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": kind.api_version, "kind": kind.name, **named}


def event_body(about: Object, key: str, instance: str, *, normal: bool, reason: str, note: str) -> Object:
    """Return an Event about the object of a reference; one with the same key is the same Event."""
    mark = hashlib.sha256(f"{about['uid']} {key}".encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {"name": f"{about['name']}.{mark}", "namespace": about["namespace"]},
        "eventTime": micro_timestamp(),
        "type": "Normal" if normal else "Warning",
        "reason": reason,
        "action": "Reconcile",
        "note": note[:_LONGEST_NOTE],
        "reportingController": f"{API_VERSION.split('/')[0]}/{OPERATOR}",
        "reportingInstance": instance[:128],
        "regarding": about,
    }


async def tell(api: KubernetesApi, event: Object) -> bool:
    """Write an Event, unless it is there, and return whether it is there now; one that cannot be written is logged."""
    try:
        await api.create(EVENT, event)
    except ApiError as error:
        if error.status != _TOLD_ALREADY:
            log.warning("An Event was not written.", extra={"error": str(error)})
            return False
    return True
