"""What a case is, and short words to write one with."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Spec = Mapping[str, Any]

GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
EXTERNAL = {"grpc": "triton.example.com:8001", "dialect": "tokens"}
SHA256 = "sha256:" + "0" * 64


@dataclass(frozen=True, slots=True)
class Case:
    """One bad spec and its accepted twin; both replace fields of the smallest good one, and None removes a field."""

    row: int
    name: str
    refused: Spec
    field: str
    """What the refusal must name."""
    accepted: Spec
    says: str = ""
    """A part of the message of the rule that refuses it, the same everywhere."""

    @property
    def id(self) -> str:
        """Return the name of the test."""
        return f"{self.row}-{self.name}"


def model(spec: Spec, name: str = "model") -> dict[str, Any]:
    """Return the smallest good ModelDeployment with some fields replaced."""
    smallest = {"kind": "LLM", "source": {"path": "models/tiny"}, "engine": {"cpu": {}}}
    changed = {field: value for field, value in (smallest | dict(spec)).items() if value is not None}
    return {
        "apiVersion": "conch.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": name},
        "spec": copy.deepcopy(changed),
    }


def cpu(**beside: Any) -> Spec:
    return {"engine": {"cpu": {}, **beside}}


def engine(**fields: Any) -> Spec:
    return {"engine": fields}


def source(**fields: Any) -> Spec:
    return {"source": fields}


def s3(**fields: Any) -> Spec:
    return source(s3={"uri": "s3://models/tiny", **fields})


def hub(**fields: Any) -> Spec:
    return source(huggingFace={"repo": "org/name", **fields})


def vllm(gpus: str, **fields: Any) -> Spec:
    return engine(vllm=fields, resources={"limits": {"nvidia.com/gpu": gpus}})


def env(name: str, value: str = "1") -> Spec:
    return cpu(env=[{"name": name, "value": value}])


def toleration(**fields: Any) -> Spec:
    return cpu(tolerations=[fields])


def node(**expression: Any) -> Spec:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return cpu(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def template(**fields: Any) -> Spec:
    return {"tokenizer": {"chatTemplate": fields}}


def routing(**fields: Any) -> Spec:
    return {"routing": fields}


def generation(**fields: Any) -> Spec:
    return {"generation": fields}
