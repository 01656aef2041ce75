"""The ModelDeployment: what a user writes, on a laptop and on a cluster alike.

The parts of its spec live in `conch_contracts.spec`; this module puts them together, holds the rules that span
several fields, and turns what pydantic says about a bad object into sentences for its author.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from conch_contracts.names import API_VERSION, KIND, LOCAL_NAMESPACE, ModelId, ServedName
from conch_contracts.records import ModelKind
from conch_contracts.spec.engine import EngineSpec
from conch_contracts.spec.fields import Flag, Integer, SpecPart
from conch_contracts.spec.generation import GenerationSpec
from conch_contracts.spec.routing import RoutingSpec
from conch_contracts.spec.source import SourceSpec, TokenizerSpec

ServedNameString = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$", max_length=253)]


class Metadata(BaseModel):
    """The part of Kubernetes' object metadata that Conch reads; the rest is Kubernetes' business."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
    """A DNS label of at most 40 characters: names of engines are made from it."""
    namespace: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)] = LOCAL_NAMESPACE
    """The namespace; `local` on a laptop."""


class ModelSpec(SpecPart):
    """What to serve, from where, and how."""

    kind: ModelKind
    """What the model does: LLM, Embedding, Rerank or Classify. Cannot be changed later."""
    served_names: Annotated[tuple[ServedNameString, ...], Field(max_length=64)] = ()
    """The names that clients put in `model`; the first is canonical, the others are aliases. Default: metadata.name."""
    default: Flag = False
    """Whether the model answers requests without a model name. Default: false."""
    replicas: Annotated[Integer, Field(ge=0, le=1000)] = 1
    """How many engines to run. Default: 1."""
    source: SourceSpec
    """Where the model's files come from."""
    engine: EngineSpec
    """How its engines are run."""
    tokenizer: TokenizerSpec = TokenizerSpec()
    """Settings of its tokenizer."""
    generation: GenerationSpec = GenerationSpec()
    """Defaults for requests."""
    routing: RoutingSpec = RoutingSpec()
    """How requests reach its engines."""

    @model_validator(mode="after")
    def _served_names_differ(self) -> Self:
        if len(set(self.served_names)) != len(self.served_names):
            raise ValueError("servedNames holds a name twice; remove one of the two")
        return self

    @model_validator(mode="after")
    def _external_engine_fits(self) -> Self:
        external = self.engine.external
        if external is None:
            return self
        if self.replicas != 1:
            raise ValueError("an external engine is not started by Conch: remove replicas")
        if self.kind is ModelKind.LLM and external.grpc is None:
            raise ValueError("kind LLM needs engine.external.grpc: set it to the host:port of Triton's gRPC endpoint")
        if self.kind is ModelKind.LLM and external.dialect is None:
            raise ValueError("kind LLM needs engine.external.dialect: set it to tokens or fastertransformer")
        return self


class ModelDeployment(SpecPart):
    """One model to serve."""

    api_version: Literal["conch.dev/v1alpha1"]
    """Always conch.dev/v1alpha1."""
    kind: Literal["ModelDeployment"]
    """Always ModelDeployment."""
    metadata: Metadata
    """Its name and namespace."""
    spec: ModelSpec
    """What to serve, from where, and how."""
    status: Mapping[str, Any] | None = Field(default=None, exclude=True)
    """Written by Conch, ignored on input."""

    @property
    def model_id(self) -> ModelId:
        """Return `namespace/name`, the key of everything about this model."""
        return ModelId(f"{self.metadata.namespace}/{self.metadata.name}")

    @property
    def served_names(self) -> tuple[ServedName, ...]:
        """Return the names that clients may say; the object's own name when none are listed."""
        return tuple(ServedName(name) for name in self.spec.served_names or (self.metadata.name,))


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with an object, and where."""

    path: tuple[str | int, ...]
    message: str

    @property
    def field(self) -> str:
        """Return the path as its author would write it: `spec.generation.badWords[0]`."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return text.removeprefix(".")


class InvalidModelDeployment(Exception):
    """An object that is no ModelDeployment; `problems` says why, one entry per fault."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{p.field}: {p.message}" if p.path else p.message for p in problems))
        self.problems = problems


def parse(data: Mapping[str, object]) -> ModelDeployment:
    """Return the ModelDeployment that this data describes; raises InvalidModelDeployment."""
    if (data.get("apiVersion"), data.get("kind")) != (API_VERSION, KIND):
        raise InvalidModelDeployment((_wrong_type(data),))
    try:
        return ModelDeployment.model_validate(data)
    except ValidationError as error:
        raise InvalidModelDeployment(tuple(_problem(detail) for detail in error.errors())) from error


def _wrong_type(data: Mapping[str, object]) -> Problem:
    found = f"apiVersion {data.get('apiVersion', 'missing')}, kind {data.get('kind', 'missing')}"
    return Problem(("kind",), f"expected apiVersion {API_VERSION} and kind {KIND}, found {found}")


def _problem(detail: ErrorDetails) -> Problem:
    path = detail["loc"]
    match detail["type"]:
        case "extra_forbidden":
            return Problem(path, "unknown field" + _did_you_mean(path))
        case "missing":
            return Problem(path, "is required")
        case "value_error":
            return Problem(path, detail["msg"].removeprefix("Value error, "))
        case "string_pattern_mismatch":
            return Problem(path, f'"{detail["input"]}" does not match {detail["ctx"]["pattern"]}')
        case _:
            message = detail["msg"][:1].lower() + detail["msg"][1:]
            return Problem(path, f"{message}, found {_shown(detail['input'])}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _did_you_mean(path: tuple[str | int, ...]) -> str:
    """Return a hint from the fields of the object that the unknown one stands in."""
    part: type[BaseModel] | None = ModelDeployment
    for step in path[:-1]:
        part = _part_at(part, step)
    if part is None:
        return ""
    known = [field.alias or name for name, field in part.model_fields.items()]
    close = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.6)
    return f", did you mean {close[0]}?" if close else f"; known here: {', '.join(known)}"


def _part_at(part: type[BaseModel] | None, step: str | int) -> type[BaseModel] | None:
    for name, field in part.model_fields.items() if part is not None else ():
        if (field.alias or name) == step:
            options = (field.annotation, *get_args(field.annotation))
            return next((kind for kind in options if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
    return None
