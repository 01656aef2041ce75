"""The last act of a release, or its last one in a namespace: `conch retire`, a hook that Helm runs before.

Engines belong to their models and stay, but nobody serves them any more, and no operator is left to say so. So it takes
the Lease from the operators, which stop at that, and says in every status that nothing is known. Helm removes the
operators while the Lease is still held; where it does not, they take it back after 15 s and say what is true.

The same is true of EnginePools, and of both in a namespace that an upgrade takes out of `watchNamespaces`: the
operator's rights there go with it, so their statuses are taken back before.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from conch_contracts.conditions import Condition, ConditionStatus, ConditionType, Reason, set_condition
from conch_contracts.names import ModelId
from conch_contracts.spec.engine_pool import EnginePoolStatus
from conch_kit import logs
from conch_kit.settings import StartupError, load
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi, NotLeading
from conch_operator.kubernetes.api.kinds import ENGINE_POOL, MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.api.lease import Leadership
from conch_operator.kubernetes.desired_models import read_status, read_wanted
from conch_operator.kubernetes.status_writer import StatusWriter
from conch_operator.reconcile.status import ModelStatus
from conch_operator.settings import OperatorSettings, ReleaseFile, read_release
from conch_operator.timestamps import timestamp

log = logging.getLogger(__name__)

_UNINSTALLED = (
    "Conch was uninstalled, so nobody serves this {what}. Its {runs} until the {what} is deleted. Install the chart "
    "again to have it served."
)
_LEFT = (
    "This namespace was taken out of the chart's operator.watchNamespaces, so nobody serves this {what}. Its {runs} "
    "until the {what} is deleted. Put the namespace back to have it served."
)


@dataclass(frozen=True, slots=True)
class Departure:
    """Whose statuses are to be taken back, and what is said."""

    namespaces: tuple[str | None, ...]
    """Where models and pools are looked for; None is everywhere."""
    staying: frozenset[str] = frozenset()
    """The namespaces among them whose models go on being served."""
    said: str = _UNINSTALLED

    @property
    def of_a_model(self) -> str:
        """Return what its status says."""
        return self.said.format(what="model", runs="engines run")

    @property
    def of_a_pool(self) -> str:
        """Return what its status says."""
        return self.said.format(what="pool", runs="server runs")


def departure(release: ReleaseFile, left: Sequence[str], staying: Sequence[str]) -> Departure:
    """Return whose statuses to take back: those of some namespaces, of all but some, or of the whole release."""
    if left:
        return Departure(tuple(left), said=_LEFT)
    if staying:
        return Departure((None,), frozenset(staying), _LEFT)
    return Departure(release.watch_namespaces or (None,))


class StatusesLeft(Exception):
    """Some statuses could not be written."""


def main(left: Sequence[str] = (), staying: Sequence[str] = ()) -> int:
    """Take the statuses back and return the exit status: 0 when all were written.

    `left`: only those of these namespaces; `staying`: those of all but these.
    """
    try:
        settings = load(OperatorSettings, os.environ)  # noqa: TID251
        logs.configure(settings.log_level, stream=sys.stderr)
        release = read_release(settings.settings_file)
        asyncio.run(retire(settings, release, departure(release, left, staying)))
    except NotLeading:
        return _failed("an operator has the Lease again")
    except ApiError as error:
        if error.status in (403, 404):  # of a release that was never installed whole: nothing may keep it here
            sys.stderr.write(f"conch retire: {error}. The statuses are left as they are.\n")
            return 0
        return _failed(str(error))
    except (StartupError, StatusesLeft) as error:
        return _failed(str(error))
    return 0


def _failed(why: str) -> int:
    sys.stderr.write(f"conch retire: {why}\n")
    return 1


async def retire(settings: OperatorSettings, release: ReleaseFile, departing: Departure) -> None:
    """Take the operator's place and tell of all that nobody looks after any more; raises NotLeading, StatusesLeft."""
    async with KubernetesApi() as lease_api:
        leadership = Leadership(lease_api, (release.release.namespace, release.lease), settings.pod_name)
        await leadership.take_over()
        async with KubernetesApi(leadership.is_held) as api:
            holding = asyncio.create_task(leadership.hold())
            try:
                await take_statuses_back(api, settings.pod_name, departing)
            finally:
                holding.cancel()
                await asyncio.wait([holding])


async def take_statuses_back(api: KubernetesApi, instance: str, departing: Departure) -> None:
    """Say in the status of each model and pool that nothing is known any more; raises ApiError and StatusesLeft."""
    wanted = read_wanted(await _listed(api, MODEL_DEPLOYMENT, departing))
    statuses = {model: removed_status(model, item, departing.of_a_model) for model, item in wanted.objects.items()}
    await StatusWriter(api, instance).write(wanted, statuses)
    for item in await _pools(api, departing):
        if not _is_taken_back(item):
            await _take_pool_back(api, item, departing.of_a_pool)
    there = [*await _listed(api, MODEL_DEPLOYMENT, departing), *await _pools(api, departing)]
    left = [item["metadata"]["name"] for item in there if not _is_taken_back(item)]
    if left:
        raise StatusesLeft(
            f"The statuses of {len(left)} models and pools could not be written, that of {left[0]} for one."
        )
    log.info("The statuses were taken back.", extra={"statuses": len(there)})


async def _take_pool_back(api: KubernetesApi, item: Object, message: str) -> None:
    meta = item["metadata"]
    change = {"status": removed_pool_status(item, message)}
    try:
        await api.patch(ENGINE_POOL, meta["namespace"], meta["name"], change, "status")
    except ApiError as error:  # whether it has mattered is looked at when all were written
        log.warning("A status was not written.", extra={"pool": meta["name"], "error": str(error)})


async def _pools(api: KubernetesApi, departing: Departure) -> list[Object]:
    """Return the EnginePools; none where the version that goes knows none, and so has no definition or rights."""
    try:
        return await _listed(api, ENGINE_POOL, departing)
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        return []


async def _listed(api: KubernetesApi, kind: Kind, departing: Departure) -> list[Object]:
    found = [item for namespace in departing.namespaces for item in await _of_namespace(api, kind, namespace)]
    return [
        item
        for item in found
        if "deletionTimestamp" not in item["metadata"] and item["metadata"]["namespace"] not in departing.staying
    ]


async def _of_namespace(api: KubernetesApi, kind: Kind, namespace: str | None) -> list[Object]:
    """Return the objects of a namespace; one that may not be read, since it was deleted, holds up no other."""
    try:
        return await api.list_all(kind, namespace)
    except ApiError as error:
        if namespace is None or error.status != 403:
            raise
        log.warning("A namespace may not be read.", extra={"namespace": namespace, "error": str(error)})
        return []


def _is_taken_back(item: Object) -> bool:
    conditions = item.get("status", {}).get("conditions", ())
    return any(each["reason"] == Reason.OPERATOR_REMOVED for each in conditions)


def removed_status(model: ModelId, item: Object, message: str) -> ModelStatus:
    """Return what is true of a model that no operator sees any more."""
    generation: int = item["metadata"]["generation"]
    old = read_status(model, item)
    conditions: tuple[Condition, ...] = old.conditions if old else ()
    for kind in ConditionType:
        conditions = set_condition(conditions, _unknown(kind, generation, message))
    return ModelStatus(
        model_id=model,
        observed_generation=generation,
        served_names=(),
        replicas=old.replicas if old else 0,
        ready_replicas=0,
        updated_replicas=old.updated_replicas if old else 0,
        last_progress_time=old.last_progress_time if old else timestamp(),
        tokenizer_digest=old.tokenizer_digest if old else None,
        conditions=conditions,
    )


def removed_pool_status(item: Object, message: str) -> Object:
    """Return what is true of a pool that no operator sees any more, as the object is to hold it."""
    generation: int = item["metadata"]["generation"]
    try:
        old = EnginePoolStatus.model_validate(item.get("status") or {})
    except ValidationError:  # of another version
        old = EnginePoolStatus()
    conditions = old.conditions
    for kind in {ConditionType.READY, *(one.type for one in old.conditions)}:
        conditions = set_condition(conditions, _unknown(kind, generation, message))
    status = EnginePoolStatus(observed_generation=generation, models=old.models, conditions=conditions)
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def _unknown(kind: ConditionType, generation: int, message: str) -> Condition:
    return Condition(
        type=kind,
        status=ConditionStatus.UNKNOWN,
        reason=Reason.OPERATOR_REMOVED,
        message=message,
        last_transition_time=timestamp(),
        observed_generation=generation,
    )
