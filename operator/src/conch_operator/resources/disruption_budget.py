"""The PodDisruptionBudget that lets a drained node take one engine of a model at a time."""

from typing import Any

from conch_operator.resources.metadata import child_name, metadata, selector
from conch_operator.state import DesiredModel

Object = dict[str, Any]


def make_disruption_budget(model: DesiredModel) -> Object:
    """Return the budget of a model's engines."""
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
