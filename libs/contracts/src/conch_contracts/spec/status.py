"""What Conch writes into a ModelDeployment's status; the operator is its only author."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from conch_contracts.conditions import Condition
from conch_contracts.names import Digest, ServedName


class ScalingStatus(BaseModel):
    """What was decided about the number of engines; there with `spec.scaling`, `spec.placement` or `routing.hold`."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    desired: Annotated[int, Field(ge=0)]
    """How many engines there are to be."""
    reason: Annotated[str, Field(max_length=64)]
    """Why so many, in one word: Load, Idle, Lent, Minimum, Maximum, Schedule, Woken, FirstStart or Found; with
    `spec.placement` Resident, Pinned, Waiting, Leaving or Out; with `spec.routing.hold` Replicas."""
    last_scale_time: Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})] | None = None
    """When the number last changed, RFC 3339."""
    start_seconds: Annotated[int, Field(ge=0)] | None = None
    """How long an engine takes from its start to its first answer: the median of the last starts. With
    `spec.placement` from the first request that waits for it, so the wait for room is in it."""
    memory_bytes: Annotated[int, Field(ge=0)] | None = None
    """How much memory the model takes in its EnginePool, as measured when it was last loaded."""


class ModelDeploymentStatus(BaseModel):
    """Written by Conch, ignored on input."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )

    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The metadata.generation that the rest of the status is about."""
    replicas: Annotated[int, Field(ge=0)] = 0
    """Engines that exist."""
    wanted_replicas: Annotated[int, Field(ge=0)] = 0
    """Engines that there are to be: `spec.replicas`, or what `spec.scaling` has come to."""
    ready_replicas: Annotated[int, Field(ge=0)] = 0
    """Engines that answered their last probe and get requests."""
    updated_replicas: Annotated[int, Field(ge=0)] = 0
    """Engines that are of the spec as it is now, whether they answer or not; one of someone else, once it answers."""
    last_progress_time: Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})] | None = None
    """When what the spec asks for last got on; `progressDeadline` counts from here. RFC 3339."""
    selector: Annotated[str, Field(max_length=1024)] = ""
    """The label selector of the engines' pods, for the scale subresource."""
    served_names: Annotated[tuple[Annotated[ServedName, Field(max_length=253)], ...], Field(max_length=64)] = ()
    """The names under which the model is served: those that no other ModelDeployment holds."""
    tokenizer_digest: Annotated[Digest, Field(max_length=64)] | None = None
    """SHA-256 of the tokenizer's files."""
    scaling: ScalingStatus | None = None
    """What was decided about the number of engines; only with `spec.scaling`, `spec.placement` or `routing.hold`."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    """SourceReady and TokenizerReady are about what the spec asks for; EngineReady, RoutePublished and WorkersReady are
    about what serves. Ready is True while requests work, by engines of an older spec too; else the first condition that
    does not hold gives it reason and message. Progressing is True while what the spec asks for is on its way, and with
    the reason NewEngineAvailable once it is there; it is False when that has not got on for progressDeadline.
    Reconciling and Stalled say the same for kstatus. Applied is False while the cluster refuses a change."""
