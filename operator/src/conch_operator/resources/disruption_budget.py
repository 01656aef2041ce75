"""The PodDisruptionBudget that lets a drained node take one engine of a model at a time.

A model that never has more than one has none: it would hold nothing back.
"""

from typing import Any

from conch_operator.resources.metadata import child_name, metadata, selector
from conch_operator.state import DesiredModel

Object = dict[str, Any]


def make_disruption_budget(model: DesiredModel) -> Object | None:
    """Return the budget of a model's engines; None where one is all that there may be."""
    spec = model.deployment.spec
    if (spec.replicas if spec.scaling is None else spec.scaling.max_replicas) <= 1:
        return None
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(model, child_name(model)),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": selector(model)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
