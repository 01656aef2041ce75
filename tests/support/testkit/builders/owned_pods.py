"""Pods of a model as its Deployment would make them, with the ReplicaSets and Deployments that they come from."""

from collections.abc import Iterable
from typing import Any

from conch_contracts.names import COMPONENT_LABEL, MODEL_LABEL

Object = dict[str, Any]


def made_by(pod: Object, replica_set: str = "rs") -> Object:
    """Let a pod be controlled by a ReplicaSet, and return it."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": replica_set, "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


def replica_sets_of(pods: Iterable[Object]) -> list[Object]:
    """Return the ReplicaSets that control these pods, each of a Deployment of its own."""
    return [
        {
            "metadata": {
                "name": owner["name"],
                "namespace": pod["metadata"]["namespace"],
                "uid": owner["uid"],
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": owner["name"],
                        "uid": f"deployment-{owner['uid']}",
                        "controller": True,
                    }
                ],
            }
        }
        for pod in pods
        for owner in pod["metadata"].get("ownerReferences", ())
    ]


def deployments_of(pods: Iterable[Object]) -> list[Object]:
    """Return the Deployments of those ReplicaSets, each owned by the ModelDeployment of its pod's label."""
    found: dict[str, Object] = {}
    for pod in pods:
        meta = pod["metadata"]
        for owner in meta.get("ownerReferences", ()):
            model = {
                "apiVersion": "conch.dev/v1alpha1",
                "kind": "ModelDeployment",
                "name": meta["labels"][MODEL_LABEL],
                "uid": f"model-{meta['labels'][MODEL_LABEL]}",
                "controller": True,
            }
            labels = {name: meta["labels"][name] for name in (MODEL_LABEL, COMPONENT_LABEL) if name in meta["labels"]}
            found[owner["uid"]] = {
                "metadata": {
                    "name": owner["name"],
                    "namespace": meta["namespace"],
                    "uid": f"deployment-{owner['uid']}",
                    "resourceVersion": "1",
                    "generation": 1,
                    "labels": labels,
                    "ownerReferences": [model],
                }
            }
    return list(found.values())
