"""Makes the CustomResourceDefinitions of ModelDeployment and EnginePool from their types."""

import yaml
from pydantic import BaseModel

from conch_contracts.conditions import ConditionStatus, ConditionType, Reason
from conch_contracts.enginepool import EnginePool
from conch_contracts.modeldeployment import ModelDeployment, ModelSpec
from conch_contracts.names import (
    GROUP,
    KIND,
    PLURAL,
    POOL_KIND,
    POOL_PLURAL,
    POOL_SHORT_NAME,
    SHORT_NAME,
    VERSION,
)
from conch_contracts.spec.engine_pool import EnginePoolSpec, EnginePoolStatus
from conch_contracts.spec.rule_types import validations_of
from conch_contracts.spec.status import ModelDeploymentStatus
from generate.structural_schema import Schema, structural

_HEADER = "# Made by `make generate` from libs/contracts; edit the types there.\n"


def crd_text() -> str:
    """Return the CustomResourceDefinition of ModelDeployment as YAML."""
    return _text(crd())


def pool_crd_text() -> str:
    """Return that of EnginePool."""
    return _text(pool_crd())


def _text(definition: Schema) -> str:
    return _HEADER + yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def crd() -> Schema:
    """Return the CustomResourceDefinition of ModelDeployment."""
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    return _definition(KIND, PLURAL, SHORT_NAME, _version(schema(), _columns(), {"status": {}, "scale": scale}))


def pool_crd() -> Schema:
    """Return the CustomResourceDefinition of EnginePool."""
    return _definition(
        POOL_KIND, POOL_PLURAL, POOL_SHORT_NAME, _version(pool_schema(), _pool_columns(), {"status": {}})
    )


def _definition(kind: str, plural: str, short_name: str, version: Schema) -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short_name],
                "categories": ["conch"],
            },
            "versions": [version],
        },
    }


def _version(validated: Schema, columns: list[Schema], subresources: Schema) -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "subresources": subresources,
        "schema": {"openAPIV3Schema": validated},
    }


def pool_schema() -> Schema:
    """Return the structural schema of a whole EnginePool."""
    described = "One server for many models, of which some are loaded at a time."
    return _whole(EnginePool, POOL_KIND, described, structural(EnginePoolSpec), structural(EnginePoolStatus))


def schema() -> Schema:
    """Return the structural schema of a whole ModelDeployment."""
    described = "One model to serve: what it is, where its files are, and how its engines are run."
    status = structural(ModelDeploymentStatus) | {"default": {"conditions": _unsaid()}}
    return _whole(ModelDeployment, KIND, described, structural(ModelSpec), status)


def _unsaid() -> list[Schema]:
    """Return the conditions of a model of which no operator has said anything: it has some from the first moment.

    As in the Gateway API their time is the beginning of Unix time: nothing has happened yet.
    """
    return [
        {
            "type": kind.value,
            "status": (ConditionStatus.TRUE if kind is ConditionType.RECONCILING else ConditionStatus.UNKNOWN).value,
            "reason": Reason.WAITING.value,
            "message": "The operator has said nothing of it yet.",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }
        for kind in ConditionType
    ]


def _whole(model: type[BaseModel], kind: str, described: str, spec: Schema, status: Schema) -> Schema:
    return {
        "type": "object",
        "description": described,
        "required": ["spec"],
        "x-kubernetes-validations": validations_of(model),
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"Always {kind}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }


def _columns() -> list[Schema]:
    """Return what `kubectl get mdep` shows: the message last, for it is empty while nothing is wrong."""
    rollout = '.status.conditions[?(@.type=="Progressing")]'
    ready = '.status.conditions[?(@.type=="Ready")]'
    return [
        {"name": "Kind", "type": "string", "jsonPath": ".spec.kind", "priority": 1},
        {"name": "Ready", "type": "string", "jsonPath": f"{ready}.status"},
        {"name": "Reason", "type": "string", "jsonPath": f"{ready}.reason"},
        {"name": "Rollout", "type": "string", "jsonPath": f"{rollout}.reason", "description": "How far an edit is."},
        {"name": "Updated", "type": "integer", "jsonPath": ".status.updatedReplicas", "priority": 1},
        {"name": "Engines", "type": "integer", "jsonPath": ".status.readyReplicas", "description": "Ready engines."},
        {"name": "Wanted", "type": "integer", "jsonPath": ".status.wantedReplicas", "description": "Engines wanted."},
        {"name": "Scaled", "type": "string", "jsonPath": ".status.scaling.reason", "priority": 1},
        {"name": "Served names", "type": "string", "jsonPath": ".status.servedNames"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Message", "type": "string", "jsonPath": f"{ready}.message"},
    ]


def _pool_columns() -> list[Schema]:
    """Return what `kubectl get epool` shows."""
    ready = '.status.conditions[?(@.type=="Ready")]'
    return [
        {"name": "Ready", "type": "string", "jsonPath": f"{ready}.status"},
        {"name": "Reason", "type": "string", "jsonPath": f"{ready}.reason"},
        {"name": "Loaded", "type": "integer", "jsonPath": ".status.loaded", "description": "Models that are loaded."},
        {"name": "Models", "type": "integer", "jsonPath": ".status.models", "description": "Models that are placed."},
        {"name": "Used", "type": "string", "jsonPath": ".status.memoryUsed", "description": "Memory, as measured."},
        {"name": "Memory", "type": "string", "jsonPath": ".spec.memory"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Message", "type": "string", "jsonPath": f"{ready}.message"},
    ]


class _Dumper(yaml.SafeDumper):
    """Writes a repeated part out each time it occurs: references of YAML would only confuse readers."""

    def ignore_aliases(self, data: object) -> bool:
        return True
