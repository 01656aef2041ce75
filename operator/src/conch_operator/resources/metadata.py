"""Names, labels, owner and hash of what is made for a model; every other module here uses these."""

import hashlib
import json
from typing import Any

from conch_contracts.names import (
    API_VERSION,
    COMPONENT_LABEL,
    ENGINE_COMPONENT,
    KIND,
    MANAGED_BY_LABEL,
    MODEL_LABEL,
    NAME_LABEL,
    OPERATOR,
    SPEC_HASH_LABEL,
)
from conch_operator.state import DesiredModel

Object = dict[str, Any]


def child_name(model: DesiredModel, component: str = ENGINE_COMPONENT) -> str:
    """Return the name of an object that is made for a model."""
    return f"{model.deployment.metadata.name}-{component}"


def selector(model: DesiredModel, component: str = ENGINE_COMPONENT) -> dict[str, str]:
    """Return the labels that select the pods of a model."""
    return {MODEL_LABEL: model.deployment.metadata.name, COMPONENT_LABEL: component}


def labels(model: DesiredModel, component: str = ENGINE_COMPONENT) -> dict[str, str]:
    """Return the labels of everything that is made for a model."""
    return {NAME_LABEL: "conch", MANAGED_BY_LABEL: OPERATOR, **selector(model, component)}


def metadata(model: DesiredModel, name: str, component: str = ENGINE_COMPONENT) -> Object:
    """Return the metadata of an object that goes when its ModelDeployment goes."""
    return {
        "name": name,
        "namespace": model.deployment.metadata.namespace,
        "labels": labels(model, component),
        "ownerReferences": [owner_reference(model)],
    }


def owner_reference(model: DesiredModel) -> Object:
    """Return the reference by which Kubernetes deletes an object after its ModelDeployment."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": model.deployment.metadata.name,
        "uid": model.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def with_hash(made: Object) -> Object:
    """Return an object with a label of its own hash: one on the cluster with another hash was made differently."""
    meta = made["metadata"]
    return made | {"metadata": meta | {"labels": meta["labels"] | {SPEC_HASH_LABEL: digest(made)}}}


def with_template_hash(template: Object) -> Object:
    """Return a pod template with a label of its own hash, by which its pods are known among those of older ones."""
    meta = template["metadata"]
    return template | {"metadata": meta | {"labels": meta["labels"] | {SPEC_HASH_LABEL: digest(template)}}}


def template_hash(deployment: Object) -> str:
    """Return the hash that the pods of a Deployment carry; empty for one without."""
    labels: dict[str, str] = deployment["spec"]["template"]["metadata"]["labels"]
    return labels.get(SPEC_HASH_LABEL, "")


def digest(value: object) -> str:
    """Return a short name for a value; equal values have equal ones."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def selector_text(name: str) -> str:
    """Return the label selector of a model's engines as one string, for the scale subresource."""
    return f"{MODEL_LABEL}={name},{COMPONENT_LABEL}={ENGINE_COMPONENT}"
