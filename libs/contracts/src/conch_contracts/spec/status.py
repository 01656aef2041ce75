"""What Conch writes into a ModelDeployment's status; the operator is its only author."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from conch_contracts.conditions import Condition
from conch_contracts.names import Digest, ServedName


class ModelDeploymentStatus(BaseModel):
    """Written by Conch, ignored on input."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The metadata.generation that the rest of the status is about."""
    replicas: Annotated[int, Field(ge=0)] = 0
    """Engines that exist."""
    ready_replicas: Annotated[int, Field(ge=0)] = 0
    """Engines that answered their last probe."""
    selector: Annotated[str, Field(max_length=1024)] = ""
    """The label selector of the engines' pods, for the scale subresource."""
    served_names: Annotated[tuple[Annotated[ServedName, Field(max_length=253)], ...], Field(max_length=64)] = ()
    """The names under which the model is served: those that no older ModelDeployment holds."""
    tokenizer_digest: Annotated[Digest, Field(max_length=64)] | None = None
    """SHA-256 of the tokenizer's files."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    """SourceReady, TokenizerReady, EngineReady, RoutePublished, WorkersReady, and Ready, which is True when all of
    these are; the first that is not gives its reason and message. Applied is False while the cluster refuses a change,
    also of a model that serves as before."""
