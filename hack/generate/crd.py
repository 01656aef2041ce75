"""Makes the CustomResourceDefinition of ModelDeployment from its types."""

import yaml

from conch_contracts.modeldeployment import ModelDeployment, ModelSpec
from conch_contracts.names import GROUP, KIND, PLURAL, SHORT_NAME, VERSION
from conch_contracts.spec.rule_types import validations_of
from conch_contracts.spec.status import ModelDeploymentStatus
from generate.structural_schema import Schema, structural

_HEADER = "# Made by `make generate` from libs/contracts; edit the types there.\n"


def crd_text() -> str:
    """Return the CustomResourceDefinition as YAML."""
    return _HEADER + yaml.dump(crd(), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def crd() -> Schema:
    """Return the CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": [SHORT_NAME],
                "categories": ["conch"],
            },
            "versions": [_version()],
        },
    }


def _version() -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": _columns(),
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": schema()},
    }


def schema() -> Schema:
    """Return the structural schema of the whole object."""
    return {
        "type": "object",
        "description": "One model to serve: what it is, where its files are, and how its engines are run.",
        "required": ["spec"],
        "x-kubernetes-validations": validations_of(ModelDeployment),
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"Always {KIND}."},
            "metadata": {"type": "object"},
            "spec": structural(ModelSpec),
            "status": structural(ModelDeploymentStatus),
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


class _Dumper(yaml.SafeDumper):
    """Writes a repeated part out each time it occurs: references of YAML would only confuse readers."""

    def ignore_aliases(self, data: object) -> bool:
        return True
