"""Tells the ReplicaSet of a model that has too many pods which to end first: the one with the least to do."""

import asyncio
import logging
from collections.abc import Sequence

from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import POD, Object
from conch_operator.kubernetes.pods.pod_status import engine_address
from conch_operator.state import DesiredModel

log = logging.getLogger(__name__)

_COST = "controller.kubernetes.io/pod-deletion-cost"
SEEN_S = 1.0
"""Within which the controller of ReplicaSets, which chooses by a copy that it keeps, has heard of a new cost."""


async def note_costs(api: KubernetesApi, model: DesiredModel, pods: Sequence[Object]) -> None:
    """Give each pod the number of its taken slots as its cost, when some but not all of them are about to go.

    Return when whoever chooses has heard of that. Raises ApiError when no answer comes. The annotation goes the way of
    the readiness gate, by the pod's status, which needs no right to change pods.
    """
    if model.scaled is None or not 0 < model.replicas < len(pods):
        return
    news = False
    for pod in pods:
        meta, cost = pod["metadata"], str(model.scaled.taken.get(engine_address(pod), 0))
        if meta.get("annotations", {}).get(_COST, "0") == cost:
            continue
        change = {"metadata": {"annotations": {_COST: cost}}}
        news = True
        try:
            await api.patch_list(POD, meta["namespace"], meta["name"], change, "status")
        except ApiError as error:
            if not error.answered:
                raise
            if error.status != 404:
                details = {"pod": meta["name"], "error": str(error)}
                log.warning("What a pod has to do was not noted: another may end first.", extra=details)
    if news:
        await asyncio.sleep(SEEN_S)
